"""This is where the windows of a gold table are found to which the lines of some versions of silver belong."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.exactly_once.files import Files, files_at
from pipelines.exactly_once.table_position import TablePosition
from pipelines.gold.declaration import LOG_TIME, GoldTable
from pipelines.proof.span import Span
from pipelines.proof.words import Range, joined, ranges

# So many windows are told apart; above, all are compared.
MOST_WINDOWS = 100_000
# So many stretches of time are asked for; nearer ones are joined.
MOST_STRETCHES = 64


def touched(spark: SparkSession, silver_path: str, silver: DataFrame, gold: Span, declared: GoldTable) -> Column | None:
    """Give a condition on log_time for whole windows, among them each to which the span's batches added a line.

    None where all windows are to be looked at.
    """
    start, end = TablePosition.parse(gold.before), TablePosition.parse(gold.end)
    if gold.whole or start is None or end is None:
        return None
    taken = list(_taken(files_at(silver_path, spark), silver_path, range(start.version, end.version)))
    if None in taken:
        return None
    rows = silver.where(_among("ingested_at", [each for each in taken if each is not None], 1_000))
    length, at = declared.seconds * 1_000_000, "unix_micros(log_time)"
    window = F.expr(f"({at} - pmod({at}, {length}L)) div {length}L")
    found = rows.select(window.alias("window")).distinct().limit(MOST_WINDOWS).collect()
    if len(found) == MOST_WINDOWS:
        return None
    return _among(LOG_TIME, ranges(sorted(row["window"] for row in found)), length)


def _taken(files: Files, path: str, versions: range) -> Iterator[Range | None]:
    """Give, per file that these commits added, from when to when its rows were taken in, in milliseconds.

    None for a file that does not say so, and for a commit that is gone.
    """
    for version in versions:
        text = files.read(f"{path}/_delta_log/{version:020d}.json")
        if text is None:
            yield None
            continue
        for line in text.splitlines():
            if line.startswith('{"add"') and '"dataChange":true' in line:
                yield _limits(json.loads(line)["add"].get("stats"))


def _limits(stats: str | None) -> Range | None:
    found = json.loads(stats) if stats else {}
    first, last = (found.get(name, {}).get("ingested_at") for name in ("minValues", "maxValues"))
    return (_ms(first), _ms(last)) if first and last else None


def _ms(text: str) -> int:
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _among(column: str, found: list[Range], unit: int) -> Column:
    """Choose the rows whose time is in one of the ranges, whose numbers count units of so many microseconds."""
    each = [
        f"({column} >= timestamp_micros({first * unit}L) AND {column} < timestamp_micros({(last + 1) * unit}L))"
        for first, last in joined(sorted(found), MOST_STRETCHES)
    ]
    return F.expr(" OR ".join(each) or "false")
