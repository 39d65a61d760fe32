"""This is where a lake's tables are fixed together, the last one first, while others may write to them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Table
from oncelake.engine.chain import Chain
from oncelake.exactly_once.checkpoint import read_checkpoint
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.proof.begin import Begin, from_batch, from_beginning, from_record, from_time
from oncelake.proof.pin import Limits, Pinned, Until, pin
from oncelake.proof.record import Proven, Record


@dataclass(frozen=True)
class PinnedLake:
    """A lake's tables as they are proven; None for a table that is not there."""

    bronze: Pinned | None
    silver: Pinned | None
    quarantine: Pinned | None
    gold: Mapping[str, Pinned | None]

    def all(self) -> list[Pinned]:
        """Give the tables that there are, in the data's order."""
        return [each for each in (self.bronze, self.silver, self.quarantine, *self.gold.values()) if each]


def pin_lake(chain: Chain, record: Record, since_ms: int | None, *, full: bool = False) -> PinnedLake:
    """Fix every table of a lake.

    Args:
        chain: the chain and its lake.
        record: what earlier proofs came to.
        since_ms: prove only commits made from this time on; None for all that the record does not cover.
        full: prove all commits, also those that the record covers.
    """
    fix = _Fix(chain, _still_together(chain, record), since_ms, full)
    gold = {stage.name: fix(stage.writes[0].table) for stage in chain.stages if stage.layer == "gold"}
    whole, newest, moved = _written_whole(chain)
    why = f"it may still be written to {QUARANTINE}"
    silver = fix(
        SILVER,
        Limits(fix.begin(SILVER), until=lambda metadata: metadata.batch_id <= whole and moved(metadata), why=why),
    )
    first, last = _batches(silver)
    cut = silver is not None and bool(silver.notes)
    begin = from_beginning if first is None else from_batch(first)
    why = f"it is left out of {SILVER} too"
    limits = Limits(begin, newest=newest, until=lambda metadata: metadata.batch_id <= last or not cut, why=why)
    quarantine = fix(QUARANTINE, limits)
    return PinnedLake(fix(BRONZE), silver, quarantine, gold)


@dataclass(frozen=True)
class _Fix:
    chain: Chain
    proven: Mapping[str, Proven]
    since_ms: int | None
    full: bool

    def begin(self, table: Table) -> Begin:
        if self.since_ms is not None:
            return from_time(self.since_ms)
        if self.full:
            return from_beginning
        commit_log = self.chain.commit_log(table)
        begin = from_record(self.proven.get(str(table)), commit_log.table_id())
        # rows of any batch were moved then, so all are weighed again
        return from_beginning if table == SILVER and _replayed(commit_log, begin) else begin

    def __call__(self, table: Table, limits: Limits | None = None) -> Pinned | None:
        limits = limits or Limits(self.begin(table))
        limits = replace(limits, proven=self.proven.get(str(table)))
        return pin(table, self.chain.lake.at(table), self.chain.commit_log(table), limits)


def _still_together(chain: Chain, record: Record) -> Mapping[str, Proven]:
    """Give the record; silver's and quarantine's count only together, as their rows are weighed together."""
    kept = record.tables.get(str(QUARANTINE))
    if kept is None or kept.table_id == chain.commit_log(QUARANTINE).table_id():
        return record.tables
    return {table: each for table, each in record.tables.items() if table not in (str(SILVER), str(QUARANTINE))}


def _replayed(commit_log: DeltaLog, begin: Begin) -> bool:
    """Tell whether rows were moved into a table after the commit that a proof would begin after."""
    for commit, stands in commit_log.newest_first():
        if stands and commit.metadata and begin(commit):
            return False
        if stands and commit.metadata and commit.metadata.event is CommitKind.REPLAY:
            return True
    return False


def _written_whole(chain: Chain) -> tuple[int, int | None, Until]:
    """Give the last batch that quarantine surely has, where it has rows there, and quarantine's version by then.

    And tell of a replay whether its rows are gone from there.

    Looked at in this order, each answer holds although batches go on: silver's batch before the last is
    done, as is what the checkpoint says; and a batch that is in quarantine was in silver before.
    """
    silver = chain.commit_log(SILVER).standing().metadata
    stage = next(stage for stage in chain.stages if stage.reads == BRONZE)
    checkpoint = read_checkpoint(chain.checkpoint_files, chain.lake.checkpoint(stage.name))
    quarantine = chain.commit_log(QUARANTINE).standing().metadata
    newest = chain.commit_log(QUARANTINE).newest()
    done = [silver.batch_id - 1] if silver else []
    if silver and checkpoint.committed is not None and checkpoint.query_id == silver.query_id:
        done.append(checkpoint.committed)
    if quarantine:
        done.append(quarantine.batch_id)

    def moved(metadata: CommitMetadata) -> bool:
        later = quarantine is not None and quarantine.batch_id > metadata.batch_id
        return not metadata.replay or later or (quarantine is not None and quarantine.replay == metadata.replay)

    return max(done, default=-1), newest, moved


def _batches(silver: Pinned | None) -> tuple[int | None, int]:
    """Give the batch that silver's proof starts after, None from its beginning, and the last one of the proof."""
    start = silver.span.start if silver else None
    last = silver.span.commits[-1].metadata if silver and silver.span.commits else None
    first = start.batch_id if start else None
    return first, last.batch_id if last else -1 if first is None else first
