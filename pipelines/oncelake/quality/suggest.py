"""Propose a suite of expectations from a sample of a table's rows; someone who knows the data then edits it.

Every proposed expectation held for all rows of the sample. All have severity `warning`: a sample is no reason to
refuse a line. A suite for bronze also has the share of the lines that each log format parses.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from oncelake.common.lake import SILVER, Table
from oncelake.common.table_rows import TableRows
from oncelake.quality.split import FIELDS

if TYPE_CHECKING:
    import pyarrow

# A column with at most this many values, each in this many rows on average, is proposed as a set of values.
FEW_VALUES, ROWS_EACH = 20, 20
MOST_FIELDS = 50
# Shapes of a text; the first shape that all values match is proposed.
SHAPES: Mapping[str, str] = {
    "whole": r"^-?[0-9]+$",
    "decimal": r"^-?[0-9]+\.[0-9]+$",
    "uuid": "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$",
    "address": r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$",
    "word": "^[A-Za-z0-9_.-]+$",
}


@dataclass(frozen=True)
class Profile:
    """The profile of one column's values.

    Attributes:
        values: the number of values that are not null.
        distinct: the number of different values.
        lengths: the lengths of the shortest and the longest text, in characters.
        shapes: the shapes that all values match.
    """

    column: str
    rows: int
    values: int
    distinct: int
    lengths: tuple[int, int]
    shapes: Sequence[str]

    @property
    def is_of_few(self) -> bool:
        """Return True if the values are probably from a fixed set."""
        return 0 < self.distinct <= FEW_VALUES and self.values >= self.distinct * ROWS_EACH


# A text of a column in each row of a sample; None for none.
Texts = Sequence[str | None]


def suggest(columns: Mapping[str, Texts], table: Table, shares: Mapping[str, float]) -> dict[str, Any]:
    """Return a suite in Great Expectations' own form.

    Args:
        columns: the columns of a sample, see `silver_columns` and `bronze_columns`.
        table: the table that the rows are from.
        shares: for bronze, the share of the lines that each log format parses, by the format's name.
    """
    if table == SILVER:
        return {"name": str(table), "expectations": suggest_silver(columns)}
    formats = dict(sorted(shares.items(), key=lambda share: -share[1]))
    return {"name": str(table), "expectations": suggest_bronze(columns), "meta": {"formats": formats}}


def silver_columns(rows: TableRows, at: str, most: int) -> dict[str, Texts]:
    """Return columns of a sample of silver: the level, the message and the entries of `fields`, by their names."""
    sample = rows.query(f"SELECT t.level, t.message, t.{FIELDS} FROM {{rows}} t LIMIT {most}", at)
    entries = _entries(sample[FIELDS])
    keys = sorted({key for row in entries for key in row})[:MOST_FIELDS]
    fields = {f"{FIELDS}.{key}": [row.get(key) for row in entries] for key in keys}
    return {"level": _texts(sample["level"]), "message": _texts(sample["message"]), **fields}


def bronze_columns(rows: TableRows, at: str, most: int) -> dict[str, Texts]:
    """Return the column of a sample of bronze: the lines as text."""
    return {"value": _texts(rows.query(f"SELECT t.value FROM {{rows}} t LIMIT {most}", at)["value"])}


def _texts(column: "pyarrow.ChunkedArray") -> Texts:
    """Return the texts of a column; bytes that are not UTF-8 become replacement characters."""
    return [_text(value) for value in column.cast("binary").to_pylist()]


def _entries(column: "pyarrow.ChunkedArray") -> list[dict[str, str | None]]:
    import pyarrow  # noqa: PLC0415 - not everywhere

    maps = column.cast(pyarrow.map_(pyarrow.binary(), pyarrow.binary())).to_pylist()
    return [{str(_text(key)): _text(value) for key, value in entries or ()} for entries in maps]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def suggest_silver(columns: Mapping[str, Texts]) -> list[dict[str, Any]]:
    """Propose expectations for silver's rows, from the columns of a sample."""
    profiles = [profiled(name, texts) for name, texts in columns.items()]
    return suggest_profiled(profiles, few_values(profiles, columns))


def few_values(profiles: Iterable[Profile], columns: Mapping[str, Texts]) -> dict[str, list[str]]:
    """Return the values of the columns that are probably from a fixed set; a message never is."""
    few = [profile.column for profile in profiles if profile.is_of_few and profile.column != "message"]
    return {name: sorted({text for text in columns[name] if text is not None}) for name in few}


def suggest_profiled(profiles: Sequence[Profile], sets: Mapping[str, list[str]]) -> list[dict[str, Any]]:
    """Propose expectations for silver's rows.

    Args:
        profiles: the profiles of columns.
        sets: the values of the columns that have few.
    """
    expectations = [_expectation("values_to_not_be_null", "log_time", "has_time")]
    for profile in profiles:
        expectations += _of_column(profile, sets.get(profile.column))
    return expectations


def suggest_bronze(columns: Mapping[str, Texts]) -> list[dict[str, Any]]:
    """Propose expectations for bronze's rows: what lines look like before they are parsed."""
    profiles = [profiled(name, texts) for name, texts in columns.items()]
    return [expectation for profile in profiles for expectation in _of_column(profile, None)]


def profiled(column: str, values: Texts) -> Profile:
    """Return the profile of a column."""
    texts = [value for value in values if value is not None]
    lengths = [len(text) for text in texts]
    shapes = [
        name for name, shape in SHAPES.items() if texts and all(re.search(shape, text, re.ASCII) for text in texts)
    ]
    return Profile(
        column, len(values), len(texts), len(set(texts)), (min(lengths, default=0), max(lengths, default=0)), shapes
    )


def _of_column(profile: Profile, values: list[str] | None) -> Iterator[dict[str, Any]]:
    expectation = partial(_expectation, column=profile.column)
    if profile.values == 0:
        return
    if profile.values == profile.rows:
        yield expectation("values_to_not_be_null")
    if values:
        yield expectation("values_to_be_in_set", value_set=values)
    elif profile.shapes:
        yield expectation("values_to_match_regex", regex=SHAPES[profile.shapes[0]])
    if not values:
        shortest, longest = profile.lengths
        bounds: dict[str, Any] = {"min_value": 1} if shortest else {}
        yield expectation("value_lengths_to_be_between", max_value=_rounded(longest), **bounds)


def _rounded(length: int) -> int:
    """Return a length limit with room to grow: the next power of two above twice the longest length."""
    return 1 << max(2 * length, 1).bit_length()


def _expectation(what: str, column: str, rule: str | None = None, **arguments: Any) -> dict[str, Any]:
    meta = {"meta": {"rule": rule}} if rule else {}
    return {"type": f"expect_column_{what}", "kwargs": {"column": column, **arguments}, **meta, "severity": "warning"}
