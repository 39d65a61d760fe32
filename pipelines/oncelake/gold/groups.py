"""Gold declarations of columns and texts, which need no Spark: the window and keys of a row, and the rows of a window.

Only what Spark evaluates to the same value in every session is evaluated here: columns of text, entries of `fields`,
comparisons with texts that are joined by AND, counts, and first and last values. A row without a value meets no
comparison, as in SQL.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from oncelake.common.table_rows import Values, named, same, time_text
from oncelake.gold.declaration import LOG_TIME, GoldTable
from oncelake.gold.measure import Measure
from oncelake.gold.window import FixedWindow

_OPERAND = r"(?:(?P<column>level|message|topic|file)|fields\['(?P<field>[^'\\]*)'\])"
_TEXT = r"'([^'\\]*)'"
_KEY = re.compile(_OPERAND)
_COMPARED = re.compile(rf"{_OPERAND}\s*(?P<mark>=|==|<>|!=)\s*(?P<texts>{_TEXT})")
_AMONG = re.compile(
    rf"{_OPERAND}\s+(?P<mark>(?:NOT\s+)?IN)\s*\((?P<texts>\s*{_TEXT}(?:\s*,\s*{_TEXT})*)\s*\)", re.IGNORECASE
)
_NULL = re.compile(rf"{_OPERAND}\s+IS\s+(?P<mark>(?:NOT\s+)?)NULL", re.IGNORECASE)
_AND = re.compile(r"\s+AND\s+", re.IGNORECASE)
# Columns of silver that are times.
_TIMES = (LOG_TIME, "ingested_at")


@dataclass(frozen=True)
class _Operand:
    """A column of silver, or an entry of `fields`."""

    column: str | None
    field: str | None

    def value(self, row: Mapping[str, Any]) -> str | None:
        """Return the value that a row has."""
        value = row[self.column] if self.column else (row["fields"] or {}).get(self.field)
        return None if value is None else str(value)

    def sql(self, values: Values) -> str:
        """Return the operand in SQL, and add its values."""
        return f"t.{self.column}" if self.column else f"t.fields[{named(values, self.field)}]"


@dataclass(frozen=True)
class _Condition:
    """A comparison with texts, or with no value if there are no texts."""

    operand: _Operand
    texts: Sequence[str]
    negated: bool

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return True if a row meets the condition."""
        value = self.operand.value(row)
        if not self.texts:
            return (value is None) is not self.negated
        return value is not None and (value in self.texts) is not self.negated

    def sql(self, values: Values) -> str:
        """Return the condition in SQL, and add its values."""
        operand, negation = self.operand.sql(values), "NOT " * self.negated
        if not self.texts:
            return f"{operand} IS {negation}NULL"
        return f"{operand} {negation}IN ({', '.join(named(values, text) for text in self.texts)})"


@dataclass(frozen=True)
class PlainGold:
    """A declaration that needs no Spark.

    Attributes:
        declared: the declaration.
        conditions: the parts of `where`; a row counts if it meets all of them.
        keys: the operands of the keys, by name.
    """

    declared: GoldTable
    conditions: Sequence[_Condition]
    keys: Mapping[str, _Operand]

    @classmethod
    def of(cls, declared: GoldTable) -> Self | None:
        """Return the declaration; None if it needs Spark."""
        conditions = [_condition(text) for text in _AND.split(declared.where.strip())] if declared.where else []
        keys = {name: _KEY.fullmatch(text.strip()) for name, text in declared.by.items()}
        if None in conditions or None in keys.values():
            return None
        operands = {name: _operand(key) for name, key in keys.items() if key is not None}
        return cls(declared, [condition for condition in conditions if condition is not None], operands)

    def groups(self, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the windows and keys that rows of silver have in the gold table, each once, as gold has them.

        Args:
            rows: the rows, see `plain_rows`, as are those that are returned.
        """
        groups: list[dict[str, Any]] = []
        for row in rows:
            if all(condition.holds(row) for condition in self.conditions):
                keys = {name: key.value(row) for name, key in self.keys.items()}
                start = self.declared.window.start(datetime.fromisoformat(row[LOG_TIME]))
                group = {LOG_TIME: time_text(start), **keys}
                groups += [group] if group not in groups else []
        return groups

    def sql(self, keys: Mapping[str, str | None], values: Values) -> Sequence[str]:
        """Return in SQL what rows of silver meet that count in rows with some keys, and add the values."""
        of_keys = [same(self.keys[name].sql(values), key, values) for name, key in keys.items()]
        return [*(condition.sql(values) for condition in self.conditions), *of_keys]

    def counting_sql(self, silver: str, chosen: str, lines: str, values: Values) -> str | None:
        """Return in SQL the rows of gold that rows of silver give; None if a measure needs Spark.

        The query fails without Spark if a text is not UTF-8: only Spark makes it valid as gold has it.

        Args:
            silver: silver's rows, in SQL.
            chosen: a condition on them.
            lines: the name of one more column, the number of lines.
            values: the values of the query, which are added to.
        """
        keys = {name: f"validate_utf8({key.sql(values)})" for name, key in self.keys.items()}
        measures = {measure.name: _measure_sql(measure, values) for measure in self.declared.parsed}
        if None in measures.values() or not isinstance(self.declared.window, FixedWindow):
            return None
        at, length = "unix_micros(t.log_time)", self.declared.seconds * 1_000_000
        keys = {LOG_TIME: f"timestamp_micros({at} - pmod({at}, {length}))", **keys}
        columns = {**keys, **measures, lines: "count(*)"}
        conditions = [f"({chosen})", *(condition.sql(values) for condition in self.conditions)]
        selected = ", ".join(f"{text} AS {name}" for name, text in columns.items())
        grouped = ", ".join(map(str, range(1, len(keys) + 1)))
        return f"SELECT {selected} FROM {silver} t WHERE {' AND '.join(conditions)} GROUP BY {grouped}"


def _measure_sql(measure: Measure, values: Values) -> str | None:
    """Return a measure in SQL; None if it needs Spark."""
    if measure.function == "count":
        return "count(*)"
    if measure.function not in ("min", "max"):
        return None
    if measure.argument in _TIMES:
        return f"{measure.function}(t.{measure.argument})"
    match = _KEY.fullmatch(measure.argument)
    return f"{measure.function}(validate_utf8({_operand(match).sql(values)}))" if match else None


def _operand(match: re.Match[str]) -> _Operand:
    return _Operand(match["column"], match["field"])


def _condition(text: str) -> _Condition | None:
    """Return the condition that a text is; None if it is not one of those that are known here."""
    if match := _NULL.fullmatch(text):
        return _Condition(_operand(match), (), negated=bool(match["mark"]))
    match = _COMPARED.fullmatch(text) or _AMONG.fullmatch(text)
    if match is None:
        return None
    negated = match["mark"].upper().startswith(("<", "!", "NOT"))
    return _Condition(_operand(match), re.findall(_TEXT, match["texts"]), negated)
