"""This is where the windows of a gold table are found to which the lines of some versions of silver belong."""

import json
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from oncelake.exactly_once.ledger import Ledger
from oncelake.exactly_once.positions import TablePosition
from oncelake.gold.declaration import LOG_TIME, GoldTable
from oncelake.proof.link import Range, joined, ranges
from oncelake.proof.span import Span

# So many windows are told apart; above, all are compared.
MOST_WINDOWS = 100_000
# So many stretches of time are asked for; nearer ones are joined.
MOST_STRETCHES = 64


def touched(ledger: Ledger, silver: DataFrame, gold: Span, declared: GoldTable) -> Column | None:
    """Give a condition on log_time for whole windows, among them each to which the span's batches added a line.

    None where all windows are to be looked at.
    """
    start, end = TablePosition.parse(gold.before), TablePosition.parse(gold.end)
    if gold.whole or start is None or end is None:
        return None
    taken = _taken(ledger, range(start.version, end.version))
    if taken is None:
        return None
    rows = silver.where(_among("ingested_at", taken, 1_000))
    length, at = declared.seconds * 1_000_000, "unix_micros(log_time)"
    window = F.expr(f"({at} - pmod({at}, {length}L)) div {length}L")
    found = rows.select(window.alias("window")).distinct().limit(MOST_WINDOWS).collect()
    if len(found) == MOST_WINDOWS:
        return None
    return _among(LOG_TIME, ranges(sorted(row["window"] for row in found)), length)


def _taken(ledger: Ledger, versions: range) -> list[Range] | None:
    """Give, per file that these commits added, from when to when its rows were taken in, in milliseconds.

    None where a file does not say so, and where a commit's files are not told.
    """
    found: list[Range] = []
    for version in versions:
        added = ledger.added(version)
        limits = [_limits(each.get("stats")) for each in added] if added is not None else [None]
        if None in limits:
            return None
        found += [each for each in limits if each is not None]
    return found


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
