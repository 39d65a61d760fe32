"""Replay of quarantine: check its lines again with today's format and rules, and move those that pass to silver.

A replay makes three commits, in this order. The first writes the verdicts, next to the lake's tables. The second
appends the lines that pass to silver. The third deletes these lines from quarantine and gives the other lines today's
reasons. If silver drops repeats, a commit between the second and the third appends those of the lines that pass and
repeat a line of silver to the table of repeats; the verdicts say which.
A replay that fails before the second commit has changed nothing. After the second commit, the verdicts record
which lines were moved. Then nothing else starts until these lines are gone from quarantine. The same command continues
there, even if format and rules have changed since.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.schema import BRONZE as BRONZE_SCHEMA
from oncelake.common import tables
from oncelake.common.errors import ConfigError, LockedError, ReceiptError, StateError
from oncelake.common.lake import DUPLICATES, QUARANTINE, SILVER, Table
from oncelake.common.wording import count_of, did_you_mean
from oncelake.engine.chain import Chain, named
from oncelake.engine.make_table import make_tables
from oncelake.engine.rebuild import stages_from
from oncelake.engine.runner import RUN_ID
from oncelake.engine.start_gate import refuse_unless_finished, refuse_unless_startable, unfinished_replay
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import TableState
from oncelake.exactly_once.files import Files, files_at
from oncelake.exactly_once.recovery import rebuild_hint
from oncelake.exactly_once.table_version import TableVersion
from oncelake.exactly_once.write import no_fence
from oncelake.exactly_once.writers.spark import append, move_out
from oncelake.silver.duplicates import dropped, stored_near, with_twin
from oncelake.silver.rules import Silver, source_name
from oncelake.silver.schema import DUPLICATES as DUPLICATES_SCHEMA
from oncelake.silver.schema import SOURCE, TWIN
from oncelake.silver.transform import accepted, is_accepted

# The directory below the lake's root that holds the verdicts until the replay is finished.
PLACE = "_replay"
# The columns that identify a line. Equal lines of a file have the same values here, and get the same verdict.
LINE = ("topic", "partition", "offset", "file", "ingested_at", "value")
# The column for the reasons that quarantine had before the replay.
_WAS = "_was"


@dataclass(frozen=True)
class ReplayResult:
    """The result of a replay, in numbers of lines.

    Attributes:
        lines: the lines that were checked.
        moved: the lines that pass; a replay moves them to silver, a dry run only counts them.
        repeats: those of the lines that pass that repeat a line of silver; they go to the table of repeats.
        stay: per rule, the lines that still break it; a line can break several rules.
        finished: the lines that an earlier, unfinished replay had added to silver and this one removed from quarantine.
        made_otherwise: by source, the lines that stay and that bronze put together, or masked, by other rules than
            today's; a replay does not change that.
    """

    lines: int = 0
    moved: int = 0
    stay: Mapping[str, int] = field(default_factory=dict)
    finished: int = 0
    repeats: int = 0
    made_otherwise: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON; without `repeats` and `made_otherwise` if there are none."""
        values = asdict(self)
        return {name: value for name, value in values.items() if value or name not in ("repeats", "made_otherwise")}


@dataclass(frozen=True)
class Replay:
    """A replay of quarantine's lines. Its process must be the only writer of the lake.

    Attributes:
        silver: today's format and rules.
        fence: raises LockedError if this process no longer holds the lake's lock.
    """

    chain: Chain
    spark: SparkSession
    silver: Silver
    fence: Callable[[], None] = no_fence

    def go(self, reasons: Sequence[str] = ()) -> ReplayResult:
        """Check the lines with one of these reasons, or all lines if none is named, and move those that pass.

        Raises:
            ConfigError: no line has such a reason.
            StateError: a stage may not start, or silver's last batch is not finished; no line of this replay was moved.
            LockedError: another process holds the lock now, or wrote to the lake.
            ReceiptError: a table did not change by the expected number of rows.
        """
        begun = unfinished_replay(self.chain)
        finished = self._finish(begun) if begun is not None else 0  # guard: replay-not-started-over
        refuse_unless_startable(replace(self.chain, stages=stages_from(self.chain.stages, "silver")))
        rows = self._lines_to_check(reasons)
        if rows is None:
            return ReplayResult(finished=finished)
        metadata = self._note(reasons)
        self._files.remove(self._place())
        self._judged(rows, metadata.txn_version).write.format("delta").save(self._place(metadata))
        verdicts = self._verdicts(metadata)
        outcome, changes = self._outcome(verdicts)
        if changes:
            make_tables(self.spark, self.chain, named(self.chain.stages, "silver"))
            rows, count = accepted(_without_repeats(verdicts)), outcome.moved - outcome.repeats
            if self.silver.has_events:  # guard: replay-counts-moved-lines
                metadata = replace(metadata, lines={"before": metadata.lines_before, "added": count})
                count = rows.count()
            self.fence()
            append(self.silver.completed(rows), self._path(SILVER), metadata)
            self._receipt(SILVER, metadata, count)
            self._finish(metadata)
        else:
            self._files.remove(self._place())
        return replace(outcome, finished=finished)

    def plan(self, reasons: Sequence[str] = ()) -> ReplayResult:
        """Return what `go` would move. Change nothing.

        Raises:
            ConfigError: no line has such a reason.
            StateError: a rebuild or another replay is unfinished.
        """
        refuse_unless_finished(self.chain)
        rows = self._lines_to_check(reasons)
        if rows is None:
            return ReplayResult()
        return self._outcome(self._judged(rows, self.chain.commit_log(SILVER).newest() or 0))[0]

    def _outcome(self, verdicts: DataFrame) -> tuple[ReplayResult, bool]:
        """Count the verdicts; the second value is True if they change a table."""
        outcome, changes = _counted(verdicts)
        return replace(outcome, made_otherwise=dict(self._made_otherwise(verdicts)) if outcome.stay else {}), changes

    def _made_otherwise(self, verdicts: DataFrame) -> Iterator[tuple[str, int]]:
        """Yield the sources whose bronze has lines of other rules than today's, with how many of them stay."""
        for stage in (stage for stage in self.chain.stages if not stage.reads):
            commits = self.chain.commit_log(stage.tables[0]).newest_first()
            batches = (commit.metadata for commit, stands in commits if stands and commit.metadata is not None)
            last = next((batch.planned for batch in batches if batch.rules != stage.rules), None)
            if last is None:
                continue
            stay = verdicts.where(~is_accepted()).where(F.col("ingested_at") <= F.lit(last))
            if SOURCE.name in verdicts.columns:
                stay = stay.where(source_name() == stage.tables[0].name)
            if lines := stay.count():
                yield stage.tables[0].name, lines

    def _lines_to_check(self, reasons: Sequence[str]) -> DataFrame | None:
        """Return the lines with one of these reasons, or all lines if none is named; None if quarantine is empty."""
        if self.chain.commit_log(QUARANTINE).newest() is None:
            return None
        rows = tables.read(self.spark, self._path(QUARANTINE))
        known = sorted(row[0] for row in rows.select(F.explode("reasons.rule")).distinct().collect())
        unknown = [reason for reason in reasons if reason not in known]
        if unknown:
            has = (
                f"the reasons in it are {', '.join(known)}{did_you_mean(unknown[0], known)}" if known else "it is empty"
            )
            raise ConfigError(f"no line in {QUARANTINE} has the reason {unknown[0]!r}; {has}")
        if not known:
            return None
        if SOURCE.name in rows.columns:  # a removed source has no format any more
            rows = rows.where(source_name().isin([*self.silver.parsers]))
        return rows.where(F.arrays_overlap("reasons.rule", F.array(*map(F.lit, reasons)))) if reasons else rows

    def _judged(self, rows: DataFrame, version: int) -> DataFrame:
        """Return lines of quarantine as the rules read them now.

        If repeats are dropped, each line has its twin among these lines or those of a version of silver.
        """
        parsed = parsed_again(self.silver, rows, F.col("reasons").alias(_WAS))
        declared = self.silver.deduplicate
        if declared is None:
            return parsed
        before = TableVersion(self._path(SILVER), str(SILVER), version)
        return with_twin(parsed, stored_near(before, parsed, declared), declared.within)

    def _note(self, reasons: Sequence[str]) -> CommitMetadata:
        """Return the metadata of the replay's commit to silver; it repeats batch ID and position of the last batch.

        Raises:
            StateError: the last batch is not finished, so quarantine may lack lines of it.
        """
        stage = named(self.chain.stages, "silver")
        state, version = self.chain.stage_state(stage), self.chain.commit_log(SILVER).newest()
        silver = state.table_states[SILVER]
        if silver.metadata is None or state.checkpoint.committed != silver.batch_id:
            raise StateError(  # guard: replay-after-last-batch
                f"silver's batch {silver.batch_id or 0} is not finished, so no line was moved. "
                "Finish the batch first: oncelake run --once"
            )
        return replace(
            silver.metadata,
            event=CommitKind.REPLAY,
            **silver.totals,
            run=RUN_ID,
            beside={str(table): other.batch_id for table, other in state.table_states.items() if table != SILVER},
            lost=(),
            quality={},
            replay={"id": str(uuid.uuid4()), "version": version, "reasons": list(reasons)},
        )

    def _finish(self, metadata: CommitMetadata) -> int:
        """Delete from quarantine the lines that silver now holds, and return their number.

        Raises:
            StateError: the record of the moved lines is missing.
        """
        if not self._files.names(self._place(metadata)):
            raise StateError(  # guard: replay-finished-from-record
                f"an unfinished replay moved lines to {SILVER}, but its record of these lines is missing at "
                f"{self._place(metadata)}. {rebuild_hint('silver')}"
            )
        verdicts = self._verdicts(metadata)
        if str(DUPLICATES) in metadata.beside:
            self._move_repeats(verdicts, metadata)
        moved = verdicts.where(is_accepted()).count()
        self.fence()
        mine = self._of(QUARANTINE, metadata)
        line = [*LINE, *([SOURCE.name] if SOURCE.name in verdicts.columns else [])]
        same = " AND ".join(f"held.{name} <=> verdict.{name}" for name in line)
        move_out(verdicts.dropDuplicates(line), self._path(QUARANTINE), mine, same)
        self._receipt(QUARANTINE, mine, -moved)
        self._files.remove(self._place())
        return moved

    def _move_repeats(self, verdicts: DataFrame, metadata: CommitMetadata) -> None:
        """Append the repeats to their table; also none, so that this replay is recorded in all tables of silver."""
        if _is_of(self.chain.commit_log(DUPLICATES).state(), metadata):
            return
        repeats = _repeats(verdicts)
        self.fence()
        mine = self._of(DUPLICATES, metadata)
        append(repeats, self._path(DUPLICATES), mine)
        self._receipt(DUPLICATES, mine, repeats.count())

    def _of(self, table: Table, metadata: CommitMetadata) -> CommitMetadata:
        """Return the metadata of the replay's commit to another table than silver."""
        rows = self.chain.commit_log(table).state().rows
        return replace(metadata, table=str(table), rows=rows, run=RUN_ID, beside={}, deduplicated={}, lines={})

    def _receipt(self, table: Table, metadata: CommitMetadata, rows: int) -> None:
        """Check in the table's Delta log that the commit was written; no other record of the write exists.

        Raises:
            LockedError: the newest commit of the chain is not this replay's.
            ReceiptError: the commit changed another number of lines than expected.
        """
        commit = self.chain.commit_log(table).state().last
        if commit is None or (commit.metadata.replay, commit.metadata.run) != (metadata.replay, metadata.run):
            raise LockedError(  # guard: no-foreign-commit-in-replay
                f"another process wrote to {table} during the replay, so this one stops. Check the lake with: "
                "oncelake doctor, then oncelake prove"
            )
        if commit.rows_added != rows:
            raise ReceiptError(  # guard: replayed-rows-match
                f"{table} changed by {count_of(commit.rows_added, 'row')}, but the replay moved {abs(rows):,}. "
                "Check with: oncelake prove"
            )

    def _verdicts(self, metadata: CommitMetadata) -> DataFrame:
        return self.spark.read.format("delta").load(self._place(metadata))

    def _path(self, table: Table) -> str:
        return self.chain.lake.at(table)

    def _place(self, metadata: CommitMetadata | None = None) -> str:
        return f"{self.chain.lake.root}/{PLACE}" + (f"/{metadata.replay['id']}" if metadata is not None else "")

    @property
    def _files(self) -> Files:
        return files_at(self.chain.lake.root, self.spark)


def parsed_again(silver: Silver, rows: DataFrame, *beside: Column) -> DataFrame:
    """Return lines of bronze or quarantine as the declared formats and rules read them.

    Args:
        silver: the formats and rules.
        rows: the lines; of their columns, only those of bronze are kept.
        beside: further columns to keep.
    """
    if silver.named and SOURCE.name not in rows.columns:
        rows = rows.withColumn(SOURCE.name, F.lit(None).cast(SOURCE.dataType))
    columns = [name for name in (*BRONZE_SCHEMA.fieldNames(), SOURCE.name) if name in rows.columns]
    return silver.parse(rows.select(*columns, *beside))


def _is_of(state: TableState, metadata: CommitMetadata) -> bool:
    """Return True if a table's last commit is of this replay."""
    return state.metadata is not None and state.metadata.replay == metadata.replay


def _without_repeats(verdicts: DataFrame) -> DataFrame:
    """Return the verdicts of the lines that are no repeats."""
    return verdicts.where(F.col(TWIN.name).isNull()).drop(TWIN.name) if TWIN.name in verdicts.columns else verdicts


def _repeats(verdicts: DataFrame) -> DataFrame:
    """Return the rows of the table of repeats; none if repeats were kept."""
    if TWIN.name in verdicts.columns:
        return dropped(verdicts)
    return verdicts.sparkSession.createDataFrame([], DUPLICATES_SCHEMA)


def _counted(verdicts: DataFrame) -> tuple[ReplayResult, bool]:
    """Count the verdicts; the second value is True if they change a table."""
    changed = F.count_if(~is_accepted() & ~F.col("reasons").eqNullSafe(F.col(_WAS)))
    repeats = F.count_if(F.col(TWIN.name).isNotNull()) if TWIN.name in verdicts.columns else F.lit(0)
    (seen,) = verdicts.agg(F.count(F.lit(1)), F.count_if(is_accepted()), changed, repeats).collect()
    stay = verdicts.select(F.explode("reasons.rule").alias("rule")).groupBy("rule").count().orderBy("rule").collect()
    by_rule = {row["rule"]: row["count"] for row in stay}
    return ReplayResult(seen[0], seen[1], by_rule, repeats=seen[3]), bool(seen[1] or seen[2])
