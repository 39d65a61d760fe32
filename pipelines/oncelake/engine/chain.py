"""The configured chain, and the state of each stage: its checkpoint, its tables and its source together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, StateError, TargetError
from oncelake.common.lake import DUPLICATES, SILVER, Lake, Table, is_local, is_name
from oncelake.common.spark.runtime import on_databricks
from oncelake.common.table_rows import TableRows
from oncelake.common.wording import did_you_mean
from oncelake.engine.graph import Stage, chain, duplicates_target, log_at, silver_rules, silver_source, suites
from oncelake.engine.rules import mask_versions
from oncelake.engine.settings import Settings
from oncelake.exactly_once.checkpoint import Checkpoint, position, read_checkpoint
from oncelake.exactly_once.delta_log import CommitLog, DeltaLog, TableState
from oncelake.exactly_once.delta_source import DeltaSource
from oncelake.exactly_once.diagnosis import diagnose, planned_elsewhere
from oncelake.exactly_once.files import Files, files_at
from oncelake.exactly_once.log_damage import LogDamage, find_damage
from oncelake.exactly_once.recovery import Case, plan
from oncelake.exactly_once.source import Source
from oncelake.exactly_once.span import Span
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.quality.suite import Suites
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.rules import Silver
from oncelake.sources.kind import SourceKind
from oncelake.sources.proof import Ingestion, StageView

# What the checkpoint of a host can be after the lake was run, rebuilt or restored by another one.
_OF_ANOTHER_HOST = (State.CHECKPOINT_LOST, State.CHECKPOINT_BEHIND, State.FOREIGN)


@dataclass(frozen=True)
class StageState:
    """The state of a stage: its checkpoint, tables and source, and the diagnosis of whether it may start.

    Attributes:
        damaged: the table, written or read, whose newest version readers cannot read, and why; None if they can.
        per_host: True if other hosts have checkpoints of their own, see `Lake`.
    """

    stage: Stage
    path: str
    checkpoint: Checkpoint
    commit_logs: Mapping[Table, CommitLog]
    table_states: Mapping[Table, TableState]
    source: Source
    diagnosis: Diagnosis
    damaged: tuple[Table, LogDamage] | None = None
    per_host: bool = False

    @property
    def recovers(self) -> bool:  # guard: moved-driver-recovers
        """Return True if a run first writes the checkpoint again: another host has run the lake since, or always.

        The table then shows exactly how far the stage has come.
        """
        if not self.per_host or self.damaged is not None or self.diagnosis.state not in _OF_ANOTHER_HOST:
            return False
        try:
            plan(case(self))
        except StateError:
            return False
        return True

    @property
    def first(self) -> TableState:
        """Return the state of the table that every batch writes to."""
        return self.table_states[self.stage.tables[0]]

    @property
    def up_to_date(self) -> bool:
        """Return True if a query certainly has nothing to do: no open batch, and no input after its position."""
        at = position(self.checkpoint.offsets[1] or "")
        settled = self.diagnosis.state is State.ALIGNED and self.checkpoint.open_batch is None
        return settled and at is not None and self.source.exhausted(at)

    @property
    def replays_alone(self) -> bool:
        """Return True if a separate query must replay the open batch before one that reads all available input."""
        at = position(self.checkpoint.offsets[1] or "")
        return self.checkpoint.open_batch is not None and at is not None and self.source.replays_alone(at)


@dataclass(frozen=True)
class Chain:
    """A configured chain and its lake.

    Attributes:
        spark: needed for Kafka, for a catalog and for storage that is not local; with None, no JVM is used.
        suites: the expectations for the tables' rows.
        silver: how silver's rows are made: the formats, the time limits, the rules and the gate.
        deep: read checkpoints and commits of the Delta logs whole to find damage, see `find_damage`.
        compared: what the sources have compared with their tables, and need not compare again in the same command.
    """

    settings: Settings
    lake: Lake
    stages: tuple[Stage, ...]
    spark: SparkSession | None = None
    suites: Suites = field(kw_only=True, repr=False)
    silver: Silver = field(kw_only=True, repr=False)
    deep: bool = field(default=False, kw_only=True)
    compared: dict[str, Any] = field(default_factory=dict, kw_only=True, repr=False, compare=False)

    def states(self) -> list[StageState]:
        """Return the state of every stage, in data order."""
        return [self.stage_state(stage) for stage in self.stages]

    def stage_state(self, stage: Stage) -> StageState:
        """Return the state of one stage. Change nothing.

        Raises:
            SourceError: Kafka cannot be reached or has no such topic.
        """
        path = self.lake.checkpoint(stage.name)
        checkpoint = read_checkpoint(self.checkpoint_files, path)
        commit_logs: dict[Table, CommitLog] = {
            target.table: self.commit_log(target.table, at_one_moment=True) for target in stage.writes
        }
        if stage.served is not None:
            commit_logs[stage.served.table] = stage.served
        source = self.source(stage)
        damaged = self._damaged(stage)
        if damaged is not None:
            diagnosis = Diagnosis(State.LOG_DAMAGED, f"in the log of {damaged[0]}, {damaged[1].lost}")
            unread = dict.fromkeys(commit_logs, TableState())
            return StageState(stage, path, checkpoint, commit_logs, unread, source, diagnosis, damaged)
        try:
            table_states = {table: commit_log.state() for table, commit_log in commit_logs.items()}
        except TargetError as error:
            table_states, diagnosis = dict.fromkeys(commit_logs, TableState()), Diagnosis(State.TARGET_AWAY, str(error))
        else:
            diagnosis = diagnose(checkpoint, {str(table): state for table, state in table_states.items()}, source)
        per_host = self.lake.per_host
        if per_host and not stage.reads and diagnosis.state is State.ALIGNED:
            first = table_states[stage.tables[0]]
            diagnosis = planned_elsewhere(checkpoint, first) or diagnosis  # guard: planned-batch-of-another-host
        return StageState(stage, path, checkpoint, commit_logs, table_states, source, diagnosis, per_host=per_host)

    def damage(self, table: Table) -> LogDamage:
        """Return what is damaged in the Delta log of a table; nothing for a table that is not on a local disk."""
        at = self.lake.at(table)
        return find_damage(at, deep=self.deep) if not is_name(at) and is_local(at) else LogDamage()

    def _damaged(self, stage: Stage) -> tuple[Table, LogDamage] | None:  # guard: newest-version-readable
        """Return the first table that the stage writes or reads whose newest version readers cannot read."""
        damages = ((table, self.damage(table)) for table in (*(target.table for target in stage.writes), *stage.reads))
        return next(((table, damage) for table, damage in damages if damage.lost), None)

    def versions(self) -> dict[Table, int | None]:
        """Return the newest version of each table, None without a table; this costs one listing per table."""
        written = (target.table for stage in self.stages for target in stage.writes)
        return {table: self.commit_log(table, at_one_moment=True).newest() for table in written}

    def commit_log(self, table: Table, *, at_one_moment: bool = False) -> DeltaLog:
        """Return the Delta log of a table.

        Args:
            table: the table.
            at_one_moment: in a catalog, read the history once, so that all answers describe the same moment.
        """
        return log_at(self.lake, table, self.spark, at_one_moment=at_one_moment)

    @property
    def silver_stage(self) -> Stage | None:
        """The stage that writes silver; None in a part of the chain without it."""
        return next((stage for stage in self.stages if SILVER in stage.tables), None)

    @property
    def checkpoint_files(self) -> Files:
        """Return the access to the files of the checkpoints."""
        return files_at(self.lake.checkpoints, self.spark)

    @property
    def kinds(self) -> Mapping[Table, SourceKind]:
        """Return the configured sources, by the bronze tables that their lines go to."""
        return {kind.table: kind for kind in self.settings.kinds(self.silver.records).values()}

    def kind(self, stage: Stage) -> SourceKind:
        """Return the configured source of a bronze stage."""
        return self.kinds[stage.tables[0]]

    def ingestion(self, stage: Stage, rows: TableRows, span: Span | None = None, *, deep: bool = False) -> Ingestion:
        """Return a bronze table beside its source.

        Args:
            stage: the stage that reads the source.
            rows: answers queries over the table.
            span: the commits of the table to check.
            deep: True to read the source again.
        """
        table = stage.tables[0]
        return Ingestion(
            rows=rows,
            root=self.lake.root,
            table=table,
            place=self.lake.at(table),
            log=self.commit_log(table),
            source=self.source(stage),
            look=lambda: _view(self.stage_state(stage)),
            versions=mask_versions(self.lake, rows.spark),
            span=span,
            deep=deep,
        )

    def source(self, stage: Stage) -> Source:
        """Return the source that a stage reads, without accessing it yet."""
        if not stage.reads:
            kind, table = self.kind(stage), stage.tables[0]
            source = kind.source(self.spark, self.checkpoint_files, self.lake.checkpoint(stage.name))
            commit_log, spark = self.commit_log(table), self.spark
            source = source.after(lambda: commit_log.state().metadata)
            if spark is None:
                return source
            return kind.comparing(source, self.lake.at(table), mask_versions(self.lake, lambda: spark), self.compared)
        if stage.layer == SILVER.layer and self.silver.named:
            return silver_source(self.settings, self.commit_log)
        (table,) = stage.reads
        changes = stage.served is not None and stage.served.follows_changes
        return DeltaSource(str(table), self.commit_log(table, at_one_moment=True), changes)


def _view(state: StageState) -> StageView:
    # a run on this host first writes the checkpoint again, and reads on where the table has come to
    diagnosis = replace(state.diagnosis, state=State.ALIGNED) if state.recovers else state.diagnosis
    return StageView(state.source, state.first.metadata, diagnosis)


def case(state: StageState, run: str = "") -> Case:
    """Return the input for planning a recovery; `run` is the ID of the run that fixes the stage."""
    commit_logs = {str(table): commit_log for table, commit_log in state.commit_logs.items()}
    return Case(state.stage.name, state.diagnosis, state.checkpoint, commit_logs, state.source, run)


def chain_of(
    settings: Settings,
    parsers: Mapping[str, Parser],
    spark: SparkSession | None = None,
    places: Sequence[Path] = (),
) -> Chain:
    """Build the chain declared in the settings.

    Args:
        settings: the settings.
        parsers: the parser of each source's log format, by the source's name.
        spark: see `Chain`.
        places: the directories in which the user's own code is looked for first.

    Raises:
        ConfigError: a suite of expectations is invalid, or the user's own code is not found.
    """
    declared_suites = suites(settings)
    silver = silver_rules(settings, parsers, declared_suites, places)
    return Chain(settings, settings.places(), chain(settings, silver), spark, suites=declared_suites, silver=silver)


def keeping_duplicates(chain: Chain) -> Chain:
    """Return the chain; its silver stage has the table of repeats also if the lake has one from earlier settings.

    The lines in it are lines of bronze that silver has read. So silver's stage is not complete without it.
    """
    if chain.silver.deduplicate is not None or chain.commit_log(DUPLICATES).newest() is None:
        return chain
    duplicates = duplicates_target(named=chain.silver.named)
    stages = (
        replace(stage, writes=(*stage.writes, duplicates)) if SILVER in stage.tables else stage
        for stage in chain.stages
    )
    return replace(chain, stages=tuple(stages))


def needs_spark(settings: Settings) -> bool:
    """Return True if the state of the chain can only be read through Spark."""
    return any(kind.needs_spark for kind in settings.kinds().values()) or tables_need_spark(settings)


def tables_need_spark(settings: Settings) -> bool:
    """Return True if the tables and checkpoints can only be read through Spark."""
    lake = settings.places()
    return lake.catalog is not None or not (is_local(lake.root) and is_local(lake.checkpoints)) or on_databricks()


def without_end(chain: Chain) -> list[str]:
    """Return the files that grow whose last line has no end yet, so that it waits."""
    return [file for stage in chain.stages if not stage.reads for file in chain.source(stage).without_end()]


def named(stages: tuple[Stage, ...], name: str) -> Stage:
    """Return the stage with a name."""
    return next(stage for stage in stages if stage.name == name)


def selected(stages: tuple[Stage, ...], name: str) -> tuple[Stage, ...]:
    """Return the stage with a name, such as `gold.error_log`, or all stages of a layer, such as `gold`.

    In a lake with several sources, `bronze` is the stage of the source access_log if there is one.

    Raises:
        ConfigError: no stage or layer has this name.
    """
    exact = tuple(stage for stage in stages if stage.name == name)
    matches = exact or tuple(stage for stage in stages if stage.layer == name)
    if not matches:
        known = [stage.name for stage in stages]
        raise ConfigError(f"there is no stage {name!r}; the stages are {', '.join(known)}{did_you_mean(name, known)}")
    return matches
