"""This is where lines in quarantine go through today's format and rules again, and those that pass move to silver.

Three commits, in this order: the verdicts, beside the lake's tables; silver, which takes the lines that pass;
quarantine, which loses them and names today's reasons of the others. Whoever dies before the second has changed
nothing. Whoever dies after it has written down which lines were moved, and nothing else starts until quarantine has
lost them: the same command goes on there, whatever format and rules are by then.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.schema import BRONZE as BRONZE_SCHEMA
from oncelake.common import tables
from oncelake.common.errors import ConfigError, LockedError, ReceiptError, StateError
from oncelake.common.lake import QUARANTINE, SILVER, Table
from oncelake.common.wording import count_of
from oncelake.engine.chain import Chain, named
from oncelake.engine.make_table import make_tables
from oncelake.engine.rebuild import stages_from
from oncelake.engine.runner import RUN_ID
from oncelake.engine.start_gate import refuse_unless_finished, refuse_unless_startable, unfinished_replay
from oncelake.exactly_once.batch import no_fence
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.files import Files, files_at
from oncelake.exactly_once.recovery import rebuild_hint
from oncelake.exactly_once.write import append, move_out
from oncelake.silver.stream import Silver
from oncelake.silver.transform import accepted, is_accepted

# Where the verdicts are until they are carried out, below the lake's root.
PLACE = "_replay"
# What tells a line from all others; equal ones of a file share it, and their verdict.
_LINE = ("topic", "partition", "offset", "file", "ingested_at", "value")
_SAME_LINE = " AND ".join(f"held.{name} <=> verdict.{name}" for name in _LINE)
# What stood in quarantine before.
_WAS = "was"


@dataclass(frozen=True)
class Replayed:
    """What came of a replay, in lines.

    Attributes:
        lines: how many were looked at.
        moved: how many of them pass, and are in silver.
        stay: how many still break each rule; a line can break several.
        finished: how many an earlier replay had moved to silver, that are gone from quarantine only now.
    """

    lines: int = 0
    moved: int = 0
    stay: Mapping[str, int] = field(default_factory=dict)
    finished: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Give it for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Replay:
    """A replay of quarantine's lines. It needs the lake to itself.

    Attributes:
        silver: today's format and rules.
        fence: raises LockedError when the lake is no longer this process's.
    """

    chain: Chain
    spark: SparkSession
    silver: Silver
    fence: Callable[[], None] = no_fence

    def go(self, reasons: Sequence[str] = ()) -> Replayed:
        """Move the lines that pass, of those with one of these reasons or of all.

        Raises:
            ConfigError: no line has such a reason.
            StateError: a stage may not start, or silver's last batch is not done; nothing was changed.
            LockedError: another process took the lake over, or writes to it.
        """
        begun = unfinished_replay(self.chain)
        finished = self._finish(begun) if begun is not None else 0
        refuse_unless_startable(replace(self.chain, stages=stages_from(self.chain.stages, "silver")))
        rows = self._asked(reasons)
        if rows is None:
            return Replayed(finished=finished)
        metadata = self._note(reasons)
        self._files.remove(self._place())
        self._judged(rows).write.format("delta").save(self._place(metadata))
        verdicts = self._verdicts(metadata)
        outcome, changes = _counted(verdicts)
        if changes:
            make_tables(self.spark, self.chain, named(self.chain.stages, "silver"))
            self.fence()
            append(accepted(verdicts), self._path(SILVER), metadata)
            self._receipt(SILVER, metadata, outcome.moved)
            self._finish(metadata)
        else:
            self._files.remove(self._place())
        return replace(outcome, finished=finished)

    def plan(self, reasons: Sequence[str] = ()) -> Replayed:
        """Say what `go` would move. Nothing is changed.

        Raises:
            ConfigError: no line has such a reason.
            StateError: another replay was begun and not finished.
        """
        refuse_unless_finished(self.chain)
        rows = self._asked(reasons)
        return Replayed() if rows is None else _counted(self._judged(rows))[0]

    def _asked(self, reasons: Sequence[str]) -> DataFrame | None:
        """Give the lines with one of these reasons, or all; None where there is none."""
        if self.chain.commit_log(QUARANTINE).newest() is None:
            return None
        rows = tables.read(self.spark, self._path(QUARANTINE))
        known = sorted(row[0] for row in rows.select(F.explode("reasons.rule")).distinct().collect())
        unknown = [each for each in reasons if each not in known]
        if unknown:
            has = f"it has {', '.join(known)}" if known else "it holds no line"
            raise ConfigError(f"no line in {QUARANTINE} has the reason {unknown[0]!r}; {has}")
        if not known:
            return None
        return rows.where(F.arrays_overlap("reasons.rule", F.array(*map(F.lit, reasons)))) if reasons else rows

    def _judged(self, rows: DataFrame) -> DataFrame:
        return self.silver.parse(rows.select(*BRONZE_SCHEMA.fieldNames(), F.col("reasons").alias(_WAS)))

    def _note(self, reasons: Sequence[str]) -> CommitMetadata:
        """Give silver's metadata: the last batch's, which it repeats.

        Raises:
            StateError: the last batch is not done; quarantine may lack lines of it.
        """
        stage = named(self.chain.stages, "silver")
        state, version = self.chain.stage_state(stage), self.chain.commit_log(SILVER).newest()
        silver, quarantine = state.table_states[SILVER], state.table_states[QUARANTINE]
        if silver.metadata is None or state.checkpoint.committed != silver.batch_id:
            raise StateError(
                f"silver's batch {silver.batch_id or 0} is not done, and nothing was moved. "
                "Let it end first: oncelake run --once"
            )
        return replace(
            silver.metadata,
            event=CommitKind.REPLAY,
            rows=silver.rows,
            run=RUN_ID,
            beside={str(QUARANTINE): quarantine.batch_id},
            lost=(),
            quality={},
            replay={"id": str(uuid.uuid4()), "version": version, "reasons": list(reasons)},
        )

    def _finish(self, metadata: CommitMetadata) -> int:
        """Take from quarantine what silver took, and give how many lines that are.

        Raises:
            StateError: it is no longer written down which lines were moved.
        """
        if not self._files.names(self._place(metadata)):
            raise StateError(
                f"a replay moved lines to {SILVER}, and which ones is no longer at {self._place(metadata)}. "
                f"{rebuild_hint('silver')}"
            )
        table_state, verdicts = self.chain.commit_log(QUARANTINE).state(), self._verdicts(metadata)
        moved = verdicts.where(is_accepted()).count()
        self.fence()
        mine = replace(metadata, table=str(QUARANTINE), rows=table_state.rows, run=RUN_ID, beside={})
        move_out(verdicts.dropDuplicates(list(_LINE)), self._path(QUARANTINE), mine, _SAME_LINE)
        self._receipt(QUARANTINE, mine, -moved)
        self._files.remove(self._place())
        return moved

    def _receipt(self, table: Table, metadata: CommitMetadata, rows: int) -> None:
        """Hold the table's log against what was to be written; it is the only witness."""
        made = self.chain.commit_log(table).state().last
        if made is None or (made.metadata.replay, made.metadata.run) != (metadata.replay, metadata.run):
            raise LockedError(
                f"another process wrote to {table} while lines were replayed; this one stops. See what holds with: "
                "oncelake doctor, then oncelake prove"
            )
        if made.rows_added != rows:
            raise ReceiptError(
                f"{table} changed by {count_of(made.rows_added, 'row')} in a replay of {abs(rows):,}; see: "
                "oncelake prove"
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


def _counted(verdicts: DataFrame) -> tuple[Replayed, bool]:
    """Count verdicts, and tell whether they change anything."""
    changed = F.count_if(~is_accepted() & ~F.col("reasons").eqNullSafe(F.col(_WAS)))
    (seen,) = verdicts.agg(F.count(F.lit(1)), F.count_if(is_accepted()), changed).collect()
    stay = verdicts.select(F.explode("reasons.rule").alias("rule")).groupBy("rule").count().orderBy("rule").collect()
    return Replayed(seen[0], seen[1], {row["rule"]: row["count"] for row in stay}), bool(seen[1] or seen[2])
