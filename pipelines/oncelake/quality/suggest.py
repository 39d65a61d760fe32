"""Propose a suite of expectations from a sample of a table's rows; someone who knows the data then edits it.

Every proposed expectation held for all rows of the sample. All have severity `warning`: a sample is no reason to
refuse a line. A suite for bronze also has the share of the lines that each log format parses.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from oncelake.common.lake import SILVER, Table
from oncelake.quality.split import FIELDS, at

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
        distinct: the approximate number of different values.
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


def suggest(rows: DataFrame, table: Table, shares: Mapping[str, float]) -> dict[str, Any]:
    """Return a suite in Great Expectations' own form.

    Args:
        rows: rows of silver or of bronze.
        table: the table that the rows are from.
        shares: for bronze, the share of the lines that each log format parses, by the format's name.
    """
    if table == SILVER:
        return {"name": str(table), "expectations": suggest_silver(rows)}
    formats = dict(sorted(shares.items(), key=lambda share: -share[1]))
    return {"name": str(table), "expectations": suggest_bronze(rows), "meta": {"formats": formats}}


def suggest_silver(rows: DataFrame) -> list[dict[str, Any]]:
    """Propose expectations for silver's rows.

    Args:
        rows: some rows of silver; they are read up to three times.
    """
    keys = [row["key"] for row in rows.select(F.explode(F.map_keys(FIELDS)).alias("key")).distinct().collect()]
    names = ["level", "message", *(f"{FIELDS}.{key}" for key in sorted(keys)[:MOST_FIELDS])]
    profiles = _profiled(rows, {name: at(name) for name in names})
    few = {profile.column for profile in profiles if profile.is_of_few and profile.column != "message"}
    return suggest_profiled(profiles, _values(rows, sorted(few)))


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


def suggest_bronze(rows: DataFrame) -> list[dict[str, Any]]:
    """Propose expectations for bronze's rows: what lines look like before they are parsed."""
    profiles = _profiled(rows, {"value": F.col("value").cast("string")})
    return [expectation for profile in profiles for expectation in _of_column(profile, None)]


def _profiled(rows: DataFrame, columns: Mapping[str, Column]) -> list[Profile]:
    """Profile columns in one pass.

    Args:
        rows: the rows.
        columns: the columns to profile, by name; all are strings.
    """
    aggregates = [F.count(F.lit(1)).alias("rows")]
    for place, value in enumerate(columns.values()):
        length = F.length(value)
        seen = {"values": F.count(value), "distinct": F.approx_count_distinct(value)}
        seen |= {"shortest": F.min(length), "longest": F.max(length)}
        seen |= {name: F.count_if(value.rlike(shape)) for name, shape in SHAPES.items()}
        aggregates.append(F.struct(*(figure.alias(name) for name, figure in seen.items())).alias(str(place)))
    (row,) = rows.agg(*aggregates).collect()
    return [_profile(name, row["rows"], row[str(place)]) for place, name in enumerate(columns)]


def _profile(name: str, rows: int, seen: Any) -> Profile:
    shapes = [shape for shape in SHAPES if seen["values"] and seen[shape] == seen["values"]]
    lengths = seen["shortest"] or 0, seen["longest"] or 0
    return Profile(name, rows, seen["values"], seen["distinct"], lengths, shapes)


def _values(rows: DataFrame, names: Sequence[str]) -> Mapping[str, list[str]]:
    if not names:
        return {}
    sets = (F.sort_array(F.collect_set(at(name))).alias(str(place)) for place, name in enumerate(names))
    (row,) = rows.agg(*sets).collect()
    return {name: row[str(place)] for place, name in enumerate(names)}


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
