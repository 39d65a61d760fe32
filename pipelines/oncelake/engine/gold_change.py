"""Build a gold table whose declaration changed beside the old one, then put it in the place of the old one.

The new table is built from all of silver as a lake's table is, batch by batch, with a query and a checkpoint of its
own. It is in a directory of its own, so this needs no lock of the lake, and a run of the old declaration goes on. Then
one commit replaces the old table. It is batch 0 of the new query: it holds all of silver up to the position of the new
table. The stage's checkpoint is then written from this commit, as a recovery does it.

No step needs a record of its own. The old table names the declaration that it was built from, and the new one, once it
is in its place, the query that built it. So the same command finds out how far the last one came.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import SparkSession

from oncelake.common import tables
from oncelake.common.errors import LockedError, StateError, StoppedError
from oncelake.common.lake import Beside, Table
from oncelake.common.wording import count_of
from oncelake.engine.chain import Chain
from oncelake.engine.graph import DECLARATION, Stage, gold_stage
from oncelake.engine.make_table import forget_tables, replace_rows
from oncelake.engine.markers import MARKER, mark, unfinished_rebuild
from oncelake.engine.preflight import is_changed
from oncelake.engine.recover import recover
from oncelake.engine.rules import record_rules
from oncelake.engine.runner import RUN_ID
from oncelake.engine.start_gate import finish_rebuild, refuse_unless_finished
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.files import Files, files_at


@dataclass(frozen=True)
class Change:
    """The change of one gold table to another declaration.

    Attributes:
        chain: the whole chain.
        stage: the stage of the table.
        after: the stages that read the table, or count the same lines by the same declaration.
        run: runs the stages of a chain over all available input, then returns; raises StateError if one may not start.
        say: called with a line for each step.
    """

    chain: Chain
    spark: SparkSession
    stage: Stage
    after: tuple[Stage, ...]
    run: Callable[[Chain], None]
    say: Callable[[str], None]

    @cached_property
    def beside(self) -> Chain:
        """The chain of one stage that builds the new table."""
        settings, lake = self.chain.settings, Beside.of(self.chain.lake, self.table)
        stage = gold_stage(settings, self.chain.silver, self.table.name, lake)
        return replace(self.chain, lake=lake, stages=(stage,))

    @property
    def table(self) -> Table:
        """The gold table."""
        return self.stage.tables[0]

    @property
    def is_needed(self) -> bool:
        """Return True if the table was built from another declaration, or the last change of it is not finished."""
        return self.is_in_place or is_changed(self.chain, self.table.name)

    @property
    def is_in_place(self) -> bool:
        """Return True if the new table is in the place of the old one, and what belongs to it may be missing."""
        if is_changed(self.chain, self.table.name):
            return False
        new, current = (chain.commit_log(self.table).state().metadata for chain in (self.beside, self.chain))
        if new is None or current is None:
            return False
        # with a later batch, `recover` has made what belongs to it
        return (current.query_id, current.batch_id) == (new.query_id, 0)

    def plan(self) -> list[str]:
        """Return the steps as text."""
        steps = [
            f"build {self.table} from {self.stage.reads[0]} beside the old one; a run of the old declaration may go on",
            f"put it in the place of the old {self.table}, in one commit, when no run writes the lake",
        ]
        return [*steps, *(f"empty {stage.tables[0]} and fill it again" for stage in self.after)]

    def build(self) -> None:
        """Build the new table up to the newest version of silver, without the lake's lock.

        Raises:
            StateError: a rebuild of other stages or a replay is unfinished.
            StageError: the stage failed.
        """
        self._refuse_others()
        if not self.is_in_place:
            self._remove_unfit()
            self.run(self.beside)

    def take_over(self, fence: Callable[[], None]) -> bool:
        """Put the new table in the place of the old one, and empty the stages after it; the caller holds the lock.

        Args:
            fence: raises LockedError if this process no longer holds the lock.

        Returns:
            False if silver has no batch, so that there is no new table; nothing was changed then.

        Raises:
            StateError: a rebuild of other stages or a replay is unfinished, or the checkpoint could not be written from
                the table; the next call continues.
            StageError: the stage failed.
            StoppedError: a stop was requested; the next call continues.
            ReceiptError: the table does not hold the commit.
        """
        self._refuse_others()
        if not self.is_in_place:
            self._remove_unfit()
            new = self._catch_up()
            if new is None:
                return False
            self._replace(new, fence)
        recovery = recover(self.chain, self.spark, self.stage, accept_loss=False, dry_run=False)
        if recovery.refused is not None:
            raise StateError(recovery.refused)  # guard: replaced-gold-has-checkpoint
        if recovery.kept is not None:
            self.chain.checkpoint_files.remove(recovery.kept)
        record_rules(self.chain.lake, (self.stage,), self.spark)
        if self.after:
            self._mark()
            for stage in self.after:
                self.chain.checkpoint_files.remove(self.chain.lake.checkpoint(stage.name))
                assert stage.served is not None, "only served tables are made of a gold table"
                stage.served.empty()
            self._files.remove(self._marker)
        self._remove(self.beside.lake.root)
        return True

    def _refuse_others(self) -> None:
        begun = unfinished_rebuild(self.chain)
        if not set(begun) <= {stage.name for stage in self.after}:
            raise StateError(finish_rebuild(self.chain))  # guard: no-change-during-rebuild
        if not begun:
            refuse_unless_finished(self.chain)

    def _remove_unfit(self) -> None:
        """Remove a new table that was begun for another declaration, or from another silver."""
        commit_log, (stage,) = self.beside.commit_log(self.table), self.beside.stages
        built, declared = commit_log.properties().get(DECLARATION), stage.writes[0].properties[DECLARATION]
        other = built is not None and json.loads(built) != json.loads(declared)
        if other or not self.beside.stage_state(stage).diagnosis.may_start:  # guard: unfit-new-table-rebuilt
            self.say(f"removed what was built of another {self.table} beside it")
            self._remove(self.beside.lake.checkpoint(stage.name))
            self._remove(self.beside.lake.at(self.table))

    def _catch_up(self) -> CommitMetadata | None:
        """Read all of silver, and return the metadata of the new table's last batch; None if silver has no batch."""
        (stage,) = self.beside.stages
        self.run(self.beside)
        state = self.beside.stage_state(stage)
        has_lines = self.chain.commit_log(stage.reads[0]).state().last is not None
        if has_lines and not state.up_to_date:
            raise was_stopped(self.table)
        return state.first.metadata

    def _replace(self, new: CommitMetadata, fence: Callable[[], None]) -> None:
        if self.after:  # a stage after it must not start with what it has of the old table
            self._mark()  # guard: no-served-follower-of-replacement
        fence()
        rows = tables.read(self.spark, self.beside.lake.at(self.table))
        first = replace(new, batch_id=0, before=None, rows=0, run=RUN_ID)
        state = replace_rows(self.chain, self.stage.writes[0], rows, first)
        self.say(f"{self.table} is now the new table, with {count_of(state.rows, 'row')}")

    def _remove(self, directory: str) -> None:
        self._files.remove(directory)
        forget_tables(self.spark)

    def _mark(self) -> None:
        mark(self._files, self._marker, (stage.name for stage in self.after))

    @property
    def _files(self) -> Files:
        return files_at(self.chain.lake.root, self.spark)

    @property
    def _marker(self) -> str:
        return f"{self.chain.lake.root}/{MARKER}"


def was_stopped(table: Table) -> StoppedError:
    """Return the error for a build that was stopped; the next one continues it."""
    return StoppedError(f"stopped before {table} was built; to continue: oncelake rebuild {table}")


def waits_for_the_lock(table: Table, error: LockedError) -> LockedError:
    """Return the error for a new table that is built and cannot take its place while another process writes."""
    return LockedError(
        f"{table} is built beside the old one, which it cannot replace while a run goes on: {error}. Then run again: "
        f"oncelake rebuild {table}"
    )
