"""Compare silver and quarantine with bronze: every line is in exactly one of the two, once."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from oncelake.common.lake import BRONZE
from oncelake.common.wording import count_of, listed
from oncelake.engine.chain import Chain
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.files_source import place_of
from oncelake.exactly_once.positions import is_whole, version_of
from oncelake.proof.file_rows import name_of
from oncelake.proof.link import Link, batch_words
from oncelake.proof.pin import Limits, may_start, pin
from oncelake.proof.record import Proven
from oncelake.proof.span import HALF, Span, batch_names, clock, rows_of, taken

_SIDES = ("bronze", "silver", "quarantine")
_UNWEIGHED = "replayed lines of earlier batches are not compared here. To compare all, run: oncelake prove --full"


def same_lines(chain: Chain, silver: Span, quarantine: Span) -> tuple[Span, Span, Span, tuple[str, ...]]:
    """Return the spans of bronze, silver and quarantine that hold the same lines, and notes on what is excluded.

    Bronze is cut to what silver's span has read. If bronze's Delta log no longer has the commits that silver's
    first batches read, these batches are excluded.
    """
    bronze = _read_by(chain, silver)
    oldest = bronze.start.version + 1 if bronze.start else 0
    if oldest <= version_of(silver.before):
        return bronze, silver, quarantine, ()
    later = _from(silver, oldest)
    first = next((metadata.batch_id for _, metadata in later.noted()), None)
    # quarantine's start only has to exist: its rows are selected by bronze's batches
    rest = tuple(each for each, metadata in quarantine.noted() if first is not None and metadata.batch_id >= first)
    note = f"lines that {BRONZE} ingested below version {oldest} are not compared: their commits are gone from its log"
    return _read_by(chain, later), later, replace(quarantine, commits=rest, start=later.start), (note,)


def _read_by(chain: Chain, silver: Span) -> Span:
    """Return the part of bronze that a span of silver has read."""
    first, end = version_of(silver.before), version_of(silver.end)
    commit_log, path = chain.commit_log(BRONZE), chain.lake.at(BRONZE)
    found = pin(BRONZE, path, commit_log, Limits(lambda commit: commit.version < first, newest=end - 1))
    assert found is not None, "silver's positions were checked against bronze before"
    return replace(found.span, version=end - 1)


def _from(silver: Span, oldest: int) -> Span:
    """Return silver cut to the batches that read no bronze version below `oldest`."""
    assert silver.commits, "a span without batches is not compared"
    for index, (commit, metadata) in enumerate(silver.noted()):
        if may_start(commit) and metadata.before and version_of(metadata.before) >= oldest:
            return replace(silver, commits=silver.commits[index:], start=Proven.ahead_of("", commit))
    return replace(silver, commits=(), start=Proven.up_to("", silver.commits[-1]))


def balance(spark: SparkSession, bronze: Span, silver: Span, quarantine: Span) -> Link:
    """Prove that silver and quarantine together hold bronze's rows: per batch, and per origin of the rows.

    Rows from Kafka are compared by an order-independent sum over their offsets, so that a row swapped for another
    is found too. Rows from a file are only counted.

    Args:
        spark: the session.
        bronze: the span of bronze, cut to what silver's span has read.
        silver: the span of silver.
        quarantine: the span of quarantine.
    """
    spans = dict(zip(_SIDES, (bronze, silver, quarantine), strict=True))
    weighed = _weigh({side: rows_of(spark, span, bronze.by_time()) for side, span in spans.items()})
    lost, weighed = _accepted(weighed, bronze, silver)
    faults = [*_uncommitted(weighed, list(_groups(**spans)), spans), *_unbalanced(weighed, spans)]
    total = {side: sum(row[side] for row in weighed) for side in _SIDES}
    well = (
        f"{count_of(total['bronze'], 'row')} = {total['silver']:,} in {silver.table} + {total['quarantine']:,} in "
        f"{quarantine.table}, in {count_of(len(silver.of(CommitKind.BATCH)), 'batch')}"
    )
    name = f"{bronze.table} → {silver.table} + {quarantine.table}"
    notes = (*lost, _UNWEIGHED) if silver.of(CommitKind.REPLAY) and not silver.whole else lost
    return Link.of(name, silver.table, faults, well, notes)


def _weigh(sides: Mapping[str, DataFrame]) -> list[Row]:
    """Count the rows of each side by ingestion time; `off` counts the origins that do not balance."""
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
    """Return one side's rows with origin, hash and counts; `half` is positive for bronze, negative for the others."""
    # rows of a file have no offset and are only counted
    hashed = F.when(F.col("offset").isNotNull(), F.xxhash64("partition", "offset")).otherwise(F.lit(0))
    sign = F.lit(1 if name == "bronze" else -1)
    counts = [F.lit(int(name == side)).alias(side) for side in _SIDES]
    rows = frame.select(taken().alias("taken"), "topic", "partition", "file", hashed.alias("hash"))
    return rows.select("*", (F.col("hash").bitwiseAND(F.lit(HALF)) * sign).alias("half"), *counts)


def _accepted(weighed: list[Row], bronze: Span, silver: Span) -> tuple[tuple[str, ...], list[Row]]:
    """Exclude the rows that silver lacks because a loss was accepted; their commits are gone."""
    losses, known = silver.losses, bronze.by_time()
    gone = [row for row in weighed if losses and row["taken"] not in known and not row["silver"] + row["quarantine"]]
    notes = [f"batch {metadata.batch_id} accepted a loss: {listed(metadata.lost)}" for metadata in losses]
    if gone:
        notes.append(
            count_of(
                sum(row["bronze"] for row in gone),
                "row of bronze is part of the loss",
                "rows of bronze are part of the loss",
            )
        )
    return tuple(notes), [row for row in weighed if row not in gone]


@dataclass(frozen=True)
class _BatchGroup:
    """Batches of silver that together read whole versions of bronze; usually one batch.

    Attributes:
        batch_ids: the batches.
        versions: the first version of bronze that they read, and the version after the last.
        taken: when the rows of these versions were ingested, in milliseconds.
        bronze: rows that bronze recorded in these versions.
        silver: rows that silver recorded in these batches.
        quarantine: rows that quarantine recorded in these batches.
    """

    batch_ids: tuple[int, ...]
    versions: tuple[int, int]
    taken: frozenset[int]
    bronze: int
    silver: int
    quarantine: int

    def __str__(self) -> str:
        """Return the batch IDs as words."""
        return batch_words(self.batch_ids)


def _groups(bronze: Span, silver: Span, quarantine: Span) -> Iterator[_BatchGroup]:
    """Yield silver's batches in groups that each end where a bronze version ends."""
    refused: Counter[int] = Counter()
    for commit in quarantine.of(CommitKind.BATCH):
        refused[commit.metadata.batch_id] += commit.rows_added
    read = version_of(silver.before)
    batches: list[ChainCommit] = []
    for commit, metadata in silver.noted():
        if metadata.event is CommitKind.BATCH:
            batches.append(commit)
        if is_whole(metadata.end):
            end = version_of(metadata.end)
            if batches:
                ids = tuple(each.metadata.batch_id for each in batches)
                sources = [each for each in bronze.of(CommitKind.BATCH) if read <= each.version < end]
                yield _BatchGroup(
                    ids,
                    (read, end),
                    frozenset(each.metadata.planned_ms for each in sources),
                    sum(each.rows_added for each in sources),
                    sum(each.rows_added for each in batches),
                    sum(refused[batch_id] for batch_id in set(ids)),
                )
            read, batches = end, []


def _uncommitted(weighed: list[Row], groups: list[_BatchGroup], spans: Mapping[str, Span]) -> Iterator[str]:
    """Check each batch's commits against each other, and against the rows in the tables.

    Rows that a replay moved are in silver, in addition to the rows that their batch wrote, and no longer in quarantine.
    """
    replayed, moved = sum(each.rows_added for each in spans["silver"].of(CommitKind.REPLAY)), 0
    shared = Counter(ms for group in groups for ms in group.taken)
    there = {row["taken"]: row for row in weighed}
    for group in groups:
        if group.bronze != group.silver + group.quarantine:
            yield (
                f"{group}: versions {group.versions[0]} to {group.versions[1] - 1} of {spans['bronze'].table} have "
                f"{count_of(group.bronze, 'row')}, {spans['silver'].table} recorded {group.silver:,} and "
                f"{spans['quarantine'].table} {group.quarantine:,}"
            )
        if any(shared[ms] > 1 for ms in group.taken):  # the clock was set back: two batches have the same time
            continue
        found = {side: sum(there[ms][side] for ms in group.taken if ms in there) for side in _SIDES}
        came = max(found["silver"] - group.silver, 0) if replayed else 0
        moved += came
        for side, recorded in (("silver", group.silver + came), ("quarantine", group.quarantine - came)):
            if found[side] != recorded:
                less = found[side] < recorded
                what = f"{recorded - found[side]:,} too few" if less else f"{found[side] - recorded:,} too many"
                rows = f"{found[side]:,} of the {count_of(recorded, 'row')}"
                yield f"{spans[side].table} has {rows} that {group} wrote: {what}"
    counted = spans["silver"].whole and max(shared.values(), default=1) == 1
    if moved > replayed or (counted and moved < replayed):
        rows = count_of(moved, "row")
        yield f"{spans['silver'].table} has {rows} that its batches did not write; replays moved {replayed:,}"


def _unbalanced(weighed: list[Row], spans: Mapping[str, Span]) -> Iterator[str]:
    names = batch_names(spans["bronze"])
    for row in weighed:
        if row["off"]:
            where = (
                f"{names.get(row['taken'], 'no batch')} of {spans['bronze'].table}, ingested at {clock(row['taken'])}"
            )
            more = f" (and {count_of(row['off'] - 1, 'more origin')})" if row["off"] > 1 else ""
            yield f"{where}: {_difference(row['example'], spans)}{more}"


def _difference(off: Row, spans: Mapping[str, Span]) -> str:
    origin = name_of(place_of(off["file"])) if off["file"] is not None else f"{off['topic']}/{off['partition']}"
    bronze, silver, quarantine = (off[side] for side in _SIDES)
    counts = (
        f"{origin} has {count_of(bronze, 'row')} in it, {silver:,} in {spans['silver'].table} and "
        f"{quarantine:,} in {spans['quarantine'].table}"
    )
    extra = silver + quarantine - bronze
    if extra == 0:
        return f"{counts}, but not with the same offsets"
    return f"{counts}: {abs(extra):,} {'too many' if extra > 0 else 'missing'}"
