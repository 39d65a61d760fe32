"""Compare silver, quarantine and duplicates with bronze: every line is in exactly one of them, once."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, bronze_of, place_of
from oncelake.common.table_rows import TableRows, TableVersion
from oncelake.common.wording import count_of, listed, shown_name
from oncelake.engine.chain import Chain
from oncelake.engine.sources import bronze_tables
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.link import Link, Uncompared, batch_words
from oncelake.exactly_once.positions import in_table, is_whole, version_of
from oncelake.exactly_once.span import HALF, INGESTED_MS, Span, batch_names, clock, rows_in
from oncelake.proof.pin import Limits, pin
from oncelake.silver.parsing.events import IS_FIRST
from oncelake.silver.rules import SOURCE_NAME
from oncelake.silver.schema import EVENT_INDEX, SOURCE

_BRONZE = "bronze"
_UNWEIGHED = "replayed lines of earlier batches are not compared here. To compare all, run: oncelake prove --full"
# Spans of the bronze tables that silver reads, by the table's ID; None for the only one.
BronzeSpans = Mapping[str | None, Span]
# A row of the comparison: the counts of a batch of bronze.
Weighed = Mapping[str, Any]
# A batch of bronze, by the name of its source and its planning time in milliseconds.
_BronzeBatch = tuple[str, int]


@dataclass(frozen=True)
class SameLines:
    """The spans of bronze, silver and the tables beside it that hold the same lines.

    Attributes:
        beside: quarantine, and the table of repeats if the lake has one.
    """

    bronze: BronzeSpans
    silver: Span
    beside: tuple[Span, ...]


def same_lines(chain: Chain, silver: Span, *beside: Span) -> SameLines:
    """Return the spans of bronze, silver and the tables beside it that hold the same lines.

    Bronze is cut to what silver's span has read. If the log of a bronze table no longer has all the commits of these
    versions, the spans are all rows: they can be compared by their origin without commits.
    """
    bronze = _read_by(chain, silver)
    if any(span.start and span.start.version >= version_in(silver.before, key) for key, span in bronze.items()):
        silver = replace(silver, includes_earlier=True)  # guard: all-rows-without-commits
        bronze = _read_by(chain, silver)
    spans = (replace(span, includes_earlier=span.includes_earlier or silver.whole) for span in beside)
    return SameLines(bronze, silver, tuple(spans))


def _read_by(chain: Chain, silver: Span) -> BronzeSpans:
    """Return the part of each bronze table that a span of silver has read."""
    spans: dict[str | None, Span] = {}
    for table in bronze_tables(chain):
        commit_log = chain.commit_log(table)
        key = commit_log.table_id() if chain.silver.named else None
        first, end = 0 if silver.whole else version_in(silver.before, key), version_in(silver.end, key)
        if chain.silver.named and (key is None or not end):
            continue
        is_there = commit_log.holds(end - 1)
        limits = Limits(partial(_is_before, first), newest=end - 1 if is_there else None)
        pinned = pin(table, chain.lake.at(table), commit_log, limits)
        assert pinned is not None, "silver's positions were checked against bronze before"
        # a version with the same rows, as VACUUM may have removed files that OPTIMIZE replaced
        span = replace(pinned.span, version=commit_log.last_alike(end - 1)) if is_there else pinned.span.up_to(end)
        spans[key] = replace(span, includes_earlier=span.includes_earlier and silver.whole)
    return spans


def _is_before(first: int, commit: ChainCommit) -> bool:
    return commit.version < first


def version_in(at: str | None, key: str | None) -> int:
    """Return the first version of a bronze table that a position of silver has not completely read."""
    if key is None:
        return version_of(at)
    position = in_table(at, key)
    return position.version if position else 0


def balance(rows: TableRows, bronze: BronzeSpans, silver: Span, *beside: Span) -> Link:
    """Prove that silver and the tables beside it together hold bronze's rows: per batch, and per origin of the rows.

    Rows from Kafka are compared by an order-independent sum over their offsets, so that a row swapped for another
    is found too. Rows from a file are only counted.

    Args:
        rows: answers queries.
        bronze: the spans of bronze, cut to what silver's span has read.
        silver: the span of silver.
        beside: the spans of quarantine, and of the table of repeats if the lake has one.
    """
    compared = _Compared(bronze, silver, beside)
    lost, parts, weighed = _accepted(_weigh(rows, compared), compared)
    faults = [*_uncommitted(weighed, list(_groups(compared)), compared), *_unbalanced(weighed, compared)]
    sums = (f"{sum(row[side] for row in weighed):,} in {span.table}" for side, span in compared.others.items())
    well = (
        f"{count_of(sum(row[_BRONZE] for row in weighed), 'row')} = {' + '.join(sums)}, "
        f"in {count_of(len(silver.of(CommitKind.BATCH)), 'batch')}"
    )
    notes = [*lost, *_by_origin(bronze)]
    if silver.of(CommitKind.REPLAY) and not silver.whole:
        notes.append(_UNWEIGHED)
    name = f"{compared.bronze_names} → {' + '.join(str(span.table) for span in compared.others.values())}"
    return Link.of(name, silver.table, faults, well, notes).without(*parts)


def _by_origin(bronze: BronzeSpans) -> Iterator[str]:
    for span in bronze.values():
        if span.includes_earlier and span.start:
            oldest = span.start.version + 1
            yield (
                f"rows of {span.table} below version {oldest} are compared by their origin alone: their commits are "
                "gone from its log"
            )


@dataclass(frozen=True)
class _Compared:
    """The spans that are compared."""

    bronze: BronzeSpans
    silver: Span
    beside: tuple[Span, ...]

    @property
    def others(self) -> Mapping[str, Span]:
        """The spans that together hold bronze's rows, by side."""
        return {SILVER.layer: self.silver, **{span.table.name: span for span in self.beside}}

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides: bronze, and the others."""
        return _BRONZE, *self.others

    @property
    def bronze_names(self) -> str:
        """The names of the bronze tables."""
        return " + ".join(str(span.table) for span in self.bronze.values())

    def table(self, side: str, source: str) -> str:
        """Return the name of a side's table, for the rows of a source."""
        return str(bronze_of(source) if side == _BRONZE else self.others[side].table)


def _weigh(rows: TableRows, compared: _Compared) -> list[Weighed]:
    """Count the lines of each side by source and ingestion time; `off` counts the origins that do not balance."""
    bronze, sides = compared.bronze, compared.sides
    versions: dict[str, TableVersion] = {}
    parts = []
    for side, span in [*((_BRONZE, span) for span in bronze.values()), *compared.others.items()]:
        name, columns = f"table{len(versions)}", rows.columns(span.path, span.version)
        versions[name] = span.path, span.version
        read = Read(f"'{span.table.name}'", rows_in(span)) if side == _BRONZE else rows_read(span, bronze, columns)
        parts.append(_side(side, name, read, sides, columns))
    counts = ", ".join(f"CAST(sum({name}) AS BIGINT) AS {name}" for name in (*sides, _ROWS))
    # guard: proof-offsets-balance
    off = f"({_BRONZE} <> {' + '.join(compared.others)} OR half <> 0 OR hash <> 0)"
    origin = f"{_OF}, taken, topic, part, file"
    per_origin = (
        f"SELECT {origin}, {counts}, sum(half) AS half, bit_xor(hash) AS hash "
        f"FROM ({' UNION ALL '.join(parts)}) u GROUP BY {origin}"
    )
    total = (
        f"SELECT {_OF}, taken, {counts}, CAST(sum(CASE WHEN {off} THEN 1 ELSE 0 END) AS BIGINT) AS off "
        f"FROM ({per_origin}) o GROUP BY {_OF}, taken ORDER BY taken NULLS FIRST, {_OF} NULLS FIRST"
    )
    weighed: list[Weighed] = [*rows.records(total, versions)]
    if any(row["off"] for row in weighed):
        order = ", ".join(f"{name} NULLS FIRST" for name in ("topic", "part", "file"))
        first = f"row_number() OVER (PARTITION BY {_OF}, taken ORDER BY {order}) AS place"
        examples = f"SELECT * FROM (SELECT *, {first} FROM ({per_origin}) o WHERE {off}) f WHERE place = 1"
        found = {(row[_OF], row["taken"]): row for row in rows.records(examples, versions)}
        weighed = [{**row, "example": found.get((row[_OF], row["taken"]))} for row in weighed]
    return weighed


# The name of a row's source, and the number of silver's rows, of which a line can have several.
_OF, _ROWS = "of_source", "rows_of_silver"


@dataclass(frozen=True)
class Read:
    """How rows of a table are read: the name of a row's source, and a condition on the rows, both in SQL."""

    source: str
    condition: str


def rows_read(span: Span, bronze: BronzeSpans, columns: Container[str]) -> Read:
    """Return how a table's rows are read that come from the spans of bronze.

    Args:
        span: the span of the table.
        bronze: the spans of bronze.
        columns: the table's columns.
    """
    times = {bronze_span.table.name: bronze_span.by_time() for bronze_span in bronze.values()}
    condition = rows_in(span, {ms for batch_times in times.values() for ms in batch_times})
    named = SOURCE.name in columns
    source = SOURCE_NAME if named else f"'{BRONZE.name}'"  # guard: rows-compared-by-source
    if span.whole or not named:
        return Read(source, condition)
    # a batch of another source may have the same time, and not be part of the comparison
    parts = [f"({source} = '{name}' AND {_among(batch_times)})" for name, batch_times in times.items()]
    return Read(source, f"{condition} AND ({' OR '.join(parts) or 'FALSE'})")


def _among(times: Iterable[int]) -> str:
    listed_times = ", ".join(map(str, sorted(times)))
    return f"{INGESTED_MS} IN ({listed_times})" if listed_times else "FALSE"


def _side(name: str, table: str, read: Read, sides: Iterable[str], columns: Container[str]) -> str:
    """Return in SQL one side's rows with origin, hash and counts; `half` is positive for bronze, else negative.

    Of the rows of a line's events, the first stands for the line.
    """
    is_line = IS_FIRST if EVENT_INDEX in columns else "TRUE"  # guard: proof-counts-line-once
    # rows of a file have no offset and are only counted
    hashed = f"CASE WHEN {is_line} AND t.offset IS NOT NULL THEN xxhash64(t.partition, t.offset) ELSE 0 END"
    sign = "" if name == _BRONZE else "-"
    here = f"CASE WHEN {is_line} THEN 1 ELSE 0 END"
    counts = ", ".join(f"{here if name == side else 0} AS {side}" for side in sides)
    rows = (
        f"SELECT {read.source} AS {_OF}, {INGESTED_MS} AS taken, t.topic, t.partition AS part, t.file, "
        f"{hashed} AS hash, {counts}, {int(name == SILVER.layer)} AS {_ROWS} FROM {{{table}}} t WHERE {read.condition}"
    )
    return f"SELECT *, {sign}(hash & {HALF}) AS half FROM ({rows}) {table}"


def _accepted(weighed: list[Weighed], compared: _Compared) -> tuple[list[str], tuple[Uncompared, ...], list[Weighed]]:
    """Exclude the batches of bronze that silver may have left out because a loss was accepted.

    Their commits are gone from bronze's log, and no row of them is in silver or beside it. Silver's commit of the loss
    may be gone too, or silver has not come to these batches yet.

    Returns:
        The accepted losses in words, what is not compared, and the rows that are.
    """
    losses = compared.silver.losses
    known = {(span.table.name, ms) for span in compared.bronze.values() for ms in span.by_time()}
    unread = any(
        span.start and span.start.version >= version_in(compared.silver.end, key)
        for key, span in compared.bronze.items()
    )
    left_out = [
        row
        for row in weighed
        if (losses or unread or not compared.silver.complete)  # guard: missing-line-is-fault
        and (row[_OF], row["taken"]) not in known
        and not any(row[side] for side in compared.others)
    ]
    notes = [f"batch {metadata.batch_id} accepted a loss: {listed(metadata.lost)}" for metadata in losses]
    why = "of an accepted loss" if losses else "in bronze alone: the commits that say why are gone"
    # guard: accepted-loss-is-number
    count = 0 if unread else sum(row[_BRONZE] for row in left_out)  # what is unread counts as waiting
    return notes, Uncompared.of_lines(count, why, lasting=True), [row for row in weighed if row not in left_out]


@dataclass(frozen=True)
class _BatchGroup:
    """Batches of silver that together read whole versions of bronze; usually one batch.

    Attributes:
        batch_ids: the batches.
        versions: per bronze table, the first version that they read, and the version after the last.
        inputs: the batches of bronze that wrote these versions.
        bronze: rows that bronze recorded in these versions.
        recorded: lines that each of the other sides recorded in these batches.
        rows: rows that silver recorded in these batches.
    """

    batch_ids: tuple[int, ...]
    versions: Mapping[str, tuple[int, int]]
    inputs: frozenset[_BronzeBatch]
    bronze: int
    recorded: Mapping[str, int]
    rows: int

    def __str__(self) -> str:
        """Return the batch IDs as words."""
        return batch_words(self.batch_ids)

    @property
    def read(self) -> str:
        """The versions that the batches read, as words."""
        ranges = [item for item in self.versions.items() if item[1][0] < item[1][1]] or [*self.versions.items()]
        return " and ".join(f"versions {first} to {end - 1} of {table}" for table, (first, end) in ranges)


def _groups(compared: _Compared) -> Iterator[_BatchGroup]:
    """Yield silver's batches in groups that each end where a version of every bronze table ends.

    Groups of which a log no longer has all commits are left out.
    """
    silver = compared.silver
    beside: dict[str, Counter[int]] = {span.table.name: Counter() for span in compared.beside}
    for span in compared.beside:
        for commit in span.of(CommitKind.BATCH):
            beside[span.table.name][commit.metadata.batch_id] += commit.rows_added
    read = {key: version_in(silver.before, key) for key in compared.bronze}
    batches: list[ChainCommit] = []
    for commit, metadata in silver.noted():
        if metadata.event is CommitKind.BATCH:
            batches.append(commit)
        if is_whole(metadata.end):
            end = {key: version_in(metadata.end, key) for key in compared.bronze}
            if batches:
                ids = tuple(batch.metadata.batch_id for batch in batches)
                if not _has_commits(compared, read, end, min(ids)):
                    read, batches = end, []
                    continue
                sources = [
                    (span.table.name, ingested)
                    for key, span in compared.bronze.items()
                    for ingested in span.of(CommitKind.BATCH)
                    if read[key] <= ingested.version < end[key]
                ]
                yield _BatchGroup(
                    ids,
                    {str(span.table): (read[key], end[key]) for key, span in compared.bronze.items()},
                    frozenset((name, ingested.metadata.planned_ms) for name, ingested in sources),
                    sum(ingested.rows_added for _, ingested in sources),
                    {
                        SILVER.layer: sum(batch.lines_added for batch in batches),
                        **{side: sum(rows[batch_id] for batch_id in set(ids)) for side, rows in beside.items()},
                    },
                    sum(batch.rows_added for batch in batches),
                )
            read, batches = end, []


def _has_commits(  # guard: batch-with-whole-log-only
    compared: _Compared, read: Mapping[str | None, int], end: Mapping[str | None, int], batch_id: int
) -> bool:
    """Return True if the spans have all commits of versions of bronze, and of silver's batches from one on."""
    ingested = all(
        not span.start or read[key] == end[key] or read[key] > span.start.version
        for key, span in compared.bronze.items()
    )
    return ingested and all(not span.start or batch_id > span.start.batch_id for span in compared.beside)


def _uncommitted(weighed: list[Weighed], groups: list[_BatchGroup], compared: _Compared) -> Iterator[str]:
    """Check each batch's commits against each other, and against the rows in the tables.

    Rows that a replay moved are in silver, or among the repeats, in addition to the rows that their batch wrote, and no
    longer in quarantine.
    """
    replayed = {
        side: sum(commit.lines_added for commit in span.of(CommitKind.REPLAY))
        for side, span in compared.others.items()
        if side != QUARANTINE.name
    }
    moved, more = dict.fromkeys(replayed, 0), 0
    shared = Counter(batch for group in groups for batch in group.inputs)
    sizes = {(row[_OF], row["taken"]): row for row in weighed}
    for group in groups:
        if group.bronze != sum(group.recorded.values()):  # guard: proof-batch-commits-balance
            first, *others = (
                f"{compared.others[side].table} recorded {rows:,}" for side, rows in group.recorded.items()
            )
            beside = " and ".join(other.replace(" recorded ", " ") for other in others)
            yield f"{group}: {group.read} have {count_of(group.bronze, 'row')}, {first} and {beside}"
        if any(shared[batch] > 1 for batch in group.inputs):  # the clock was set back: two batches have the same time
            continue
        actual = {side: sum(sizes[batch][side] for batch in group.inputs if batch in sizes) for side in compared.sides}
        moved_in = {side: max(actual[side] - group.recorded[side], 0) if rows else 0 for side, rows in replayed.items()}
        moved = {side: rows + moved_in[side] for side, rows in moved.items()}
        for side, rows in group.recorded.items():
            recorded = rows + moved_in.get(side, -sum(moved_in.values()))
            if actual[side] != recorded:
                less = actual[side] < recorded
                what = f"{recorded - actual[side]:,} too few" if less else f"{actual[side] - recorded:,} too many"
                amount = f"{actual[side]:,} of the {count_of(recorded, 'row')}"
                # guard: proof-batch-rows-as-recorded
                yield f"{compared.table(side, BRONZE.name)} has {amount} that {group} wrote: {what}"
        rows = sum(sizes[batch][_ROWS] for batch in group.inputs if batch in sizes)
        more, alike = more + rows - group.rows, actual[SILVER.layer] == group.recorded[SILVER.layer]
        if alike and rows != group.rows:
            of_events = count_of(group.rows, "row of events", "rows of events")
            # guard: event-rows-as-recorded
            yield f"{compared.silver.table} has {rows:,} of {of_events} that {group} recorded"
    spans = (*compared.bronze.values(), *compared.others.values())
    counted = all(span.complete for span in spans) and max(shared.values(), default=1) == 1
    for side, rows in moved.items():
        if rows > replayed[side] or (counted and rows < replayed[side]):
            extra = f"{compared.others[side].table} has {count_of(rows, 'row')} that its batches did not write"
            yield f"{extra}; replays moved {replayed[side]:,}"  # guard: proof-replay-as-recorded
    of_replays = sum(commit.rows_added for commit in compared.silver.of(CommitKind.REPLAY))
    if counted and more != of_replays and moved == replayed:
        yield f"{compared.silver.table} has {more:,} rows that its batches did not write; replays wrote {of_replays:,}"


def _unbalanced(weighed: list[Weighed], compared: _Compared) -> Iterator[str]:  # guard: proof-partitions-balance
    names = {span.table.name: batch_names(span) for span in compared.bronze.values()}
    for row in weighed:
        if row["off"]:
            batch = names.get(row[_OF], {}).get(row["taken"], "no batch")
            where = f"{batch} of {bronze_of(row[_OF])}, ingested at {clock(row['taken'])}"
            more = f" (and {count_of(row['off'] - 1, 'more origin')})" if row["off"] > 1 else ""
            yield f"{where}: {_difference(row['example'], compared)}{more}"


def _difference(off: Weighed, compared: _Compared) -> str:
    origin = shown_name(place_of(off["file"])) if off["file"] is not None else f"{off['topic']}/{off['part']}"
    *others, last = (f"{off[side]:,} in {span.table}" for side, span in compared.others.items())
    counts = f"{origin} has {count_of(off[_BRONZE], 'row')} in it, {', '.join(others)} and {last}"
    extra = sum(off[side] for side in compared.others) - off[_BRONZE]
    if extra == 0:
        return f"{counts}, but not with the same offsets"
    return f"{counts}: {abs(extra):,} {'too many' if extra > 0 else 'missing'}"
