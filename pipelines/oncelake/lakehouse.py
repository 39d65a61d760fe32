"""The application object: one configured lake and all operations on it.

The command line, the notebooks, the demo and the tests call this object. The settings are read when the lake is opened.
Spark starts when the first method needs it, and stops when the lake is closed.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.sources.kind import SourceKind
from oncelake.common import tables
from oncelake.common.errors import ConfigError, LockedError, OncelakeError, SourceError, StageError, reason
from oncelake.common.lake import QUARANTINE, SILVER, Lake, Table, bronze_of, bronze_stage, is_local
from oncelake.common.models import shown
from oncelake.common.spark.jvm import with_conf
from oncelake.common.spark.session import spark_session
from oncelake.common.wording import count_of
from oncelake.engine.altered import fading
from oncelake.engine.before_spark import has_small_backlog, nothing_new, passed_preflight, record_preflight
from oncelake.engine.beside import Change, waits_for_the_lock, was_stopped
from oncelake.engine.chain import (
    Chain,
    StageState,
    chain_of,
    keeping_duplicates,
    named,
    needs_spark,
    selected,
)
from oncelake.engine.configuration import code_places, configured, format_places
from oncelake.engine.maintain import Maintained, maintain
from oncelake.engine.preflight import (
    check_served_stage,
    no_hard_links,
    other_log_store,
    preflight,
    refused_root,
    refused_tables,
)
from oncelake.engine.rebuild import Rebuild, served_from, stages_from, with_served
from oncelake.engine.recover import Recovered, follow_settings, recover, set_spare_aside
from oncelake.engine.replay import Replay, Replayed
from oncelake.engine.runner import Follower, Run
from oncelake.engine.settings import Settings
from oncelake.engine.sources import Failed, missing_key, refused_change, said, stands_alone, try_sources, without
from oncelake.engine.start_gate import refuse_unless_finished, startable, unfinished
from oncelake.exactly_once.batch import EventSink
from oncelake.exactly_once.census import Census
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import files_at
from oncelake.exactly_once.files_source import FilesSource
from oncelake.exactly_once.lease import Lease, sole_writer
from oncelake.exactly_once.tail_source import TailSource
from oncelake.observe.alerts.follow import alert_of, alerting, round_of
from oncelake.observe.alerts.look import write_proof
from oncelake.observe.alerts.message import Message
from oncelake.observe.alerts.state import AlertStatus, read_states, status_of
from oncelake.observe.audit.audit import Auditor
from oncelake.observe.audit.audited import Audit, Audits
from oncelake.observe.endpoint import check_port
from oncelake.observe.follow import LakeWatch
from oncelake.observe.group import publishing
from oncelake.observe.kept import kept
from oncelake.observe.measure import measured
from oncelake.observe.progress import Display, Progress
from oncelake.observe.record import BatchRecord, record
from oncelake.observe.report.collect import LEFT_OUT, Collector, prove
from oncelake.observe.report.facts import Facts
from oncelake.observe.report.period import Period
from oncelake.observe.report.watch import Watch as ReportWatch
from oncelake.observe.report.watch import heads
from oncelake.observe.rule_history import RulesSpan, rule_history
from oncelake.observe.source_files import recorded_sizes, tell
from oncelake.observe.status import StageStatus, away_status, stage_status
from oncelake.observe.trace.find import read_asked
from oncelake.observe.trace.follow import Tracer
from oncelake.observe.trace.way import Way
from oncelake.proof.census import census_of
from oncelake.proof.link import Claim, Link
from oncelake.proof.prove import WHOLE_PLAN, Proof, is_small
from oncelake.proof.resolve import Resolve
from oncelake.quality.check import left_out
from oncelake.quality.reasons import Reason, reasons
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.suggest import suggest

if TYPE_CHECKING:
    from oncelake.serving.served import Served


def unheard(*_: object) -> None:
    """Ignore a call: the default for callbacks that the caller did not set."""


# Makes the display of a run's batches, from the chain and the stages' states before the run.
Show = Callable[[Chain, Sequence[StageState]], Display]
# The receivers of a run's events in addition to its display: the metrics, and the consumer group of its topic.
FOLLOWERS: tuple[Follower, ...] = (measured, publishing)


@dataclass(frozen=True)
class Ran:
    """The result of a run.

    Attributes:
        batches: the number of committed batches, without replayed batches that the tables already held.
        stopped: True if a stop was requested.
    """

    batches: int
    stopped: bool


@dataclass(frozen=True)
class DoctorResult:
    """The states of the stages of a lake.

    Attributes:
        stages: the status of each stage, in data order.
        begun: why no run may start although each stage could, and what to do: an unfinished rebuild or replay, a table
            or a source that does not fit the settings, a masking key or a directory of logs that is missing; None if
            there is nothing.
        warnings: problems that do not stop a run.
    """

    stages: list[StageStatus]
    begun: str | None
    warnings: list[str]

    @property
    def may_start(self) -> bool:
        """Return True if a run may start."""
        return self.begun is None and all(stage.may_start for stage in self.stages)


@dataclass(frozen=True)
class ProofResult:
    """The result of a proof.

    Attributes:
        links: the links that were checked, in order; only the last one can fail, because a proof stops there.
        lines: the number of lines in bronze up to the proven position, or of records of one or several lines.
        seconds: the duration of the proof.
        in_records: the lines that the records have; None if each is one line.
    """

    links: list[Link]
    lines: int
    seconds: float
    in_records: int | None = None

    @property
    def holds(self) -> bool:
        """Return True if every link holds."""
        return all(link.holds for link in self.links)

    @property
    def claim(self) -> Claim:
        """Return what the proof may say of the lines, if every link holds."""
        return Claim(self.lines, self.links, self.in_records)

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "links": [link.to_dict() for link in self.links],
            "holds": self.holds,
            "lines": self.lines,
            **({"in_records": self.in_records} if self.in_records is not None else {}),
            "compared": self.claim.compared,
            "uncompared": self.claim.uncompared,
            "seconds": round(self.seconds, 1),
        }


@dataclass(frozen=True)
class ServedTables:
    """The served tables, and the SQL that creates them; a sink that is no SQL database has none."""

    tables: "list[Served]"
    sql: list[str]


@dataclass
class Lakehouse:
    """One lake, as declared by its configuration.

    ```python
    with Lakehouse.open("conf/local.yaml", ["source.path=/var/log/myapp", "lake.root=/tmp/lake"]) as lake:
        lake.run(once=True)
        assert lake.prove().holds
        lake.table("gold.error_log").show()
    ```

    Attributes:
        settings: the settings from the file, the environment and `sets`.
        parsers: the parser of each source's log format, by the source's name.
        conf: the configuration file that `open` got; formats and suites are looked up in directories next to it.
        warn, verbose, started: see `open`.
    """

    settings: Settings
    parsers: Mapping[str, Parser]
    conf: Path | None
    warn: Callable[[str], None] = unheard
    verbose: bool = False
    started: Callable[[], None] = unheard
    _spark: SparkSession | None = field(default=None, repr=False)
    _quick: bool = field(default=False, init=False, repr=False)
    _ending: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    @classmethod
    def open(
        cls,
        conf: str | PathLike[str] | None = None,
        sets: Sequence[str] = (),
        *,
        spark: SparkSession | None = None,
        warn: Callable[[str], None] = unheard,
        verbose: bool = False,
        started: Callable[[], None] = unheard,
    ) -> Self:
        """Read the configuration of a lake. Start nothing and change nothing.

        Args:
            conf: the configuration file. Without it, `conf/local.yaml` is read if it exists; otherwise the shipped
                one applies, and `sets` or the environment must name the source and the lake.
            sets: settings that override the file, such as `lake.root=/tmp/lake`.
            spark: the session to use; without it, one is started when it is needed, and stopped when the lake closes.
            warn: called with each warning about a problem that does not stop the work.
            verbose: True to show Spark's own log.
            started: called after Spark was started; Spark sets its own signal handlers.

        Raises:
            ConfigError: the configuration is missing or invalid.
        """
        path = Path(conf) if conf is not None else None
        return cls(*configured(path, sets), path, warn, verbose, started, spark)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the Spark that was started for this lake."""
        self._ending.__exit__(kind, error, trace)

    @property
    def spark(self) -> SparkSession:
        """Return the session; start Spark if there is none yet.

        Raises:
            ConfigError: the exactly-once guarantee does not hold on this Spark; the message says why.
        """
        if self._spark is None:
            self._spark = self._ending.enter_context(
                spark_session(self.settings.spark, verbose=self.verbose, quick=self._quick)
            )
            self.started()
        return self._spark

    @cached_property
    def declared(self) -> Chain:
        """Return the declared chain without a session; the suites are read only once."""
        return chain_of(self.settings, self.parsers, places=code_places(self.conf))

    @property
    def chain(self) -> Chain:
        """Return the declared chain, with Spark only if its states cannot be read without Spark.

        Raises:
            ConfigError: a suite of expectations is invalid.
        """
        if self._spark is None and not needs_spark(self.settings):
            return keeping_duplicates(self.declared)
        return self._chain

    @property
    def _chain(self) -> Chain:
        """Return the chain with a session."""
        return keeping_duplicates(replace(self.declared, spark=self.spark, deep=True, compared={}))

    # --- run ---

    def run(
        self,
        *,
        once: bool = False,
        stopping: threading.Event | None = None,
        sink: EventSink = unheard,
        show: Show | None = None,
    ) -> Ran:
        """Run every stage until a stop is requested; with `once`, process all available input and return.

        Args:
            once: True to return when no input is left.
            stopping: set this event to end the run between two batches.
            sink: receives the events of the batches, on the batches' threads.
            show: makes the display of the batches; without it, nothing is shown.

        Raises:
            ConfigError: the configuration does not fit Spark, the source or the tables; nothing was started.
            StateError: a stage would lose or repeat lines; nothing was started.
            LockedError: another process holds the lake's lock.
            StageError: a stage failed, and the others were stopped; or one source of several failed, and the others
                went on.
        """
        stopping, failed = stopping or threading.Event(), Failed()
        if (refused := refused_root(self.settings.places())) is not None:
            raise ConfigError(refused)
        try_sources(self.declared, lambda stage: self.declared.kind(stage).check_here(), failed)
        check_port(self.settings.metrics)
        writers = other_log_store(self.settings.places(), self.settings.spark)
        if once and self._spark is None and not needs_spark(self.settings) and self._needs_no_run(writers, failed):
            if failed:
                raise StageError(said(failed))
            round_of(self.chain, lambda: self.spark, self.warn, *self.settings.alerts)
            return Ran(0, stopping.is_set())
        spark, chain = self.spark, self._chain
        preflight(spark, without(chain, failed), passed=passed_preflight(chain), failed=failed)
        with sole_writer(spark, chain.lake, self.settings.run.lock_wait) as lease:
            self._warn(set_spare_aside(chain, spark))
            follow_settings(chain, spark)
            chain = startable(chain, failed)
            if not failed:
                record_preflight(chain)
            states = chain.states()
            progress = Progress(chain, show(chain, states) if show else Display(), sink)
            self._warn_before(states, writers)
            followers = (*FOLLOWERS, alerting)
            with progress.display:
                run = Run(chain, spark, progress, stopping, lease.check, followers, states=states, failed=failed)
                run.once() if once else run.on()
        return Ran(progress.batches, stopping.is_set())

    # --- look ---

    def status(self) -> list[StageStatus]:
        """Return the state of each stage, its last batch, rows, backlog and freshness. Change nothing.

        Raises:
            SourceError: the only source does not answer; one of several has the state `source away`.
        """
        return [row for row, _ in self._statuses(self.chain)]

    def doctor(self) -> DoctorResult:
        """Return the state of each stage and what else would stop a run from starting. Change nothing.

        For a local lake that reads files, no JVM is started, unless an ingested file has changed or code of the
        user's own is declared.
        """
        lake = self.settings.places()
        chain = replace(self.chain, deep=True)
        warnings = [*other_log_store(lake, self.settings.spark), *no_hard_links(lake), *fading(chain)]
        damages = ((target.table, chain.damage(target.table)) for stage in chain.stages for target in stage.writes)
        warnings += [f"{each.warning_of(table)}; the next run sets it aside" for table, each in damages if each.spare]
        rows, states = [], []
        for row, state in self._statuses(chain):
            census = state.source.glance() if state is not None else None
            if state is None or census is None:
                rows.append(row)
            else:
                rows.append(replace(row, warnings=self._changed_files(census, state.stage.tables[0])))
            states += [state] if state is not None else []
        answering = replace(chain, stages=tuple(each.stage for each in states))
        refused = refused_root(lake) or refused_change(answering) or missing_key(chain) or refused_tables(answering)
        served = ((each.stage.served, each) for each in states)
        otherwise = (sink.counted_otherwise(each.first.last, each.stage.rules) for sink, each in served if sink)
        begun = unfinished(chain) or refused or next(filter(None, otherwise), None) or self._unreadable()
        begun = begun or self._refused_code(chain)
        return DoctorResult(rows, begun, warnings)

    def _refused_code(self, chain: Chain) -> str | None:
        """Return why the user's own code cannot be used; None if it can, or there is none."""
        try:
            if chain.silver.transform is not None:
                chain.silver.transform_fields(self.spark)
        except OncelakeError as error:  # of the code, or of Spark's start
            return str(error)
        return None

    def _unreadable(self) -> str | None:
        """Return which sources cannot be read, as far as this is known without Spark; None if all can."""
        failed = Failed()
        try:
            try_sources(self.declared, lambda stage: self.declared.kind(stage).check_here(), failed)
        except OncelakeError as error:
            return str(error)
        return "; ".join(f"{name}: {why}" for name, why in failed.items()) or None

    @staticmethod
    def _statuses(chain: Chain) -> Iterator[tuple[StageStatus, StageState | None]]:
        """Yield the status and state of each stage; no state if one source of several does not answer."""
        for stage in chain.stages:
            try:
                state = chain.stage_state(stage)
                yield stage_status(state), state
            except SourceError as error:
                if not stands_alone(chain, stage):
                    raise
                yield away_status(chain, stage, error), None

    def _changed_files(self, census: Census, bronze: Table) -> list[str]:
        """Return warnings about ingested files; Spark is used only if a file has changed, to look up its old size."""
        changed, chain = [each.path for each in census.touched], self.chain
        asked = changed and chain.commit_log(bronze).newest() is not None
        return tell(census, recorded_sizes(self.spark, chain.lake.at(bronze), changed) if asked else {})

    def watch(
        self,
        display: Callable[[Chain], Display],
        *,
        every: float,
        stopping: threading.Event,
    ) -> None:
        """Show the stages, and each batch that any process commits, until a stop is requested.

        Args:
            display: makes the display.
            every: the seconds between two checks.
            stopping: set this event to end.
        """
        chain = kept(self.chain)
        with display(chain) as shown:
            LakeWatch(chain, shown).go(every, stopping)

    def record(self) -> dict[str, list[BatchRecord]]:
        """Return the record of each batch, per stage, from the tables' own commits."""
        return record(self.chain)

    def versions(self) -> dict[str, int]:
        """Return the newest version of every existing table."""
        return {str(table): version for table, version in self.chain.versions().items() if version is not None}

    def commit_log(self, name: str) -> DeltaLog:
        """Return the Delta log of a table such as `gold.error_log`: its versions and commits."""
        return self.chain.commit_log(_table(name))

    def at(self, name: str) -> str:
        """Return the path, or the quoted catalog name, of a table such as `gold.error_log`."""
        return self.lake.at(_table(name))

    @property
    def lake(self) -> Lake:
        """Return the places of the tables and checkpoints."""
        return self.settings.places()

    def table(self, name: str) -> DataFrame:
        """Read the newest version of a table such as `gold.error_log`."""
        return tables.read(self.spark, self.at(name))

    # --- prove ---

    def prove(
        self,
        *,
        since_ms: int | None = None,
        full: bool = False,
        deep: bool = False,
        link: Callable[[Link], None] = unheard,
    ) -> ProofResult:
        """Follow every line from the source to the last table. Take no lock and change no table.

        Args:
            since_ms: prove only what was committed from this time on, in milliseconds since 1970.
            full: prove everything again, including what an earlier proof covers.
            deep: read the source's files again and compare.
            link: called with each link as soon as it is checked.

        Raises:
            StateError: a rebuild or a replay is unfinished.
            SourceError: Kafka cannot be reached.
        """
        began = time.monotonic()
        small = is_small(self.lake, self.settings.by_name)
        if self._spark is None:
            self._quick = small
        proof = Proof(self._chain, self.spark, since_ms, full, deep, warn=self.warn)
        links = []
        with with_conf(self.spark, WHOLE_PLAN if small else {}):
            for each in proof.links():
                links.append(each)
                link(each)
        result = ProofResult(links, proof.lines, time.monotonic() - began, proof.in_records)
        if result.holds and since_ms is not None:  # a part of the lake does not end the alert of another one
            return result
        self._tell_alerts(result)
        return result

    def _tell_alerts(self, result: ProofResult) -> None:
        """Record the result of a proof for the alerts of failed proofs, and send what is due; nothing without one."""
        asked = [name for name, each in self.settings.alerts.items() if each.condition.subject == "proof"]
        if not asked:
            return
        text = "the proof holds" if result.holds else f"{result.links[-1].name} does not hold: {result.links[-1].said}"
        try:
            write_proof(files_at(self.lake.root, self.spark), self.lake.root, holds=result.holds, text=text)
        except Exception as error:  # the proof's own result does not depend on it
            self.warn(f"the alerts do not learn of this proof: {reason(error)}")
            return
        round_of(self._chain, lambda: self.spark, self.warn, *asked)

    def trace(self, line: str) -> Way:
        """Return the lineage of a line: bronze, silver or quarantine, and every gold table.

        Args:
            line: `topic/partition/offset`, or `file:the line's text`.

        Raises:
            ConfigError: `line` has neither form, or the tables are in a catalog.
        """
        asked = read_asked(line)
        catalog = self.settings.lake.catalog
        if catalog is not None:
            raise ConfigError(
                f"lake.catalog {catalog}: trace finds a line by the files that commits added, which a "
                "catalog does not name; find the line with SQL, by topic, partition and offset, or by file"
            )
        return Tracer(self.spark, self._chain).way(asked)

    @contextmanager
    def census(self, source: str | None = None) -> Iterator[tuple[Census, Resolve]]:
        """Check every file of a source: yield the census, and the object that resolves its faults.

        Args:
            source: the source's name; not needed if only one source has files.

        Raises:
            ConfigError: the source is a topic, only Auto Loader knows its files, or several sources have files.
        """
        kind = self._counted(source)
        uncounted = kind.uncounted(None) or kind.uncounted(self.spark)  # refuse a topic before Spark starts
        if uncounted is not None:
            raise ConfigError(uncounted)
        chain, spark, table = self._chain, self.spark, kind.table
        state = chain.stage_state(named(chain.stages, bronze_stage(table.name)))
        files = state.source
        assert isinstance(files, FilesSource | TailSource)
        table_id = chain.commit_log(table).table_id()
        found, held = census_of(chain, spark, files, table, may_start=state.diagnosis.may_start)
        yield found, Resolve(chain, spark, files.path, held, files.planned(), table_id, table)

    def _counted(self, source: str | None) -> SourceKind:
        """Return the source to take a census of."""
        kinds = self.settings.kinds()
        if source is not None:
            if source not in kinds:
                raise ConfigError(f"there is no source {source!r}; the sources are {', '.join(kinds)}")
            return kinds[source]
        of_files = {name: kind for name, kind in kinds.items() if kind.uncounted(None) is None}
        if len(of_files) > 1:
            raise ConfigError(f"several sources have files: {', '.join(of_files)}; choose one with --source")
        return next(iter((of_files or kinds).values()))

    def history(self, table: str | None = None) -> list[RulesSpan]:
        """Return which rules made which rows of the tables, the newest rows of a table first.

        Args:
            table: one table, such as `silver.access_log`; None for all.

        Raises:
            ConfigError: the lake has no such table.
        """
        return rule_history(self.chain, table)

    def report(self, *, proof: bool = True, period: Period | None = None) -> Facts:
        """Return the facts of the report page: the chain's batches, its state and, with `proof`, the proof's result.

        Args:
            proof: run the proof.
            period: also report what happened in this period, and limit the counts over time to it.
        """
        chain, spark = self._chain, self.spark
        return Collector(chain, spark, period).facts(prove(chain, spark) if proof else LEFT_OUT)

    def watch_report(
        self,
        show: Callable[[Facts], None],
        *,
        proof: bool = True,
        stopping: threading.Event,
    ) -> None:
        """Call `show` with the facts of the report page whenever they change, until a stop is requested."""
        chain, spark = self._chain, self.spark
        ReportWatch(
            heads=lambda: heads(chain),
            look=lambda made: Collector(chain, spark).facts(made),
            prove=(lambda: prove(chain, spark)) if proof else None,
            show=show,
        ).until(stopping)

    # --- alerts ---

    def alerts(self) -> list[AlertStatus]:
        """Return the declared alerts and their states. Look at nothing and send nothing.

        Raises:
            StateError: the state of an alert cannot be read.
        """
        declared = self.settings.alerts
        states = read_states(files_at(self.lake.root, self.chain.spark), self.lake.root, declared)
        return [status_of(name, each.when, each.to.kind, states[name]) for name, each in declared.items()]

    def send_alerts(self) -> list[AlertStatus]:
        """Look once at every alert, send what is due, and return the states afterwards.

        A message that cannot be sent is a warning, and stays due. An alert that another process is working on is left
        to it.
        """
        round_of(self.chain, lambda: self.spark, self.warn, *self.settings.alerts)
        return self.alerts()

    def test_alert(self, name: str) -> Message:
        """Send a test message to the receiver of an alert, and return it.

        Raises:
            ConfigError: there is no such alert, or a secret cannot be read here.
            DeliveryError: it was not delivered.
        """
        if name not in self.settings.alerts:
            declared = ", ".join(self.settings.alerts) or "none"
            raise ConfigError(f"there is no alert {shown(name)}; declared: {declared}")
        return alert_of(self.chain, lambda: self.spark, name).test()

    # --- repair ---

    def recover(
        self,
        *stages: str,
        accept_loss: bool = False,
        dry_run: bool = False,
        done: Callable[[Recovered], None] = unheard,
    ) -> list[Recovered]:
        """Rewrite the checkpoints of stages from their tables; of all stages if none is named.

        Args:
            stages: the names of stages, such as `gold.error_log`, or of layers, such as `gold`.
            accept_loss: continue although a part of the source is lost for good; the table records the loss.
            dry_run: only return the steps.
            done: called with each result as soon as it is known.

        Returns:
            The result for each stage. A stage that cannot be recovered exactly is unchanged, and its result says why.

        Raises:
            ConfigError: there is no such stage or layer.
            LockedError: another process holds the lake's lock.
        """
        spark, chain = self.spark, self._chain
        chosen = [stage for name in stages for stage in selected(chain.stages, name)] or list(chain.stages)
        outcomes = []
        with sole_writer(spark, chain.lake, self.settings.run.lock_wait):
            for stage in chosen:
                outcomes.append(recover(chain, spark, stage, accept_loss=accept_loss, dry_run=dry_run))
                done(outcomes[-1])
        return outcomes

    def rebuild(
        self,
        stage: str,
        *,
        accept_loss: bool = False,
        dry_run: bool = False,
        stopping: threading.Event | None = None,
        say: Callable[[str], None] = unheard,
        show: Show | None = None,
    ) -> list[str]:
        """Empty the tables of a stage and of all stages after it, and replay them.

        A gold table whose declaration changed is not emptied: it is built again beside the old one, without the lake's
        lock, and then put in its place in one commit, with the lock.

        Args:
            stage: the name of the first stage, or of a layer.
            accept_loss: continue although the source no longer holds all lines of the stage's tables.
            dry_run: only report the steps.
            stopping: set this event to end between two batches; the next run continues.
            say: called with a line for each step.
            show: makes the display of the batches; without it, nothing is shown.

        Returns:
            The names of the stages.

        Raises:
            StateError: lines would be lost, or a stage before them may not start; nothing was removed.
            LockedError: another process holds the lake's lock.
        """
        spark, chain = self.spark, self._chain
        stages = with_served(chain, stages_from(chain.stages, stage))
        if stages[0].name == stage and stages[0].layer == "gold":
            after = served_from(chain, stages[0])
            change = Change(chain, spark, stages[0], after, unheard, say)
            if change.is_needed:
                if dry_run:
                    for step in change.plan():
                        say(step)
                    return [stage]
                if self._change(change, stopping, show):
                    return [stage, *(each.name for each in after)]
        preflight(spark, chain, emptied=[table for each in stages for table in each.tables])
        with sole_writer(spark, chain.lake, self.settings.run.lock_wait) as lease:
            if not dry_run:
                self._warn(set_spare_aside(chain, spark))
            replay = partial(self._once, lease=lease, stopping=stopping, show=show)
            work = Rebuild(chain, spark, stages, replay, say)
            for step in work.plan():
                say(step)
            if not dry_run:
                work.go(accept_loss=accept_loss)
        return [each.name for each in stages]

    def _change(self, change: Change, stopping: threading.Event | None, show: Show | None) -> bool:
        """Build a gold table by its new declaration and put it in its place; False if there is no line to count yet."""
        chain, spark, wait = change.chain, change.spark, self.settings.run.lock_wait
        others = tuple(
            each for each in chain.stages if each.served is None
        )  # a served table is checked before it changes
        preflight(
            spark, replace(chain, stages=others), emptied=[each.tables[0] for each in others if each.layer == "gold"]
        )
        with sole_writer(spark, change.beside.lake, wait) as beside, ExitStack() as stack:

            def run(built: Chain) -> None:  # without followers: the run that goes on has the metrics' port
                progress = Progress(built, show(built, ()) if show else Display())
                with progress.display:
                    Run(built, spark, progress, stopping or threading.Event(), beside.check).once()

            building = replace(change, run=run)
            building.build()
            if stopping is not None and stopping.is_set():
                raise was_stopped(change.table)
            try:
                lease = stack.enter_context(sole_writer(spark, chain.lake, wait))
            except LockedError as error:
                raise waits_for_the_lock(change.table, error) from None
            for each in change.after:
                check_served_stage(spark, each)
            if not building.take_over(lease.check):
                return False
            if change.after:
                self._once(replace(chain, stages=change.after), lease=lease, stopping=stopping, show=show)
            return True

    def maintain(self, done: Callable[[Maintained], None] = unheard) -> list[Maintained]:
        """Compact the tables' small files and remove old ones; the chain may run at the same time.

        Raises:
            StateError: a rebuild or a replay is unfinished.
        """
        lake = self.settings.places()
        writers = [*other_log_store(lake, self.settings.spark), *no_hard_links(lake)]
        spark, chain = self.spark, self._chain
        refuse_unless_finished(chain)
        self._warn(writers)
        found = []
        for each in maintain(chain, spark):
            found.append(each)
            done(each)
        return found

    # --- quality ---

    def quarantined(self) -> tuple[int, list[Reason]]:
        """Return the number of lines in quarantine, and the rules that they broke."""
        chain = self._chain
        if chain.commit_log(QUARANTINE).newest() is None:
            return 0, []
        rows = self.table(str(QUARANTINE))
        return rows.count(), reasons(rows)

    def replay(
        self,
        *rules: str,
        dry_run: bool = False,
        stopping: threading.Event | None = None,
        moved: Callable[[Replayed], None] = unheard,
        show: Show | None = None,
    ) -> Replayed:
        """Check quarantined lines with today's format and rules; those that pass move to silver and count in gold.

        Args:
            rules: check only lines that broke one of these rules.
            dry_run: only return what would move.
            stopping: set this event to end before gold has counted all lines; the next run continues.
            moved: called with the result before gold counts the lines.
            show: makes the display of gold's batches; without it, nothing is shown.

        Raises:
            ConfigError: no line broke such a rule.
            StateError: a stage may not start; no line of this replay was moved.
            LockedError: another process holds the lake's lock.
        """
        spark, chain = self.spark, self._chain
        preflight(spark, chain)
        if dry_run:
            outcome = Replay(chain, spark, chain.silver).plan(rules)
            moved(outcome)
            return outcome
        with sole_writer(spark, chain.lake, self.settings.run.lock_wait) as lease:
            outcome = Replay(chain, spark, chain.silver, lease.check).go(rules)
            moved(outcome)
            # an earlier replay may have ended before gold counted its lines, so this runs even if no line moved
            if chain.commit_log(SILVER).state().last is not None:
                counting = replace(chain, stages=stages_from(chain.stages, "silver")[1:])
                self._once(counting, lease=lease, stopping=stopping, show=show)
        return outcome

    def validate(
        self,
        *names: str,
        new: bool = False,
        docs: Path | None = None,
        begin: Callable[[str], Any] = nullcontext,
        done: Callable[[Audit], None] = unheard,
    ) -> tuple[list[Audit], Path]:
        """Validate tables against their suites with Great Expectations, and record the results.

        Args:
            names: tables, such as `silver.access_log`; default: every table that has a suite.
            new: validate only the rows since the last audit.
            docs: the directory of Data Docs; default: `<lake>/quality/audit`.
            begin: makes the context manager for one audit, from a text about it.
            done: called with each audit as soon as it is finished.

        Returns:
            The audits, and the place of Data Docs.

        Raises:
            ConfigError: there is no such suite, or no place for Data Docs.
        """
        declared = self.declared
        known = {str(table): suite for table, suite in declared.suites.items()}
        if not known:
            said = "there is no suite; put <layer>.<table>.json into `expectations` next to the configuration"
            raise ConfigError(said)
        for name in names:
            if name not in known:
                raise ConfigError(f"there is no suite for {name}; there is one for {', '.join(known)}")
        chosen = [known[name] for name in names or known]
        root = self.lake.root
        if docs is None and not is_local(root):
            raise ConfigError(f"the lake {root} is not on this machine; name a directory for Data Docs with --docs")
        declared.silver.transform_fields(self.spark)  # refuse code of the user's own that no run would accept
        auditor = Auditor((docs or Path(root) / "quality" / "audit").absolute())
        every, audits = Audits(self._chain, self.spark, auditor, declared.silver.parse), []
        for number, suite in enumerate(chosen, 1):
            with begin(f"{suite.table}, {number} of {len(chosen)}: {count_of(len(suite.ids), 'expectation')}"):
                audits.append(every.audit(suite, new=new))
            done(audits[-1])
        return audits, auditor.docs

    def suggest(self, name: str = str(SILVER), *, rows: int = 100_000) -> dict[str, Any]:
        """Propose a suite for a table; for bronze, also return how many lines each log format fits.

        Raises:
            ConfigError: the table is neither bronze nor silver.
            OncelakeError: there is no such table yet.
        """
        known = (str(SILVER), *(str(bronze_of(each)) for each in self.settings.by_name))
        if name not in known:
            raise ConfigError(f"oncelake can propose a suite only for {' or '.join(known)}, not for {name}")
        if self._chain.commit_log(_table(name)).newest() is None:
            raise OncelakeError(f"there is no table {name} yet. Run first: oncelake run --once")
        found = self.table(name).limit(rows).persist()
        try:
            return suggest(found, _table(name), self.settings.silver.limits, format_places(self.conf))
        finally:
            found.unpersist()

    # --- serving ---

    def make_served_tables(self, *, dry_run: bool = False) -> ServedTables:
        """Create the served tables and oncelake_position, or what a sink of your own needs, unless they exist.

        Args:
            dry_run: only return the SQL, without connecting to the database.

        Raises:
            ConfigError: no database and no sink is configured, or one of the tables does not fit.
        """
        spark = self.spark
        found = [stage.served for stage in self._chain.stages if stage.served is not None]
        if not found:
            raise ConfigError(
                "no database is configured; set serving.url, such as mysql+pymysql://user@host/database, "
                "or serving.sink to a class of your own"
            )
        from oncelake.serving.check import make, statements  # noqa: PLC0415 - SQLAlchemy, as in graph

        return ServedTables(found, list(statements(spark, found) if dry_run else make(spark, found)))

    def _once(self, chain: Chain, *, lease: Lease, stopping: threading.Event | None, show: Show | None) -> None:
        """Run a part of the chain over all available input; the caller holds the lake's lock."""
        follow_settings(chain, self.spark)
        progress = Progress(chain, show(chain, ()) if show else Display())
        with progress.display:
            Run(chain, self.spark, progress, stopping or threading.Event(), lease.check, FOLLOWERS).once()

    def _needs_no_run(self, writers: Iterable[str], failed: Failed) -> bool:
        """Return True if a run certainly has nothing to do; otherwise record whether its backlog is small.

        The lake is locked only if its configuration has passed the checks of a run: a refused run writes no lock file.
        """
        chain, passed = self.declared, passed_preflight(self.declared)
        with sole_writer(None, chain.lake, self.settings.run.lock_wait) if passed else nullcontext():
            if passed:
                self._warn(set_spare_aside(chain))
            chain = startable(chain, failed)
            states = chain.states()
            if passed and nothing_new(chain, states):
                self._warn_before(states, writers)
                return True
        self._quick = has_small_backlog(states)
        return False

    def _warn_before(self, states: Iterable[StageState], writers: Iterable[str]) -> None:
        """Warn of what does not stop a run, while the lake's lock is held."""
        self._warn(text for suite in self.declared.suites.values() for text in left_out(suite))
        self._warn(text for state in states for text in state.source.warnings())
        self._warn(
            f"{kind.key}.zone is not set: a time without a zone counts as UTC. Set it to the zone of the lines' times, "
            "such as Europe/Paris, or to UTC"
            for table, kind in self.declared.kinds.items()
            if self.parsers[table.name].declared.assumes_utc
        )
        self._warn([*writers, *no_hard_links(self.lake), *fading(self.chain)])

    def _warn(self, warnings: Iterable[str]) -> None:
        for warning in warnings:
            self.warn(warning)


def _table(name: str) -> Table:
    return Table.named(name)
