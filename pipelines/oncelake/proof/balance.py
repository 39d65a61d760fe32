"""This is where silver and quarantine are weighed against bronze: every line is in one of the two, once."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import reduce

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from oncelake.exactly_once.files_source import place_of
from oncelake.proof.batches import BatchGroup, groups
from oncelake.proof.link import Link, listed
from oncelake.proof.read_files import name_of
from oncelake.proof.span import HALF, Span, batch_names, clock, rows_of, taken

_SIDES = ("bronze", "silver", "quarantine")
_UNWEIGHED = "lines of earlier batches that were replayed are not weighed here; weigh all with: oncelake prove --full"


def balance(spark: SparkSession, bronze: Span, silver: Span, quarantine: Span) -> Link:
    """Prove that silver and quarantine together hold bronze's rows: per batch, and per origin of the rows.

    Rows from Kafka are compared by a sum over their offsets that does not depend on the order, so that one
    row in place of another is found too; rows of a file are counted.

    Args:
        spark: the session.
        bronze: bronze's, cut to what silver's span has read.
        silver: silver's.
        quarantine: quarantine's.
    """
    spans = dict(zip(_SIDES, (bronze, silver, quarantine), strict=True))
    weighed = _weigh({side: rows_of(spark, span, bronze.planned_ms()) for side, span in spans.items()})
    lost, weighed = _accepted(weighed, bronze, silver)
    faults = [*_uncommitted(weighed, list(groups(bronze, silver, quarantine)), spans), *_unbalanced(weighed, spans)]
    total = {side: sum(row[side] for row in weighed) for side in _SIDES}
    said = (
        f"{total['bronze']:,} rows = {total['silver']:,} in {silver.table} + {total['quarantine']:,} in "
        f"{quarantine.table}, in {len(silver.batches):,} batches"
    )
    name = f"{bronze.table} → {silver.table} + {quarantine.table}"
    notes = (*lost, _UNWEIGHED) if silver.replays and not silver.whole else lost
    return Link(name, str(silver.table), not faults, listed(faults, separator="; ") or said, notes)


def _weigh(sides: Mapping[str, DataFrame]) -> list[Row]:
    """Count the rows of each side by when they were taken in; `off` counts origins that do not balance."""
    rows = reduce(DataFrame.unionByName, (_side(name, frame) for name, frame in sides.items()))
    counts = [F.sum(name).alias(name) for name in _SIDES]
    per_origin = rows.groupBy("taken", "topic", "partition", "file").agg(
        *counts, F.sum("half").alias("half"), F.bit_xor("hash").alias("hash")
    )
    off = (F.col("bronze") != F.col("silver") + F.col("quarantine")) | (F.col("half") != 0) | (F.col("hash") != 0)
    example = F.struct("topic", "partition", "file", *_SIDES)
    weighed = per_origin.groupBy("taken").agg(
        *counts, F.count_if(off).alias("off"), F.min(F.when(off, example)).alias("example")
    )
    return weighed.orderBy("taken").collect()


def _side(name: str, frame: DataFrame) -> DataFrame:
    """Give a side's origins; what bronze has is weighed against what the others have."""
    # rows of a file have no number, and are only counted
    hashed = F.when(F.col("offset").isNotNull(), F.xxhash64("partition", "offset")).otherwise(F.lit(0))
    sign = F.lit(1 if name == "bronze" else -1)
    counts = [F.lit(int(name == side)).alias(side) for side in _SIDES]
    rows = frame.select(taken().alias("taken"), "topic", "partition", "file", hashed.alias("hash"))
    return rows.select("*", (F.col("hash").bitwiseAND(F.lit(HALF)) * sign).alias("half"), *counts)


def _accepted(weighed: list[Row], bronze: Span, silver: Span) -> tuple[tuple[str, ...], list[Row]]:
    """Set aside the rows that silver does not have because a loss was accepted; their commits are gone."""
    losses, known = silver.losses, bronze.planned_ms()
    gone = [row for row in weighed if losses and row["taken"] not in known and not row["silver"] + row["quarantine"]]
    notes = [f"batch {note.batch_id} accepted a loss: {listed(note.lost)}" for note in losses]
    if gone:
        notes.append(f"{sum(row['bronze'] for row in gone):,} rows of bronze went with it")
    return tuple(notes), [row for row in weighed if row not in gone]


def _uncommitted(weighed: list[Row], batches: list[BatchGroup], spans: Mapping[str, Span]) -> Iterator[str]:
    """Hold each batch's commits against each other, and against the rows that are there.

    What a replay moved is in silver beside what the row's batch wrote there, and no longer in quarantine.
    """
    replayed, moved = sum(each.rows_added for each in spans["silver"].replays), 0
    shared = Counter(ms for group in batches for ms in group.taken)
    there = {row["taken"]: row for row in weighed}
    for group in batches:
        if group.bronze != group.silver + group.quarantine:
            yield (
                f"{group}: versions {group.versions[0]} to {group.versions[1] - 1} of {spans['bronze'].table} have "
                f"{group.bronze:,} rows, {spans['silver'].table} took {group.silver:,} and "
                f"{spans['quarantine'].table} {group.quarantine:,}"
            )
        if any(shared[ms] > 1 for ms in group.taken):  # a clock that went back gave two batches one time
            continue
        found = {side: sum(there[ms][side] for ms in group.taken if ms in there) for side in _SIDES}
        came = max(found["silver"] - group.silver, 0) if replayed else 0
        moved += came
        for side, recorded in (("silver", group.silver + came), ("quarantine", group.quarantine - came)):
            if found[side] != recorded:
                less = found[side] < recorded
                what = f"{recorded - found[side]:,} too few" if less else f"{found[side] - recorded:,} too many"
                yield f"{spans[side].table} has {found[side]:,} of the {recorded:,} rows that {group} wrote: {what}"
    counted = spans["silver"].whole and max(shared.values(), default=1) == 1
    if moved > replayed or (counted and moved < replayed):
        yield f"{spans['silver'].table} has {moved:,} rows that its batches did not write, replays moved {replayed:,}"


def _unbalanced(weighed: list[Row], spans: Mapping[str, Span]) -> Iterator[str]:
    names = batch_names(spans["bronze"])
    for row in weighed:
        if row["off"]:
            where = f"{names.get(row['taken'], 'no batch')} of {spans['bronze'].table}, taken in {clock(row['taken'])}"
            yield f"{where}: {_difference(row['example'], spans)}{_more(row['off'])}"


def _difference(off: Row, spans: Mapping[str, Span]) -> str:
    origin = name_of(place_of(off["file"])) if off["file"] is not None else f"{off['topic']}/{off['partition']}"
    bronze, silver, quarantine = (off[side] for side in _SIDES)
    counts = (
        f"{origin} has {bronze:,} rows there, {silver:,} in {spans['silver'].table} and "
        f"{quarantine:,} in {spans['quarantine'].table}"
    )
    extra = silver + quarantine - bronze
    if extra == 0:
        return f"{counts}, and not for the same offsets"
    return f"{counts}: {abs(extra):,} {'too many' if extra > 0 else 'missing'}"


def _more(off: int) -> str:
    return f" (and {off - 1:,} more origins)" if off > 1 else ""
