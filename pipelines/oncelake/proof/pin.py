"""Pin each table of a lake for a proof: the version to read, and the commit to start from."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from oncelake.common.lake import DUPLICATES, QUARANTINE, SILVER, Table
from oncelake.engine.chain import Chain
from oncelake.engine.sources import bronze_tables
from oncelake.exactly_once.checkpoint import read_checkpoint
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit, Commit, DeltaLog
from oncelake.exactly_once.link import Uncompared, batch_words
from oncelake.exactly_once.positions import is_whole, same_position
from oncelake.exactly_once.proven import ProvenTable
from oncelake.exactly_once.span import Span

# A commit, and True if its rows still exist.
Entry = tuple[Commit, bool]
# Returns True for the last commit of the chain, with rows that still exist, that need not be proven again.
Begin = Callable[[ChainCommit], bool]
# Returns why a batch may be incomplete, also in the stage's other tables; None if it is surely complete.
Until = Callable[[CommitMetadata], str | None]


@dataclass(frozen=True)
class PinnedTable:
    """One table, pinned for a proof.

    Attributes:
        entries: every commit after the start and up to the span's version, oldest first, each with True if
            its rows still exist.
        joins: True if no commit lies between the proven part (or the oldest commit of the log) and the span.
        gaps: what no proof covers any more, because log clean-up removed its commits.
        notes: what is excluded for now, and why.
        strange: see TableState.
        uncompared: what no earlier proof has compared, and no later one can.
    """

    table_id: str
    span: Span
    entries: tuple[Entry, ...]
    joins: bool
    gaps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    strange: str | None = None
    uncompared: tuple[Uncompared, ...] = ()


@dataclass(frozen=True)
class PinnedLake:
    """A lake's tables, pinned for a proof; None for a table that does not exist."""

    bronze: Mapping[Table, PinnedTable | None]
    silver: PinnedTable | None
    quarantine: PinnedTable | None
    gold: Mapping[str, PinnedTable | None]
    duplicates: PinnedTable | None = None

    def all(self) -> list[PinnedTable]:
        """Return the existing tables, in the order of the data flow."""
        tables = (*self.bronze.values(), self.silver, self.quarantine, self.duplicates, *self.gold.values())
        return [table for table in tables if table]


def within_version(metadata: CommitMetadata) -> str | None:
    """Return why a batch that ends within a version of its source may be incomplete; None if it does not."""
    if is_whole(metadata.end):
        return None
    return "it has not yet read the first snapshot, or a large version, of its source to the end; run oncelake run"


@dataclass(frozen=True)
class Limits:
    """Limits on the part of a table that is proven.

    Attributes:
        begin: finds the commit after which the proof begins.
        proven: what an earlier proof recorded of the table.
        newest: the newest version that may be read; None for the table's newest.
        until: returns why a batch may be incomplete, or None.
    """

    begin: Begin
    proven: ProvenTable | None = None
    newest: int | None = None
    until: Until = within_version


def from_record(proven: ProvenTable | None, table_id: str | None) -> Begin:
    """Begin after the commit that an earlier proof of the same table ended with."""

    def begin(commit: ChainCommit) -> bool:
        metadata = commit.metadata
        return (
            proven is not None
            and proven.table_id == table_id  # guard: earlier-proof-same-table
            and (commit.version, metadata.batch_id, metadata.query_id)  # guard: earlier-proof-same-batch
            == (proven.version, proven.batch_id, proven.query_id)
            and same_position(metadata.end, proven.end)  # guard: earlier-proof-same-position
        )

    return begin


def from_beginning(commit: ChainCommit) -> bool:
    """Begin with the table's first commit."""
    del commit
    return False


def from_time(since_ms: int) -> Begin:
    """Begin after the last commit made before a time."""
    return lambda commit: commit.timestamp < since_ms and is_whole(commit.metadata.end)


def from_batch(batch_id: int) -> Begin:
    """Begin after the last commit of a batch or an earlier one."""
    return lambda commit: commit.metadata.batch_id <= batch_id


def pin_lake(
    chain: Chain, record: Mapping[str, ProvenTable], since_ms: int | None, *, full: bool = False
) -> PinnedLake:
    """Pin every table of a lake that may be written concurrently.

    The tables are pinned from the last one to the first. So everything that a table has read is in the pinned
    version of the table before it.

    Args:
        chain: the chain and its lake.
        record: how far each table is proven by earlier proofs.
        since_ms: prove only commits made from this time on; None for all commits that the record does not cover.
        full: prove all commits, also those that the record covers.
    """
    fix = _Fix(chain, _still_together(chain, record), since_ms, full)
    gold = {stage.name: fix(stage.writes[0].table) for stage in chain.stages if stage.layer == "gold"}
    newest, written_whole = _written_whole(chain)
    newest_repeats = chain.commit_log(DUPLICATES).newest()
    silver = fix(SILVER, Limits(fix.begin(SILVER), until=lambda batch: written_whole(batch) or within_version(batch)))
    start = silver.span.start if silver else None
    end: CommitMetadata | ProvenTable | None = (
        silver.span.commits[-1].metadata if silver and silver.span.commits else start
    )
    last = end.batch_id if end else -1
    cut = silver is not None and bool(silver.notes)

    def silver_has(metadata: CommitMetadata) -> str | None:
        return f"it is excluded from {SILVER} too" if cut and metadata.batch_id > last else None

    begin = from_batch(start.batch_id) if start else from_beginning
    quarantine = fix(QUARANTINE, Limits(begin, newest=newest, until=silver_has))
    # a batch in quarantine, or one that is done, was in the table of repeats before
    duplicates = fix(DUPLICATES, Limits(begin, newest=newest_repeats, until=silver_has))
    return PinnedLake({table: fix(table) for table in bronze_tables(chain)}, silver, quarantine, gold, duplicates)


@dataclass(frozen=True)
class _Fix:
    chain: Chain
    proven: Mapping[str, ProvenTable]
    since_ms: int | None
    full: bool

    def begin(self, table: Table) -> Begin:
        if self.since_ms is not None:
            return from_time(self.since_ms)
        if self.full:
            return from_beginning
        commit_log = self.chain.commit_log(table)
        begin = from_record(self.proven.get(str(table)), commit_log.table_id())
        # a replay moves rows of any batch, so all batches are compared again
        return from_beginning if table == SILVER and _replayed(commit_log, begin) else begin

    def __call__(self, table: Table, limits: Limits | None = None) -> PinnedTable | None:
        limits = replace(limits or Limits(self.begin(table)), proven=self.proven.get(str(table)))
        return pin(table, self.chain.lake.at(table), self.chain.commit_log(table), limits)


# guard: proof-record-of-both-tables
def _still_together(chain: Chain, record: Mapping[str, ProvenTable]) -> Mapping[str, ProvenTable]:
    """Return the record without silver and the tables beside it if one was recreated: they are compared together."""
    for table in (QUARANTINE, DUPLICATES):
        proven = record.get(str(table))
        if proven is not None and proven.table_id != chain.commit_log(table).table_id():
            together = {str(member) for member in (SILVER, QUARANTINE, DUPLICATES)}
            return {name: entry for name, entry in record.items() if name not in together}
    return record


def _replayed(commit_log: DeltaLog, begin: Begin) -> bool:  # guard: proof-replay-with-origins
    """Return True if a replay moved rows into a table after the commit where a proof would begin."""
    for commit in _of_chain(commit_log.newest_first()):
        if begin(commit):
            return False
        if commit.metadata.event is CommitKind.REPLAY:
            return True
    return False


def _written_whole(chain: Chain) -> tuple[int | None, Until]:
    """Return quarantine's version, and a check whether one of silver's batches is surely complete at that version.

    Because of the order of the reads, each answer stays true while batches continue. Silver's batch before the last
    is done, and so is the batch that the checkpoint has committed. A batch in quarantine was in silver before.
    """
    silver = chain.commit_log(SILVER).state().metadata
    stage = next(stage for stage in chain.stages if SILVER in stage.tables)
    checkpoint = read_checkpoint(chain.checkpoint_files, chain.lake.checkpoint(stage.name))
    quarantine = chain.commit_log(QUARANTINE).state().metadata
    newest = chain.commit_log(QUARANTINE).newest()
    done = [silver.batch_id - 1] if silver else []
    if silver and checkpoint.committed is not None and checkpoint.query_id == silver.query_id:
        done.append(checkpoint.committed)
    if quarantine:
        done.append(quarantine.batch_id)

    def whole(metadata: CommitMetadata) -> str | None:
        later = quarantine is not None and quarantine.batch_id > metadata.batch_id
        moved = not metadata.replay or later or (quarantine is not None and quarantine.replay == metadata.replay)
        surely = moved and metadata.batch_id <= max(done, default=-1)
        return None if surely else f"it may still be written to {QUARANTINE}"

    return newest, whole


def pin(table: Table, path: str, commit_log: DeltaLog, limits: Limits) -> PinnedTable | None:
    """Pin a table at its newest complete version within the limits; return None if there is no table."""
    table_id = commit_log.table_id()
    if table_id is None:
        return None
    proven = limits.proven if limits.proven and limits.proven.table_id == table_id else None
    all_entries, start = _read(commit_log, limits.begin, limits.newest, table_id)
    gaps: tuple[str, ...] = proven.gaps if proven else ()
    joins = start is None or (proven is not None and start.version <= proven.version)  # guard: partial-proof-joins-up
    # guard: proof-begins-at-replacement
    is_cut = start is None and bool(all_entries) and all_entries[0][0].version > 0 and not _is_first(all_entries[0][0])
    if is_cut:
        start, gaps = _after_clean_up(table, all_entries, proven, table_id)
    earlier = proven.uncompared if proven and start and joins else ()  # guard: earlier-uncompared-carried-on
    later = [entry for entry in all_entries if not start or entry[0].version > start.version]
    entries, left_out = _cut(later, limits.until)
    version = entries[-1][0].version if entries else (start.version if start else -1)
    standing = tuple(_of_chain(entries))
    notes = (_left_out(left_out, limits.until),) if left_out else ()
    strange = commit_log.state().strange if start is None and not standing else None
    # guard: rows-below-oldest-commit
    span = Span(table, path, version, standing, start, includes_earlier=is_cut and start is not proven)
    return PinnedTable(table_id, span, tuple(entries), joins, gaps, notes, strange, earlier)


def _read(
    commit_log: DeltaLog, begin: Begin, newest: int | None, table_id: str
) -> tuple[list[Entry], ProvenTable | None]:
    """Read back to where the proof begins, or to the log's first commit; return the commits, oldest first."""
    entries: list[Entry] = []
    for commit, stands in commit_log.newest_first():
        if newest is not None and commit.version > newest:
            continue
        if stands and isinstance(commit, ChainCommit) and begin(commit):
            return entries[::-1], ProvenTable.up_to(table_id, commit)
        entries.append((commit, stands))
    return entries[::-1], None


def _is_first(commit: Commit) -> bool:
    return isinstance(commit, ChainCommit) and commit.is_first


def _after_clean_up(
    table: Table, entries: list[Entry], proven: ProvenTable | None, table_id: str
) -> tuple[ProvenTable | None, tuple[str, ...]]:
    """Return the start in a log that no longer has its first commits, and what is not covered, in words."""
    chain = list(_of_chain(entries))
    if proven and (not chain or _goes_on(proven, chain[0])):
        return proven, proven.gaps
    oldest = entries[0][0].version
    gone = f"{table}: versions below {oldest} are gone from its log, and no earlier proof covers them"
    whole = next((commit for commit in chain if may_start(commit)), None)
    if whole is None:
        return None, (f"{gone}; no batch is left to check",)
    start = ProvenTable.ahead_of(table_id, whole)
    if proven and proven.version >= oldest - 1:
        return start, proven.gaps
    return start, (f"{gone}; checked from batch {whole.metadata.batch_id} on",)


def _goes_on(proven: ProvenTable, first: ChainCommit) -> bool:
    return same_position(first.metadata.end if first.metadata.carries else first.metadata.before, proven.end)


def may_start(commit: ChainCommit) -> bool:
    """Return True if a proof may begin before a commit: a batch that starts between two versions of its source."""
    return not commit.metadata.carries and is_whole(commit.metadata.before)


def _of_chain(entries: Iterable[Entry]) -> Iterator[ChainCommit]:
    """Yield the chain's commits whose rows still exist."""
    return (commit for commit, stands in entries if stands and isinstance(commit, ChainCommit))


def _cut(entries: list[Entry], until: Until) -> tuple[list[Entry], list[CommitMetadata]]:
    """Cut a table after its last complete batch; return the remaining entries, and the excluded batches."""
    chain = list(_of_chain(entries))
    count = len(chain)
    while count and until(chain[count - 1].metadata) is not None:
        count -= 1
    if count == len(chain):
        return entries, []
    return [entry for entry in entries if entry[0].version < chain[count].version], [
        commit.metadata for commit in chain[count:]
    ]


def _left_out(batches: list[CommitMetadata], until: Until) -> str:
    """Return which batches are excluded, and why the last one is, in words."""
    verb = "is" if len(batches) == 1 else "are"
    return f"{batch_words([batch.batch_id for batch in batches])} {verb} excluded: {until(batches[-1])}"
