"""Check the positions in a table's commits: no gap, no overlap, no rows from other writers."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from oncelake.common.lake import QUARANTINE, SILVER
from oncelake.common.wording import count_of, listed
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.link import Link, Uncompared, batch_words, first_to_last, named
from oncelake.exactly_once.positions import TablePosition, TablesPosition, in_table, in_tables, same_position
from oncelake.exactly_once.proven import ProvenTable
from oncelake.exactly_once.span import Span
from oncelake.proof.pin import Entry, PinnedTable
from oncelake.sources.registry import position_of


@dataclass(frozen=True)
class PositionOrigin:
    """The source or table that a table's positions refer to.

    Attributes:
        name: the source, or the table that is read.
        table_id: the table's ID; None for a source that is no table.
        newest: the table's newest version; None for a source that is no table.
        tables: the tables that are read, if there may be several; then the other attributes are not used.
    """

    name: str
    table_id: str | None = None
    newest: int | None = None
    tables: "tuple[PositionOrigin, ...]" = ()

    @property
    def all(self) -> "tuple[PositionOrigin, ...]":
        """The tables that are read."""
        return self.tables or (self,)


def follow(pinned: PinnedTable, source: PositionOrigin, first: Span | None = None) -> Link:
    """Check the positions of a table.

    Only the Delta log is read. Each commit of the chain records its batch ID, the start and end of its batch, and
    the number of rows before it. So two consecutive commits must fit, and a batch that is missing, applied twice,
    or covers another range is detected without reading a row.

    Args:
        pinned: the table.
        source: what its stage reads.
        first: the stage's first table, if `pinned` is a table that only some batches write to.
    """
    span = pinned.span
    notes = (*pinned.gaps, *pinned.notes, *_explained(pinned.entries))
    broken = _broken(pinned, source, first)
    link = Link.of(f"positions of {span.table}", span.table, broken, _counted(span), notes)
    # what a loss skipped of another table is found where the rows are compared
    lost = () if in_tables(span.end) else map(_lost, span.losses)  # guard: skipped-range-is-number
    return link.without(*pinned.uncompared, *lost)


def _broken(pinned: PinnedTable, source: PositionOrigin, first: Span | None) -> Iterator[str]:
    span = pinned.span
    yield from _missing_versions(pinned.entries)
    # guard: proof-no-rows-without-batches
    yield from list(_by_others(pinned.entries)) or ([pinned.strange] if pinned.strange and first is None else [])
    yield from _receipts(span)
    yield from _rows(span)
    yield from _chained(span, source.name) if first is None else _listed_beside(span, first)
    yield from _out_of_source(span, source)


def _counted(span: Span) -> str:
    ids = [metadata.batch_id for _, metadata in span.noted()]
    if not ids:
        return f"nothing new since batch {span.start.batch_id}" if span.start else "no batch yet"
    what = count_of(len(span.of(CommitKind.BATCH)), "batch")
    numbers = f"{ids[0]:,}" if ids[0] == ids[-1] else f"{ids[0]:,} to {ids[-1]:,}"
    return f"{what} ({numbers}) without gap or overlap, {count_of(span.rows, 'row')} recorded"


def _lost(metadata: CommitMetadata) -> Uncompared:
    """Return what an accepted loss skipped of the source."""
    at = position_of(metadata.end)
    unit = at.unit if at else None
    count = sum(size for _, size in _steps(metadata.before, metadata.end, "")) if unit else len(metadata.lost)
    return Uncompared(
        count, f"{count_of(count, unit or 'file')} of an accepted loss: {listed(metadata.lost)}", lasting=True
    )


def _missing_versions(entries: Iterable[Entry]) -> Iterator[str]:
    for (one, _), (other, _) in pairwise(entries):
        if other.version != one.version + 1:
            # guard: proof-no-commit-missing
            yield f"the log has no commit file between versions {one.version} and {other.version}"


def _receipts(span: Span) -> Iterator[str]:
    """Check each commit against its own transaction, and against its table."""
    for commit, metadata in span.noted():
        if metadata.table != str(span.table):
            yield f"{named(commit)} is a commit of {metadata.table}"  # guard: proof-commit-of-its-table
        if metadata.event is not CommitKind.RECOVERY and commit.txns.get(metadata.app_id) != metadata.txn_version:
            recorded = commit.txns.get(metadata.app_id, "none")
            # guard: proof-commit-has-transaction
            yield f"{named(commit)} records transaction {recorded} of {metadata.app_id}, not {metadata.txn_version}"


def _rows(span: Span) -> Iterator[str]:
    rows, lines = (span.start.rows, span.start.lines_in_all) if span.start else (0, 0)
    for commit, metadata in span.noted():
        for recorded, summed, unit in ((metadata.rows, rows, "row"), (metadata.lines_before, lines, "line")):
            if recorded != summed:
                count = count_of(recorded, unit)
                # guard: proof-rows-add-up
                yield f"{named(commit)} records {count} before it; the earlier commits hold {summed:,}"
                break
        rows, lines = commit.rows_in_all, commit.lines_in_all


def _out_of_source(span: Span, source: PositionOrigin) -> Iterator[str]:
    """Check the positions against the existing source tables: their IDs and newest versions."""
    known = {origin.table_id: origin for origin in source.all}
    for commit, metadata in span.noted():
        strange = next((source_id for source_id in in_tables(metadata.end) if source_id not in known), None)
        if strange is not None:
            tables_now = " and ".join(f"{origin.name} is table {origin.table_id or 'none'}" for origin in source.all)
            yield f"{named(commit)} read table {strange}; {tables_now}"  # guard: proof-source-table-id
            return
    for table_id in in_tables(span.end):
        at, table = in_table(span.end, table_id), known.get(table_id)
        # guard: proof-source-table-reaches
        if at and table and table.newest is not None and at.version > table.newest + 1:
            read = f"{span.table} has read {table.name} up to version {at.version - 1}"
            yield f"{read}, which ends at version {table.newest}"


def _chained(span: Span, source: str) -> Iterator[str]:
    """Check each batch of a stage's first table against the batch before it."""
    last: CommitMetadata | ProvenTable | None = span.start
    for commit, metadata in span.noted():
        yield from (f"{named(commit)} {what}" for what in _misfits(last, metadata, source))
        last = metadata


def _misfits(last: CommitMetadata | ProvenTable | None, metadata: CommitMetadata, source: str) -> Iterator[str]:
    end = last.end if last else None
    batch_id = last.batch_id if last else -1
    if metadata.carries:
        if (metadata.batch_id, True) != (batch_id, same_position(metadata.end, end)):
            where = between(end, metadata.end, source)
            # guard: proof-recovery-begins-at-end
            yield f"continues from batch {metadata.batch_id}, {where}; the last one was batch {batch_id}"
        return
    if metadata.batch_id == batch_id:
        # guard: proof-batch-recorded-once
        yield f"applies batch {batch_id} a second time: {between(end, metadata.before, source)}"
        return
    if metadata.batch_id != batch_id + 1:
        # guard: proof-no-batch-missing
        yield f"{f'follows batch {batch_id}' if last else 'is the first'}: {_ids(batch_id, metadata.batch_id)}"
    if last and metadata.query_id != last.query_id:
        was = f"the last batch was of query {last.query_id}"
        yield f"is of query {metadata.query_id}; {was}, and no recovery is between"  # guard: proof-one-query
    if (last or not _is_offsets(metadata.before)) and not same_position(metadata.before, end):
        # guard: proof-no-range-gap
        yield f"does not begin where {f'batch {batch_id}' if last else source} {'ended' if last else 'begins'}: " + (
            f"it {between(end, metadata.before, source)}"
        )
    start = metadata.before
    if metadata.event in (CommitKind.LOSS, CommitKind.TOPICS):
        start = _in_same_topics(start, metadata.end)
    if goes_back(start, metadata.end, source):
        yield f"ends before it begins: it {between(start, metadata.end, source)}"  # guard: proof-range-goes-forward
    if metadata.event is CommitKind.TOPICS and not same_position(_in_same_topics(metadata.end, start), start):
        # guard: topic-change-moves-nothing
        yield f"changes the topics, and {between(start, _in_same_topics(metadata.end, start), source)}"


def _in_same_topics(at: str | None, other: str | None) -> str | None:
    """Return a position without the topics that another position does not name."""
    one, two = position_of(at), position_of(other)
    return (one.in_parts_of(two) if one and two else None) or at


def _topics_changed(metadata: CommitMetadata) -> str:
    """Return which topics leave a position and which join it, each with its place, in words."""
    before, end = position_of(metadata.before), position_of(metadata.end)
    words = []
    for what, one, other in (("left at", before, end), ("joined at", end, before)):
        numbers = one.parts_beside(other) if one else {}
        places = ", ".join(f"{part}/{offset}" for part, offset in sorted(numbers.items()))
        words += [f"{what} {places}"] if places else []
    return "; ".join(words)


def _ids(last: int, batch_id: int) -> str:
    if batch_id <= last:
        return f"batch {batch_id} came before"
    return f"{batch_words(range(last + 1, batch_id))} missing"


def _listed_beside(span: Span, first: Span) -> Iterator[str]:
    """Check the batches of a table that only some batches write to against the stage's first table."""
    covered = {metadata.batch_id: metadata for _, metadata in first.noted()}
    ids: list[int] = []
    for commit, metadata in span.noted():
        if not metadata.carries:
            before = ids[-1] if ids else (span.start.batch_id if span.start else -1)
            if metadata.batch_id <= before:
                # guard: proof-second-batch-once
                yield f"{named(commit)} follows batch {before}: {_ids(before, metadata.batch_id)}"
            in_first = covered.get(metadata.batch_id)  # after a recovery it may have another query ID
            if in_first is None or not same_position(in_first.end, metadata.end):
                # guard: proof-second-batch-of-first
                yield f"{named(commit)} matches no batch in {first.table}, or covers another range"
        ids.append(metadata.batch_id)
    yield from _lacking(span, first, sorted(ids))


def _lacking(span: Span, first: Span, known: list[int]) -> Iterator[str]:
    """Yield batches that the first table records and the other table does not hold, or the other way round."""
    name = str(span.table)
    earlier = span.start.batch_id if span.start else None
    for commit, metadata in first.noted():
        if metadata.carries or name not in metadata.beside:
            continue
        place = bisect_left(known, metadata.batch_id)
        last_held, expected = known[place - 1] if place else None, metadata.beside[name]
        covered = last_held is None and earlier is not None and (expected is None or expected <= earlier)
        if expected != last_held and not covered:
            last, actual = ("none" if batch_id is None else batch_id for batch_id in (expected, last_held))
            # guard: proof-second-has-named-batches
            yield f"{named(commit)} of {first.table} records that batch {last} was the last before it in {name}, " + (
                f"which holds batch {actual}"
            )


def _by_others(entries: tuple[Entry, ...]) -> Iterator[str]:
    """Yield commits of other writers that changed rows, and removed batches without a recovery after them."""
    for index, (commit, stands) in enumerate(entries):
        if commit.metadata is not None or not stands or not (commit.changes_data or commit.takes_away):
            continue
        undone = _undone(entries[:index]) if commit.takes_away else []
        if undone:
            following = next(
                (later.metadata for later, exists in entries[index + 1 :] if exists and later.metadata), None
            )
            if following is None or following.event is not CommitKind.RECOVERY:
                # guard: proof-removed-batches-again
                yield f"{named(commit)} removed {batch_words(undone)}, and no recovery follows it"
        elif commit.changes_data and commit.operation != "RESTORE":
            yield f"{named(commit)} changed rows and is not a commit of the chain"  # guard: proof-no-changes-by-others


def _explained(entries: tuple[Entry, ...]) -> Iterator[str]:
    """Yield notes on recoveries, replays, accepted losses, and changes that another commit undid."""
    for index, (commit, stands) in enumerate(entries):
        metadata = commit.metadata
        if not stands:
            continue
        if metadata is None and commit.takes_away and commit.changes_data:
            undone = _undone(entries[:index])
            what = f"removed {batch_words(undone)}, later read again" if undone else "removed no batch"
            yield f"{named(commit)} {what}"
        elif metadata and metadata.event is CommitKind.RECOVERY:
            yield f"{named(commit)} recovers: the query continues as {metadata.query_id}"
        elif metadata and metadata.event is CommitKind.REPLAY:
            yield f"{named(commit)} moved {count_of(abs(commit.lines_added), 'row')} from {QUARANTINE} to {SILVER}"
        elif metadata and metadata.event is CommitKind.TOPICS:
            yield f"{named(commit)} changes the topics: {_topics_changed(metadata)}"
        elif metadata and metadata.event is CommitKind.LOSS:
            yield f"{named(commit)} accepts a loss: {', '.join(metadata.lost) or 'not recorded what'}"


def _undone(earlier: tuple[Entry, ...]) -> list[int]:
    """Return the batches that a commit removed: those that are gone since the last commit that removed some."""
    removed: list[int] = []
    for commit, stands in reversed(earlier):
        if commit.metadata is None and stands and commit.takes_away:
            break
        if commit.metadata and not stands and commit.metadata.event is not CommitKind.RECOVERY:
            removed.append(commit.metadata.batch_id)
    return removed[::-1]


def _is_offsets(at: str | None) -> bool:
    """Return True if a position is of a source that has one before its first batch too, as Kafka has."""
    position = position_of(at)
    return position is not None and position.before_all


def between(start: str | None, to: str | None, source: str) -> str:
    """Return what a position skips, or reads again, if it follows another one, in words.

    Args:
        start: the first position; None is before all input.
        to: the position that follows.
        source: the name of the table that is read, for positions in a table.
    """
    steps = [f"{'skips' if size > 0 else 'reads again'} {words}" for words, size in _steps(start, to, source)]
    return " and ".join(steps) or "starts elsewhere"


def goes_back(start: str | None, to: str | None, source: str) -> bool:
    """Return True if a range ends before it begins."""
    return any(size < 0 for _, size in _steps(start, to, source))


def _steps(start: str | None, to: str | None, source: str) -> Iterator[tuple[str, int]]:
    """Yield what lies between two positions: each part in words, and its size, which is negative if it goes back."""
    # a position holds the next number to read, per partition; a Delta table and a directory have one number
    positions = [position_of(at) for at in (start, to)]
    if any(isinstance(position, TablesPosition) for position in positions):
        positions = [
            TablesPosition((position,)) if isinstance(position, TablePosition) else position for position in positions
        ]
    one, other = (position.numbers() if position else {} for position in positions)
    for key in sorted(one.keys() | other.keys()):
        begin, end = one.get(key, 0), other.get(key, 0)
        if begin != end:
            yield _words(key, min(begin, end), max(begin, end) - 1, source), end - begin
    if one == other and not same_position(start, to):
        yield f"a part of a version of {source}", 1


def _words(key: str, first: int, last: int, source: str) -> str:
    numbers, more = first_to_last(first, last), "" if first == last else "s"
    if key.startswith("version"):
        table = key.removeprefix("version").removeprefix(" of ")
        return f"version{more} {numbers} of {f'table {table}' if table else source}"
    return f"file list{more} {numbers}" if key == "list" else f"{key}/{numbers}"
