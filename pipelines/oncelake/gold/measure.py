"""Measures of a gold table: how they are declared, and why functions that cannot be merged are rejected."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from oncelake.common.wording import did_you_mean
from oncelake.gold.functions import ACCEPTED, FUNCTIONS, ORDERED, Function, Part

_DISTINCT = "exact distinct values of two batches do not add up; use approx_distinct(x)"
_QUANTILE = "it has another form; use percentile(x, 0.95)"
_TOP = "it is not exact over batches; declare x as a key in `by` and a count, and sort when reading, or read silver"
_FIRST = "it has another form; use first(x), by log_time, or first(x, order)"
_LAST = "it has another form; use last(x), by log_time, or last(x, order)"
_VARIANCE = "it is the square of another measure; use stddev(x)"
_MOMENTS = "it is not additive; declare sums of the products, and compute it when reading"
_LIST = "a list grows without bound and has no defined order; read silver for the values"
_COUNT_IF = "it is a count of lines; use count where CONDITION"

NOT_ADDITIVE: Mapping[str, str] = {
    **dict.fromkeys(("mean", "try_avg"), "it has another name; use avg(x)"),
    **dict.fromkeys(("count_distinct", "countdistinct", "distinct"), _DISTINCT),
    "approx_count_distinct": "its result keeps no sketch to merge with; use approx_distinct(x)",
    "median": "it has another form; use percentile(x, 0.5)",
    **dict.fromkeys(("percentile_approx", "approx_percentile", "percentile_cont", "percentile_disc"), _QUANTILE),
    **dict.fromkeys(("mode", "approx_top_k", "histogram_numeric"), _TOP),
    **dict.fromkeys(("first_value", "any_value", "min_by"), _FIRST),
    **dict.fromkeys(("last_value", "max_by"), _LAST),
    **dict.fromkeys(("std", "stddev_samp"), "it has another name; use stddev(x)"),
    **dict.fromkeys(("stddev_pop", "variance", "var_pop", "var_samp"), _VARIANCE),
    **dict.fromkeys(("corr", "covar_pop", "covar_samp", "skewness", "kurtosis"), _MOMENTS),
    **dict.fromkeys(("collect_list", "collect_set", "array_agg", "listagg", "string_agg"), _LIST),
    **dict.fromkeys(("count_if", "countif"), _COUNT_IF),
    "try_sum": "sum(x) cannot overflow here; use sum(x)",
}

_WHERE = re.compile(r"(?P<function>count|rate)\s+where\b(?P<condition>.*)", re.DOTALL | re.IGNORECASE)
_SHARE = re.compile(r"0|1|0?\.[0-9]{1,6}|1\.0{1,6}", re.ASCII)
_CALL = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:\((?P<argument>.*)\))?", re.DOTALL | re.ASCII)
_QUOTED = re.compile(
    r"""(?<![A-Za-z0-9_])[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL
)


@dataclass(frozen=True)
class Measure:
    """One measure of a gold table.

    Attributes:
        name: its name.
        function: the function that it uses.
        argument: a Spark SQL expression over silver; empty for count.
        extra: what the function takes besides: the share of a percentile, the order of a first or last.
        kept_as: the measure of whose parts it is shown; None for its own.
    """

    name: str
    function: str
    argument: str = ""
    extra: str = ""
    kept_as: str | None = None

    @property
    def how(self) -> Function:
        """The function that the measure uses."""
        return FUNCTIONS[self.function]

    @property
    def expression(self) -> str:
        """The expression over silver that is aggregated; empty for count."""
        if self.function in ORDERED:
            return f"named_struct('at', {self.extra or 'log_time'}, 'value', {self.argument})"
        return self.argument

    @property
    def text(self) -> str:
        """The measure as it is written."""
        function, where, _ = self.function.partition(" where")
        if where:
            return f"{self.function} {self.argument}"
        return f"{function}({', '.join(filter(None, (self.argument, self.extra)))})"

    @property
    def parts(self) -> Mapping[str, Part]:
        """The measure's parts by the names of their columns; a declared name begins with a letter, a hidden one not."""
        return {f"{part.prefix}{self.kept_as or self.name}": part for part in self.how.parts}

    def shown(self, *parts: str) -> str:
        """Return the SQL of what the measure shows, from the SQL of its parts."""
        return self.how.value.format(*parts, extra=self.extra) if self.how.value else parts[0]


def parse_measure(name: str, text: str) -> Measure:
    """Parse a measure such as `max(log_time)`.

    Raises:
        ValueError: it is not an accepted measure; the message lists those that are, or says why this one is not.
    """
    where = _WHERE.fullmatch(text.strip())
    if where is not None:
        function = f"{where['function'].lower()} where"
        if not where["condition"].strip():
            raise ValueError(f"a condition over silver is needed: {FUNCTIONS[function].form}")
        return Measure(name, function, where["condition"].strip())
    call = _CALL.fullmatch(text.strip())
    if call is None:
        raise ValueError(f"a measure is one of {ACCEPTED}, where x is an expression over silver")
    function, argument = call["name"].lower(), call["argument"]
    _check_function(function)
    if argument is not None and re.match(r"\s*distinct\b", argument, re.IGNORECASE):
        raise ValueError(f"{function}(distinct …) is refused: {_DISTINCT}")
    if function == "percentile":
        value, _, extra = (argument or "").rpartition(",")
        if not _SHARE.fullmatch(extra.strip()):
            raise ValueError("percentile needs a number from 0 to 1 with up to 6 digits, such as percentile(x, 0.95)")
        return Measure(name, function, _argument(function, value), extra.strip())
    if function in ORDERED:
        value, order = _split(argument or "")
        return Measure(name, function, _argument(function, value), order)
    if function != "count":
        return Measure(name, function, _argument(function, argument or ""))
    if argument is not None:
        raise ValueError(
            "count counts lines and is written without parentheses; to count lines where x is not null, "
            "declare count where x IS NOT NULL"
        )
    return Measure(name, function)


def _check_function(function: str) -> None:
    if function in NOT_ADDITIVE:
        raise ValueError(f"{function} is refused: {NOT_ADDITIVE[function]}")
    if function not in FUNCTIONS:
        raise ValueError(f"there is no measure {function}; use one of {ACCEPTED}{did_you_mean(function, FUNCTIONS)}")


def _argument(function: str, text: str) -> str:
    argument = text.strip()
    if not argument:
        raise ValueError(f"{function} needs one expression over silver: {FUNCTIONS[function].form}")
    _check_one_expression(function, argument)
    return argument


def _split(text: str) -> tuple[str, str]:
    """Return two expressions that a comma separates; the second is empty if there is only one."""
    depth, hidden = 0, _QUOTED.sub(lambda quoted: "_" * len(quoted[0]), text)
    for place, mark in enumerate(hidden):
        depth += (mark in "([") - (mark in ")]")
        if depth == 0 and mark == ",":
            order = _argument("first", text[place + 1 :])
            return text[:place], order
    return text, ""


def _check_one_expression(function: str, argument: str) -> None:
    """Raise ValueError for `a) + min(b`, which is two calls, and for `a, b`; quoted text is ignored."""
    depth = 0
    for mark in _QUOTED.sub("", argument):
        depth += (mark in "([") - (mark in ")]")
        if depth < 0 or (depth == 0 and mark == ",") or mark in "'\"`":
            break
    else:
        if depth == 0:
            return
    raise ValueError(
        f"a measure is one function around one expression, {FUNCTIONS[function].form}, with balanced parentheses"
    )
