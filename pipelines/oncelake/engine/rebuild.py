"""This is where a stage and all after it are emptied and replayed from what they read.

What is to be emptied is written down before anything is removed, and struck off when all of it is gone. So
a rebuild that died in the middle is told at every start, and run again it empties the same and ends right.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from oncelake.common.errors import StateError
from oncelake.common.lake import SILVER, Table
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.runtime import has_delta_log
from oncelake.common.tables import has_table, is_name, read
from oncelake.common.wording import count_of
from oncelake.engine.chain import Chain, StageState, selected
from oncelake.engine.graph import Stage
from oncelake.engine.start_gate import MARKER, finish_rebuild, unfinished_rebuild, unfinished_replay
from oncelake.exactly_once.delta_log import TableState
from oncelake.exactly_once.delta_source import DeltaSource
from oncelake.exactly_once.files import Files, files_at


@dataclass(frozen=True)
class Rebuild:
    """A rebuild of one stage.

    Attributes:
        stages: what is emptied and replayed, in the data's order.
        run: runs stages over all that is there, then ends; refuses when one of them may not start.
        say: takes what is being done, a line at a time.
    """

    chain: Chain
    spark: SparkSession
    stages: tuple[Stage, ...]
    run: Callable[[Chain], None]
    say: Callable[[str], None]

    def go(self, *, accept_loss: bool) -> None:
        """Empty the stages and replay them.

        Raises:
            StateError: a stage before them may not start, the source no longer holds all that they hold, or the
                rebuild of another stage was begun and not finished.
        """
        begun = unfinished_rebuild(self.chain)
        if not set(begun) <= {stage.name for stage in self.stages}:
            raise StateError(finish_rebuild(begun))
        before = stages_before(self.chain.stages, self.stages)
        if before and not begun:  # to their end, so that nothing that is still to come counts as missing
            self.run(replace(self.chain, stages=before))
        if self.stages[0].name not in begun:  # else it was checked before it was begun
            self._refuse_loss(accept_loss=accept_loss)
        self._files.write(self._marker, json.dumps({"stages": [stage.name for stage in self.stages]}))
        for stage in reversed(self.stages):
            self._empty(stage)
        if has_delta_log(self.spark):
            jvm(self.spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
        self._files.remove(self._marker)
        self.run(replace(self.chain, stages=self.stages))

    def plan(self) -> list[str]:
        """Say what `go` would do."""
        tables = [str(table) for stage in self.stages for table in stage.tables]
        keeps = " (bronze is kept aside)" if self.stages[0].reads is None else ""
        source = self.stages[0].reads or "the source"
        return [f"empty {', '.join(tables)}{keeps}", f"replay {', '.join(s.name for s in self.stages)} from {source}"]

    def _refuse_loss(self, *, accept_loss: bool) -> None:
        lost = _lost_for_good(self.chain, self.spark, self.stages[0])
        if lost is None:
            return
        if not accept_loss:
            raise StateError(
                f"{self.stages[0].name} is not rebuilt: {lost}. Nothing was changed. "
                f"To lose these lines and go on: oncelake rebuild {self.stages[0].name} --accept-loss"
            )
        self.say(f"accepted: {lost}")

    def _empty(self, stage: Stage) -> None:
        lake = self.chain.lake
        self.chain.checkpoint_files.remove(lake.checkpoint(stage.name))
        if stage.served is not None:
            stage.served.empty()
        for at in (lake.at(target.table) for target in stage.writes):
            empty = self._drop if is_name(at) else self._remove
            aside = empty(at, keep=stage.reads is None)
            if aside is not None:
                self.say(f"kept aside: {aside}; remove it when you no longer want it")

    def _remove(self, path: str, *, keep: bool) -> str | None:
        """Remove a table's directory, or give where it is kept."""
        if not keep:
            self._files.remove(path)
        if not keep or not self._files.names(path):
            return None
        aside = f"{path}.aside-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
        self._files.move(path, aside)
        return aside

    def _drop(self, name: str, *, keep: bool) -> str | None:
        """Drop a table from its catalog, or give the name that it is kept under."""
        if not keep:
            self.spark.sql(f"DROP TABLE IF EXISTS {name}")
        if not keep or not has_table(self.spark, name):
            return None
        catalog, _, within = name.partition(".")
        aside = f"{within[:-1]}_aside_{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}`"
        self.spark.catalog.setCurrentCatalog(catalog.strip("`"))  # a table's new name is given without its catalog
        self.spark.sql(f"ALTER TABLE {name} RENAME TO {aside}")
        return f"{catalog}.{aside}"

    @property
    def _files(self) -> Files:
        return files_at(self.chain.lake.root, self.spark)

    @property
    def _marker(self) -> str:
        return f"{self.chain.lake.root}/{MARKER}"


def stages_from(stages: Iterable[Stage], name: str) -> tuple[Stage, ...]:
    """Give a stage, or a layer's, and all that read their tables, or the tables of these, in the data's order."""
    chosen = list(selected(tuple(stages), name))
    for stage in stages:
        made = {table for each in chosen for table in each.tables}
        if stage not in chosen and stage.reads in made:
            chosen.append(stage)
    return tuple(chosen)


def stages_before(stages: Iterable[Stage], chosen: Iterable[Stage]) -> tuple[Stage, ...]:
    """Give the stages that the input of the chosen ones comes through, in the data's order."""
    needed = {stage.reads for stage in chosen}
    before: list[Stage] = []
    for stage in reversed(list(stages)):
        if stage not in chosen and needed & set(stage.tables):
            before.insert(0, stage)
            needed.add(stage.reads)
    return tuple(before)


def _lost_for_good(chain: Chain, spark: SparkSession, stage: Stage) -> str | None:
    """Say what a stage's tables hold that its source could not give again; None when all can be had again."""
    state = chain.stage_state(stage)
    if isinstance(state.source, DeltaSource):
        return _fewer_rows(chain, spark, state, state.source)
    table = stage.writes[0].table
    if chain.commit_log(table).newest() is None:
        return None
    return chain.kind.lost(spark, read(spark, chain.lake.at(table)), state.table_states[table].metadata)


def _fewer_rows(chain: Chain, spark: SparkSession, state: StageState, source: DeltaSource) -> str | None:
    if state.stage.name != "silver":  # a gold row is of many lines
        return None
    held = sum(_rows(chain, spark, table, table_state) for table, table_state in state.table_states.items())
    there = source.commit_log.state().rows
    moving = state.table_states[SILVER].last
    if moving is not None and unfinished_replay(chain) is not None:
        held -= moving.rows_added  # lines that are in both tables
    names = " and ".join(map(str, state.table_states))
    return f"{source.name} holds {count_of(there, 'line')}, {names} were made of {held:,}" if there < held else None


def _rows(chain: Chain, spark: SparkSession, table: Table, table_state: TableState) -> int:
    """Return a table's rows by the chain's own count, or counted where no batch of the chain wrote them."""
    return read(spark, chain.lake.at(table)).count() if table_state.strange else table_state.rows
