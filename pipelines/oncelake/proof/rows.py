"""This is where the rows of a span are read, and counted per batch against what its commits recorded."""

from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.tables import read_version
from oncelake.proof.link import listed
from oncelake.proof.span import Span, planned_ms

# Half of a hash's bits: of so many, two thousand million can be added up without overflow.
HALF = 0xFFFF_FFFF


def taken() -> Column:
    """Give when a row was taken in, in milliseconds."""
    return F.unix_millis("ingested_at")


def rows_of(spark: SparkSession, span: Span, times: Collection[int] | None = None) -> DataFrame:
    """Read the rows of a span: all, or those that its batches took in.

    Args:
        spark: the session.
        span: which table, and up to which version.
        times: when the rows' bronze batches were planned, in milliseconds; the span's own unless given.
    """
    rows = read_version(spark, span.path, span.version)
    return rows if span.whole else rows.where(taken_in(span.planned_ms() if times is None else times))


def taken_in(times: Collection[int]) -> Column:
    """Choose the rows that were taken in at these times; the bounds prune files by their statistics."""
    if not times:
        return F.lit(False)
    each = ", ".join(f"timestamp_millis({ms}L)" for ms in sorted(times))
    first, last = (f"timestamp_millis({ms}L)" for ms in (min(times), max(times)))
    return F.expr(f"ingested_at BETWEEN {first} AND {last} AND ingested_at IN ({each})")


def digest() -> tuple[Column, Column]:
    """Give two sums over a column `hash` (bigint) that do not depend on the order of rows.

    The first sees what cancels out in the second.
    """
    return F.sum(F.col("hash").bitwiseAND(F.lit(HALF))), F.bit_xor("hash")


def miscounted(span: Span, counts: Mapping[int | None, int]) -> list[str]:
    """Say per batch where the rows that are there differ from those that its commit recorded.

    Args:
        span: a span of bronze.
        counts: rows by when they were taken in, in milliseconds.
    """
    recorded: Counter[int] = Counter()
    for commit in span.batches:
        recorded[planned_ms(commit)] += commit.rows_added
    names = batch_names(span)
    said = [
        f"{names[ms]}, taken in {clock(ms)}, wrote {rows:,} rows, {counts.get(ms, 0):,} are there"
        for ms, rows in sorted(recorded.items())
        if counts.get(ms, 0) != rows
    ]
    unknown = {ms: rows for ms, rows in counts.items() if ms not in recorded and rows}
    if sum(unknown.values()) == _earlier(span):
        return said
    return [*said, *(f"{rows:,} rows taken in {clock(ms)} are of no batch" for ms, rows in unknown.items())]


def _earlier(span: Span) -> int:
    """Give the rows of batches whose commits are gone from the log."""
    first = span.commits[0].note if span.commits else None
    return first.rows if first is not None and span.whole else 0


def batch_names(span: Span) -> dict[int, str]:
    """Name the batches by when they were planned."""
    ids: dict[int, list[int]] = {}
    for commit in span.batches:
        assert commit.note is not None
        ids.setdefault(planned_ms(commit), []).append(commit.note.batch_id)
    return {ms: f"batch {listed(map(str, found))}" for ms, found in ids.items()}


def clock(ms: int | None) -> str:
    """Write a time in milliseconds for people."""
    if ms is None:
        return "at no time"
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return f"{at:%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}"
