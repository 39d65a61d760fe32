"""The window and keys of a few rows of silver without Spark, for a declaration of columns and texts.

Only what Spark evaluates to the same value in every session is evaluated here: columns of text, entries of `fields`,
and comparisons with texts that are joined by AND. A row without a value meets no comparison, as in SQL.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from oncelake.gold.declaration import LOG_TIME, GoldTable

if TYPE_CHECKING:
    import pyarrow

_OPERAND = r"(?:(?P<column>level|message|topic|file)|fields\['(?P<field>[^'\\]*)'\])"
_TEXT = r"'([^'\\]*)'"
_KEY = re.compile(_OPERAND)
_EQUAL = re.compile(rf"{_OPERAND}\s*(?P<mark>=|==|<>|!=)\s*{_TEXT}")
_IN = re.compile(
    rf"{_OPERAND}\s+(?P<negated>NOT\s+)?IN\s*\((?P<texts>\s*{_TEXT}(?:\s*,\s*{_TEXT})*)\s*\)", re.IGNORECASE
)
_NULL = re.compile(rf"{_OPERAND}\s+IS\s+(?P<negated>NOT\s+)?NULL", re.IGNORECASE)
_AND = re.compile(r"\s+AND\s+", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_Row = Mapping[str, Any]


def plain_groups(rows: "pyarrow.Table", declared: GoldTable) -> "pyarrow.Table | None":
    """Return the windows and keys that rows of silver have in a gold table, each once, as gold has them.

    Returns:
        None if the declaration needs Spark.
    """
    import pyarrow  # noqa: PLC0415 - not everywhere

    conditions = [_condition(text) for text in _AND.split(declared.where.strip())] if declared.where else []
    keys = {name: _KEY.fullmatch(text.strip()) for name, text in declared.by.items()}
    if None in conditions or None in keys.values():
        return None
    length, groups = timedelta(seconds=declared.seconds), list[dict[str, Any]]()
    for row in rows.to_pylist(maps_as_pydicts="strict"):
        if all(condition(row) for condition in conditions if condition is not None):
            start = _EPOCH + (row[LOG_TIME] - _EPOCH) // length * length
            group = {LOG_TIME: start, **{name: _value(row, key) for name, key in keys.items() if key}}
            groups += [group] if group not in groups else []
    columns = [(LOG_TIME, pyarrow.timestamp("us", "UTC")), *((name, pyarrow.string()) for name in keys)]
    return pyarrow.Table.from_pylist(groups, pyarrow.schema(columns))


def _condition(text: str) -> Callable[[_Row], bool] | None:
    """Return the function of a comparison; None if it is not one of those that are known here."""
    if match := _NULL.fullmatch(text):
        return partial(_is_null, match, negated=match["negated"] is not None)
    if match := _EQUAL.fullmatch(text):
        return partial(_is_among, match, match.groups()[-1:], negated=match["mark"] in ("<>", "!="))
    if match := _IN.fullmatch(text):
        return partial(_is_among, match, re.findall(_TEXT, match["texts"]), negated=match["negated"] is not None)
    return None


def _is_null(operand: re.Match[str], row: _Row, *, negated: bool) -> bool:
    return (_value(row, operand) is None) is not negated


def _is_among(operand: re.Match[str], texts: Sequence[str], row: _Row, *, negated: bool) -> bool:
    value = _value(row, operand)
    return value is not None and (value in texts) is not negated


def _value(row: _Row, operand: re.Match[str]) -> str | None:
    value = row[operand["column"]] if operand["column"] else (row["fields"] or {}).get(operand["field"])
    return None if value is None else str(value)
