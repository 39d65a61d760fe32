"""Rebuild of a stage: empty the stage and all stages after it, then replay them from their input.

Before anything is removed, the names of the stages are written to a marker file. The file is deleted when all of them
are empty. So every start detects an unfinished rebuild, and a second run empties the same stages and finishes it.
Another file names the stages until they are filled again: until then, a proof does not hold over an empty table.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from oncelake.common.errors import StageError, StateError
from oncelake.common.lake import SILVER, Table, is_name
from oncelake.common.tables import has_table, read
from oncelake.common.wording import count_of
from oncelake.engine.chain import Chain, StageState, selected
from oncelake.engine.graph import Stage
from oncelake.engine.make_table import forget_tables
from oncelake.engine.markers import EMPTIED, MARKER, is_checked, mark, only_source, unfinished_rebuild
from oncelake.engine.preflight import counted_otherwise
from oncelake.engine.rules import mask_versions
from oncelake.engine.sources import former_sources
from oncelake.engine.start_gate import finish_rebuild, unfinished_replay
from oncelake.exactly_once.delta_log import TableState
from oncelake.exactly_once.delta_source import DeltaSource
from oncelake.exactly_once.delta_sources import DeltaSources
from oncelake.exactly_once.files import Files, files_at
from oncelake.exactly_once.state import State
from oncelake.exactly_once.write import no_fence
from oncelake.exactly_once.writers import Check


@dataclass(frozen=True)
class Rebuild:
    """A rebuild of one stage.

    Attributes:
        stages: the stages to empty and replay, in data order.
        run: runs the stages of a chain over all available input, then returns; raises StateError if one may not start.
        say: called with a line for each step.
        fence: raises LockedError if this process no longer holds the lake's lock.
    """

    chain: Chain
    spark: SparkSession
    stages: tuple[Stage, ...]
    run: Callable[[Chain], None]
    say: Callable[[str], None]
    fence: Check = field(default=no_fence, kw_only=True)

    def go(self, *, accept_loss: bool) -> None:
        """Empty the stages and replay them.

        Raises:
            StateError: a stage before them may not start, the source no longer holds all lines that they hold, or the
                rebuild of another stage is unfinished.
        """
        begun = unfinished_rebuild(self.chain)
        if not set(begun) <= {stage.name for stage in self.stages}:
            raise StateError(finish_rebuild(self.chain))  # guard: one-rebuild-at-once
        is_same = self.stages[0].name in begun and only_source(self.chain) == self.of_source
        if not (is_same and is_checked(self.chain)):  # guard: larger-rebuild-checked-again
            removed = self.removed()
            self._refuse_loss(SILVER.layer, removed, accept_loss=accept_loss)
            # a smaller rebuild that is unfinished keeps its own stages from running
            if removed is None and {stage.name for stage in self.before}.isdisjoint(begun):
                self.read_before()
            for stage, lost in self.losses():
                self._refuse_loss(stage.name, lost, accept_loss=accept_loss)
        names = [stage.name for stage in self.stages]
        mark(self._files, self._marker, names, self.record())  # guard: rebuild-marker-written
        self.clear()
        forget_tables(self.spark)
        mark(self._files, self._emptied, names)
        self._files.remove(self._marker)
        self.run(replace(self.chain, stages=self.stages))
        self._files.remove(self._emptied)

    @property
    def emptied(self) -> tuple[Stage, ...]:
        """The stages whose tables are emptied."""
        return self.stages

    @property
    def before(self) -> tuple[Stage, ...]:
        """The stages that read all available input first, so that rows not read yet do not count as missing."""
        return _stages_before(self.chain.stages, self.stages)

    @property
    def of_source(self) -> str | None:
        """The one source whose lines are made again; None for all lines."""
        return None

    def read_before(self) -> None:
        """Read all available input by the stages before; one that cannot, as of a bad line, stays behind."""
        try:
            self.run(replace(self.chain, stages=self.before))
        except StageError as error:  # guard: failed-source-blocks-no-rebuild
            self.say(f"not all lines could be read before: {error}")

    def removed(self) -> str | None:
        """Return the lines of removed sources that silver would not read again, in words; None for none."""
        return _of_removed(self.chain) if any(stage.name == SILVER.layer for stage in self.stages) else None

    def losses(self) -> Iterator[tuple[Stage, str | None]]:
        """Yield what would be lost for good, each with its stage; None for nothing."""
        for stage in self._heads():
            yield stage, lost_for_good(self.chain, self.spark, stage)

    def record(self) -> Mapping[str, Any] | None:
        """Return what the marker of the rebuild has to record beside its stages."""
        return None

    def clear(self) -> None:
        """Remove the rows that are made again."""
        for stage in reversed(self.stages):
            self.empty(stage)

    def plan(self) -> list[str]:
        """Return the steps of `go` as text."""
        tables = [str(table) for stage in self.stages for table in stage.tables]
        first = self.stages[0]
        keeps = "" if first.reads else " (the old bronze is kept under another name)"
        source = ", ".join(map(str, first.reads)) or "the source"
        return [f"empty {', '.join(tables)}{keeps}", f"replay {', '.join(s.name for s in self.stages)} from {source}"]

    def _heads(self) -> Sequence[Stage]:
        """Return the stages whose input is not emptied: those that read a source, or else the first stage."""
        return [stage for stage in self.stages if not stage.reads] or self.stages[:1]

    def _refuse_loss(self, stage: str, lost: str | None, *, accept_loss: bool) -> None:
        if lost is None:
            return
        if not accept_loss:
            raise StateError(  # guard: rebuild-loses-no-lines
                f"{stage} is not rebuilt: {lost}. Nothing was changed. "
                f"To rebuild it without these lines: oncelake rebuild {self.stages[0].name} --accept-loss"
            )
        self.say(f"accepted: {lost}")

    def empty(self, stage: Stage) -> None:
        """Remove the tables of a stage with all rows, and its checkpoint."""
        lake = self.chain.lake
        self.chain.checkpoint_files.remove(lake.checkpoint(stage.name))
        if stage.served is not None:
            stage.served.empty()
        for at in (lake.at(target.table) for target in stage.writes):
            empty = self._drop if is_name(at) else self._remove
            aside = empty(at, keep=not stage.reads)
            if aside is not None:
                self.say(f"the old table is kept as {aside}; remove it when you no longer need it")

    def _remove(self, path: str, *, keep: bool) -> str | None:
        """Remove a table's directory; with `keep`, rename it and return its new path."""
        if not keep:
            self._files.remove(path)
        if not keep or not self._files.names(path):
            return None
        aside = f"{path}.aside-{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
        self._files.move(path, aside)
        return aside

    def _drop(self, name: str, *, keep: bool) -> str | None:
        """Drop a table from its catalog; with `keep`, rename it and return its new name."""
        if not keep:
            self.spark.sql(f"DROP TABLE IF EXISTS {name}")
        if not keep or not has_table(self.spark, name):
            return None
        catalog, _, within = name.partition(".")
        aside = f"{within[:-1]}_aside_{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}`"
        self.spark.catalog.setCurrentCatalog(catalog.strip("`"))  # RENAME TO accepts only a name without a catalog
        self.spark.sql(f"ALTER TABLE {name} RENAME TO {aside}")
        return f"{catalog}.{aside}"

    @property
    def _files(self) -> Files:
        return files_at(self.chain.lake.root, self.spark)

    @property
    def _marker(self) -> str:
        return f"{self.chain.lake.root}/{MARKER}"

    @property
    def _emptied(self) -> str:
        return f"{self.chain.lake.root}/{EMPTIED}"


def stages_from(stages: Iterable[Stage], name: str) -> tuple[Stage, ...]:
    """Return a stage, or the stages of a layer, and all stages that depend on their tables, in data order."""
    chosen = list(selected(tuple(stages), name))
    for stage in stages:
        tables = {table for earlier in chosen for table in earlier.tables}
        if stage not in chosen and tables & set(stage.reads):
            chosen.append(stage)
    return tuple(chosen)


def served_from(chain: Chain, gold: Stage) -> tuple[Stage, ...]:
    """Return the stages that serve a gold table, whether they read it or count the same lines."""
    name = gold.tables[0].name
    return tuple(stage for stage in chain.stages if stage.served is not None and stage.served.table.name == name)


def with_served(chain: Chain, chosen: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Add to the stages to rebuild the served tables that must be rebuilt together with their gold tables.

    Such a table does not read the gold table but counts the same lines, and holds counts by another declaration. The
    rebuild may have emptied it already.

    Raises:
        TargetAwayError: the sink of such a table is unavailable, so it is not known what it holds.
    """
    begun = unfinished_rebuild(chain)
    same = [sink for gold in chosen if gold.layer == "gold" for sink in served_from(chain, gold) if sink not in chosen]
    # guard: rebuild-asks-served-sink
    return (*chosen, *(stage for stage in same if stage.name in begun or counted_otherwise(stage)))


def _stages_before(stages: Iterable[Stage], chosen: Iterable[Stage]) -> tuple[Stage, ...]:
    """Return the stages that the chosen stages depend on, in data order."""
    needed = {table for stage in chosen for table in stage.reads}
    before: list[Stage] = []
    for stage in reversed(list(stages)):
        if stage not in chosen and needed & set(stage.tables):
            before.insert(0, stage)
            needed.update(stage.reads)
    return tuple(before)


def lost_for_good(chain: Chain, spark: SparkSession, stage: Stage) -> str | None:
    """Describe the rows of a stage's tables that its source no longer holds; None if all can be read again."""
    state = chain.stage_state(stage)
    if isinstance(state.source, DeltaSource):
        return _fewer_rows(chain, spark, state, [state.source])
    if isinstance(state.source, DeltaSources):
        return _fewer_rows(chain, spark, state, [*state.source.declared.values()])
    table = stage.writes[0].table
    if state.damaged is not None:
        return f"nobody can read which lines {table} holds, as {state.diagnosis.seen}"
    lost = list[str]()
    if state.diagnosis.state is State.SOURCE_TRIMMED:  # guard: rebuild-keeps-planned-input
        lost.append(state.diagnosis.seen)
    if chain.commit_log(table).newest() is not None:
        rows, metadata = read(spark, chain.lake.at(table)), state.table_states[table].metadata
        unread = chain.kind(stage).lost(rows, metadata, mask_versions(chain.lake, lambda: spark))
        lost += [unread] if unread is not None else []
    return "; ".join(lost) or None


def _of_removed(chain: Chain) -> str | None:  # guard: rebuild-needs-every-source
    """Describe the rows of silver whose sources are no longer in the settings: nothing reads their bronze again."""
    names = ", ".join(former_sources(chain))
    if not names:
        return None
    return f"{SILVER} may hold lines of {names}, which it would not read again: put their sources back"


# guard: rebuild-bronze-has-rows
def _fewer_rows(chain: Chain, spark: SparkSession, state: StageState, sources: Sequence[DeltaSource]) -> str | None:
    if state.stage.name != "silver":  # a gold row counts many lines
        return None
    held_lines = sum(_lines(chain, spark, table, table_state) for table, table_state in state.table_states.items())
    source_lines = sum(source.commit_log.state().rows for source in sources)
    moving = state.table_states[SILVER].last
    if moving is not None and unfinished_replay(chain) is not None:
        states = [*state.table_states.values()]
        moves = [entry.last for entry in states if entry.metadata and entry.metadata.replay == moving.metadata.replay]
        held_lines -= sum(commit.lines_added for commit in moves if commit)  # these lines are in quarantine, too
    names = " and ".join(map(str, state.table_states))
    if source_lines >= held_lines:
        return None
    read, verb = ", ".join(source.name for source in sources), "holds" if len(sources) == 1 else "hold"
    return f"{read} {verb} {count_of(source_lines, 'line')}, but {names} hold {held_lines:,}"


def _lines(chain: Chain, spark: SparkSession, table: Table, table_state: TableState) -> int:
    """Return the lines of a table's rows as the chain recorded them; count rows that other commits wrote."""
    return read(spark, chain.lake.at(table)).count() if table_state.strange else table_state.lines
