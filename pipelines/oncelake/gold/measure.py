"""This is where a gold table's measures are named: which there are, and why the others are refused.

A measure must be additive: what a batch adds is computed from the batch's rows alone, and put together
with what the table holds. That is why a replayed or a late batch costs no second look at old rows.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

FUNCTIONS: Mapping[str, str] = {
    "count": "count",
    "sum": "sum(x)",
    "min": "min(x)",
    "max": "max(x)",
    "approx_distinct": "approx_distinct(x)",
}
ACCEPTED = ", ".join(FUNCTIONS.values())

_MEAN = "a mean of means is not the mean; declare a sum(x) and a count, and divide when reading"
_DISTINCT = "exact distinct values of two batches do not add up; use approx_distinct(x)"
_QUANTILE = "a quantile of quantiles is not the quantile; declare counts per value range as keys in `by`"
_ORDER = "which row comes first is not defined; use min(struct(log_time, x)) or max(struct(log_time, x))"
_SPREAD = "it is not additive; declare a count, a sum(x) and a sum of squares, and compute it when reading"
_LIST = "a list grows without bound and has no defined order; read silver for the values"
_COUNT_IF = "it is a sum; declare sum(CASE WHEN … THEN 1 ELSE 0 END)"

NOT_ADDITIVE: Mapping[str, str] = {
    **dict.fromkeys(("avg", "mean", "try_avg"), _MEAN),
    **dict.fromkeys(("count_distinct", "countdistinct", "distinct"), _DISTINCT),
    "approx_count_distinct": "its result keeps no sketch to merge with; use approx_distinct(x)",
    **dict.fromkeys(("median", "percentile", "percentile_approx", "approx_percentile", "mode"), _QUANTILE),
    **dict.fromkeys(("percentile_cont", "percentile_disc", "approx_top_k", "histogram_numeric"), _QUANTILE),
    **dict.fromkeys(("first", "last", "first_value", "last_value", "any_value", "min_by", "max_by"), _ORDER),
    **dict.fromkeys(("stddev", "std", "stddev_pop", "stddev_samp", "variance", "var_pop"), _SPREAD),
    **dict.fromkeys(("var_samp", "corr", "covar_pop", "covar_samp", "skewness", "kurtosis"), _SPREAD),
    **dict.fromkeys(("collect_list", "collect_set", "array_agg", "listagg", "string_agg"), _LIST),
    **dict.fromkeys(("count_if", "countif"), _COUNT_IF),
    "try_sum": "sum(x) cannot overflow here; use sum(x)",
}

_CALL = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:\((?P<argument>.*)\))?", re.DOTALL | re.ASCII)
_QUOTED = re.compile(
    r"""(?<![A-Za-z0-9_])[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL
)


@dataclass(frozen=True)
class Measure:
    """One measure of a gold table; `argument` is a Spark SQL expression over silver, empty for count."""

    name: str
    function: str
    argument: str = ""


def parse_measure(name: str, text: str) -> Measure:
    """Read a measure such as `max(log_time)`.

    Raises:
        ValueError: it is none of the measures there are; says which there are, or why this one cannot be.
    """
    call = _CALL.fullmatch(text.strip())
    if call is None:
        raise ValueError(f"a measure is one of {ACCEPTED}, x being an expression over silver")
    function, argument = call["name"].lower(), call["argument"]
    _check_function(function)
    if function == "count":
        _check_count(argument)
        return Measure(name, function)
    return Measure(name, function, _argument(function, argument or ""))


def _check_function(function: str) -> None:
    if function in NOT_ADDITIVE:
        raise ValueError(f"{function} is refused: {NOT_ADDITIVE[function]}")
    if function not in FUNCTIONS:
        raise ValueError(f"there is no measure {function}; there are {ACCEPTED}")


def _check_count(argument: str | None) -> None:
    if argument is None:
        return
    if re.match(r"\s*distinct\b", argument, re.IGNORECASE):
        raise ValueError(f"count(distinct …) is refused: {_DISTINCT}")
    raise ValueError(
        "count counts lines and is written without parentheses; to count those where x is not null, "
        "declare sum(CASE WHEN x IS NULL THEN 0 ELSE 1 END)"
    )


def _argument(function: str, text: str) -> str:
    argument = text.strip()
    if not argument:
        raise ValueError(f"{function} needs one expression over silver: {FUNCTIONS[function]}")
    if re.match(r"distinct\b", argument, re.IGNORECASE):
        raise ValueError(f"{function}(distinct …) is refused: {_DISTINCT}")
    _check_one_expression(function, argument)
    return argument


def _check_one_expression(function: str, argument: str) -> None:
    """Refuse `a) + min(b`, which is two calls, and `a, b`; what stands in quotes does not count."""
    depth = 0
    for mark in _QUOTED.sub("", argument):
        depth += (mark in "([") - (mark in ")]")
        if depth < 0 or (depth == 0 and mark == ",") or mark in "'\"`":
            break
    else:
        if depth == 0:
            return
    raise ValueError(
        f"a measure is one function around one expression, {FUNCTIONS[function]}, its parentheses balanced"
    )
