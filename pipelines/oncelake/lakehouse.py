"""The application object: one configured lake, and everything that can be done with it.

The command line, notebooks, the demo and the tests call this and nothing deeper. Settings are read when a lake is
opened; Spark is started when the first method needs it, and ends with the lake.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.sources.registry import kind_of
from oncelake.common import tables
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Lake, Table, is_local
from oncelake.common.spark.session import spark_session
from oncelake.common.wording import count_of
from oncelake.engine.chain import Chain, StageState, chain_of, named, needs_spark, selected
from oncelake.engine.configuration import configured, format_places
from oncelake.engine.maintain import Maintained, maintain
from oncelake.engine.preflight import no_hard_links, other_log_store, preflight
from oncelake.engine.rebuild import Rebuild, stages_from
from oncelake.engine.recover import Recovered, recover
from oncelake.engine.replay import Replay, Replayed
from oncelake.engine.runner import Follower, Run
from oncelake.engine.settings import Settings
from oncelake.engine.start_gate import refuse_unless_finished, unfinished
from oncelake.exactly_once.batch import EventSink
from oncelake.exactly_once.census import Census
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files_source import FilesSource
from oncelake.exactly_once.lease import Lease, sole_writer
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
from oncelake.observe.report.watch import Watch as ReportWatch
from oncelake.observe.report.watch import heads
from oncelake.observe.source_files import recorded_sizes, tell
from oncelake.observe.status import StageStatus, stage_status
from oncelake.observe.trace.find import read_asked
from oncelake.observe.trace.follow import Tracer
from oncelake.observe.trace.way import Way
from oncelake.proof.census import census_of
from oncelake.proof.link import Link
from oncelake.proof.prove import Proof
from oncelake.proof.resolve import Resolve
from oncelake.quality.check import left_out
from oncelake.quality.reasons import Reason, reasons
from oncelake.serving.check import make, statements
from oncelake.serving.served import Served
from oncelake.silver.format import LogFormat
from oncelake.silver.suggest import suggest

# What shows the batches of a run over some stages, given their states before it.
Show = Callable[[Chain, Sequence[StageState]], Display]
# Who follows a run beside what it shows: its metrics, and the consumer group of its topic.
FOLLOWERS: tuple[Follower, ...] = (measured, publishing)


@dataclass(frozen=True)
class Ran:
    """What a run did.

    Attributes:
        batches: how many batches were committed; replayed ones that the tables held already are not counted.
        stopped: whether a stop was asked for before all was done.
    """

    batches: int
    stopped: bool


@dataclass(frozen=True)
class DoctorResult:
    """The states of the stages of a lake.

    Attributes:
        stages: each stage, in the data's order.
        begun: what was begun and not finished, with the command that finishes it; None when there is nothing.
        warnings: what keeps nothing from going on.
    """

    stages: list[StageStatus]
    begun: str | None
    warnings: list[str]

    @property
    def may_start(self) -> bool:
        """Whether a run may start."""
        return self.begun is None and all(stage.may_start for stage in self.stages)


@dataclass(frozen=True)
class ProofResult:
    """What a proof came to.

    Attributes:
        links: those that were followed; the first that does not hold is the last.
        lines: how many lines bronze holds up to where it was proven.
        seconds: how long it took.
    """

    links: list[Link]
    lines: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether every link holds."""
        return all(link.holds for link in self.links)


@dataclass(frozen=True)
class ServedTables:
    """The tables of the serving database, and the SQL that makes them."""

    tables: list[Served]
    sql: list[str]


@dataclass
class Lakehouse:
    """One lake, as its configuration declares it.

    ```python
    with Lakehouse.open("conf/local.yaml", ["source.path=/var/log/myapp", "lake.root=/tmp/lake"]) as lake:
        lake.run(once=True)
        assert lake.prove().holds
        lake.table("gold.error_log").show()
    ```

    Attributes:
        settings: what the file, the environment and `sets` say.
        log_format: the log format that the settings name.
        conf: the configuration file; formats and suites are looked up beside it.
        warn, verbose, started: as `open` takes them.
    """

    settings: Settings
    log_format: LogFormat
    conf: Path
    warn: Callable[[str], None] = lambda _: None
    verbose: bool = False
    started: Callable[[], None] = lambda: None
    _spark: SparkSession | None = field(default=None, repr=False)
    _ending: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    @classmethod
    def open(
        cls,
        conf: str | PathLike[str],
        sets: Sequence[str] = (),
        *,
        spark: SparkSession | None = None,
        warn: Callable[[str], None] = lambda _: None,
        verbose: bool = False,
        started: Callable[[], None] = lambda: None,
    ) -> Self:
        """Read the configuration of a lake; nothing is started and nothing is changed.

        Args:
            conf: the configuration file.
            sets: settings put over it, as `lake.root=/tmp/lake`.
            spark: a session to work in; without it, one is started when it is needed, and ended with the lake.
            warn: takes what keeps nothing from going on, a sentence at a time.
            verbose: whether Spark's own log is shown.
            started: called when a Spark was started, which sets signal handlers of its own.

        Raises:
            ConfigError: the configuration is missing or wrong.
        """
        path = Path(conf)
        return cls(*configured(path, sets), path, warn, verbose, started, spark)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the Spark that was started for this lake."""
        self._ending.__exit__(kind, error, trace)

    @property
    def spark(self) -> SparkSession:
        """The session; started now if it is not there.

        Raises:
            ConfigError: the promise does not hold on this Spark; says why.
        """
        if self._spark is None:
            self._spark = self._ending.enter_context(spark_session(self.settings.spark, verbose=self.verbose))
            self.started()
        return self._spark

    @cached_property
    def declared(self) -> Chain:
        """The chain as it is declared, without a session; the suites are read once."""
        return chain_of(self.settings, self.log_format)

    @property
    def chain(self) -> Chain:
        """The chain as it is declared, with what is needed to look at it: Spark only where that cannot be done without.

        Raises:
            ConfigError: a suite of expectations is wrong.
        """
        if self._spark is None and not needs_spark(self.settings):
            return self.declared
        return replace(self.declared, spark=self.spark)

    @property
    def _chain(self) -> Chain:
        """The chain with a session."""
        return replace(self.declared, spark=self.spark)

    # --- run ---

    def run(
        self,
        *,
        once: bool = False,
        stopping: threading.Event | None = None,
        sink: EventSink = lambda _: None,
        show: Show | None = None,
    ) -> Ran:
        """Run every stage until a stop is asked for; with `once`, process all available input and end.

        Args:
            once: whether the run ends when nothing is left.
            stopping: set it to end the run between two batches.
            sink: takes what the batches say; called from their threads.
            show: what shows the batches; nothing without it.

        Raises:
            ConfigError: the configuration does not fit Spark, the source or the tables; nothing was started.
            StateError: a stage would lose or repeat lines; nothing was started.
            LockedError: another process writes the lake.
            StageError: a stage failed; the others were ended.
        """
        stopping = stopping or threading.Event()
        kind_of(self.settings.source).check_here()
        check_port(self.settings.metrics)
        writers = other_log_store(self.settings.places(), self.settings.spark)
        spark, chain = self.spark, self._chain
        preflight(spark, chain)
        self._warn(said for suite in chain.suites.values() for said in left_out(suite))
        with sole_writer(spark, chain.lake, self.settings.run.lock_wait) as lease:
            states = chain.states()
            self._warn([warning for state in states for warning in state.source.warnings()])
            progress = Progress(chain, show(chain, states) if show else Display(), sink)
            with progress.display:
                self._warn([*writers, *no_hard_links(chain.lake)])
                run = Run(chain, spark, progress, stopping, lease.check, FOLLOWERS, states=states)
                run.once() if once else run.on()
        return Ran(progress.batches, stopping.is_set())

    # --- look ---

    def status(self) -> list[StageStatus]:
        """Return the state of each stage, its last batch, rows, backlog and freshness. Nothing is changed."""
        chain = self.chain
        return [stage_status(state) for state in chain.states()]

    def doctor(self) -> DoctorResult:
        """Return the state of each stage and what would keep a run from starting. Nothing is changed.

        Of a lake on this machine that reads files no JVM is started, unless a file that was read has changed.
        """
        lake = self.settings.places()
        warnings = [*other_log_store(lake, self.settings.spark), *no_hard_links(lake)]
        chain = self.chain
        rows = []
        for state in chain.states():
            row = stage_status(state)
            census = state.source.glance()
            rows.append(row if census is None else replace(row, warnings=self._changed_files(census)))
        return DoctorResult(rows, unfinished(chain), warnings)

    def _changed_files(self, census: Census) -> list[str]:
        """Say what became of the files that were read; only where one was changed is Spark asked for its old size."""
        changed, chain = [each.path for each in census.touched], self.chain
        asked = changed and chain.commit_log(BRONZE).newest() is not None
        return tell(census, recorded_sizes(self.spark, chain.lake.at(BRONZE), changed) if asked else {})

    def watch(
        self,
        display: Callable[[Chain], Display],
        *,
        every: float,
        stopping: threading.Event,
    ) -> None:
        """Show the stages, and each batch that any process commits, until a stop is asked for.

        Args:
            display: makes what shows them.
            every: seconds between two looks.
            stopping: set it to end.
        """
        chain = kept(self.chain)
        with display(chain) as shown:
            LakeWatch(chain, shown).go(every, stopping)

    def record(self) -> dict[str, list[BatchRecord]]:
        """Return what each batch of each stage did, by the tables' own commits."""
        return record(self.chain)

    def versions(self) -> dict[str, int]:
        """Return the newest version of every table that there is."""
        return {str(table): version for table, version in self.chain.versions().items() if version is not None}

    def commit_log(self, name: str) -> DeltaLog:
        """Return the log of a table such as `gold.error_log`: its versions and commits."""
        return self.chain.commit_log(_table(name))

    def at(self, name: str) -> str:
        """Return the place of a table such as `gold.error_log`: a path, or a quoted name in a catalog."""
        return self.lake.at(_table(name))

    @property
    def lake(self) -> Lake:
        """Where the tables and checkpoints are."""
        return self.settings.places()

    def table(self, name: str) -> DataFrame:
        """Read a table such as `gold.error_log` as it is now."""
        return tables.read(self.spark, self.at(name))

    # --- prove ---

    def prove(
        self,
        *,
        since_ms: int | None = None,
        full: bool = False,
        deep: bool = False,
        link: Callable[[Link], None] = lambda _: None,
    ) -> ProofResult:
        """Follow every line from the source to the last table. It takes no lock and changes no table.

        Args:
            since_ms: only what was committed since, in milliseconds since 1970.
            full: prove all again, also what was proven before.
            deep: read the source's files again and compare.
            link: takes each link as soon as it was followed.

        Raises:
            StateError: a rebuild or a replay was begun and is not finished.
            SourceError: Kafka cannot be reached.
        """
        began = time.monotonic()
        proof = Proof(self._chain, self.spark, since_ms, full, deep, warn=self.warn)
        links = []
        for each in proof.links():
            links.append(each)
            link(each)
        return ProofResult(links, proof.lines, time.monotonic() - began)

    def trace(self, line: str) -> Way:
        """Return one line's lineage: bronze, silver or quarantine, every gold table.

        Args:
            line: `topic/partition/offset`, or `file:the line's text`.

        Raises:
            ConfigError: it is neither, or the tables are in a catalog.
        """
        asked = read_asked(line)
        catalog = self.settings.lake.catalog
        if catalog is not None:
            raise ConfigError(
                f"lake.catalog {catalog}: trace follows a line by the files that commits added, which a "
                "catalog does not name; look the line up by topic, partition and offset, or file, in SQL"
            )
        return Tracer(self.spark, self._chain).way(asked)

    @contextmanager
    def census(self) -> Iterator[tuple[Census, Resolve]]:
        """Account for every file of the source: give what was found, and what resolves faults.

        Raises:
            ConfigError: the source is a topic, or Auto Loader alone knows its files.
        """
        kind = kind_of(self.settings.source)
        uncounted = kind.uncounted(None) or kind.uncounted(self.spark)  # a topic is refused before Spark is started
        if uncounted is not None:
            raise ConfigError(uncounted)
        chain, spark = self._chain, self.spark
        state = chain.stage_state(named(chain.stages, "bronze"))
        source = state.source
        assert isinstance(source, FilesSource)
        table_id = chain.commit_log(BRONZE).table_id()
        found, held = census_of(chain, spark, source, may_start=state.diagnosis.may_start)
        yield found, Resolve(chain, spark, source.path, held, source.planned(), table_id)

    def report(self, *, proof: bool = True) -> Facts:
        """Return what the report page shows: what the chain did, its state, and whether every link holds."""
        chain, spark = self._chain, self.spark
        return Collector(chain, spark).facts(prove(chain, spark) if proof else LEFT_OUT)

    def watch_report(
        self,
        show: Callable[[Facts], None],
        *,
        proof: bool = True,
        stopping: threading.Event,
    ) -> None:
        """Hand over what the report page shows whenever it changes, until a stop is asked for."""
        chain, spark = self._chain, self.spark
        ReportWatch(
            heads=lambda: heads(chain),
            look=lambda made: Collector(chain, spark).facts(made),
            prove=(lambda: prove(chain, spark)) if proof else None,
            show=show,
        ).until(stopping)

    # --- repair ---

    def recover(
        self,
        *stages: str,
        accept_loss: bool = False,
        dry_run: bool = False,
        done: Callable[[Recovered], None] = lambda _: None,
    ) -> list[Recovered]:
        """Write the checkpoints of stages again from their tables, of all when none is named.

        Args:
            stages: their names, as `gold.error_log`, or those of layers, as `gold`.
            accept_loss: go on although a part of the source is gone for good; the loss is recorded in the table.
            dry_run: only say what would be done.
            done: takes each outcome as soon as it is there.

        Returns:
            What came of each stage; one that cannot be recovered exactly is unchanged, and says so.

        Raises:
            LockedError: another process writes the lake.
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
        say: Callable[[str], None] = lambda _: None,
        show: Show | None = None,
    ) -> list[str]:
        """Empty a stage's tables and those of all stages after it, and replay them.

        Args:
            stage: the first stage's name.
            accept_loss: go on although the source no longer holds all that bronze has.
            dry_run: only say what would be done.
            stopping: set it to end between two batches; the next run goes on.
            say: takes what is being done, a line at a time.
            show: what shows the batches; nothing without it.

        Returns:
            The stages' names.

        Raises:
            StateError: lines would be lost, or a stage before may not start; nothing was changed.
            LockedError: another process writes the lake.
        """
        spark, chain = self.spark, self._chain
        preflight(spark, chain)
        with sole_writer(spark, chain.lake, self.settings.run.lock_wait) as lease:
            stages = stages_from(chain.stages, stage)
            replay = partial(self._once, lease=lease, stopping=stopping, show=show)
            work = Rebuild(chain, spark, stages, replay, say)
            for step in work.plan():
                say(step)
            if not dry_run:
                work.go(accept_loss=accept_loss)
        return [each.name for each in stages]

    def maintain(self, done: Callable[[Maintained], None] = lambda _: None) -> list[Maintained]:
        """Compact the tables' small files and remove old ones, also while the chain runs.

        Raises:
            StateError: a rebuild or a replay was begun and is not finished.
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
        """Return how many lines are in quarantine, and the rules that they broke."""
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
        moved: Callable[[Replayed], None] = lambda _: None,
        show: Show | None = None,
    ) -> Replayed:
        """Send lines in quarantine through today's format and rules; those that pass move to silver and count in gold.

        Args:
            rules: only lines that broke one of these.
            dry_run: only say what would move.
            stopping: set it to end before gold has counted all; the next run goes on.
            moved: takes the outcome before gold counts the lines.
            show: what shows gold's batches; nothing without it.

        Raises:
            ConfigError: no line broke such a rule.
            StateError: a stage may not start; nothing was changed.
            LockedError: another process writes the lake.
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
            # also after a replay that died before gold had counted
            if chain.commit_log(SILVER).state().last is not None:
                counting = replace(chain, stages=stages_from(chain.stages, "silver")[1:])
                self._once(counting, lease=lease, stopping=stopping, show=show)
        return outcome

    def validate(
        self,
        *names: str,
        new: bool = False,
        docs: Path | None = None,
        begin: Callable[[str], Any] = lambda _: nullcontext(),
        done: Callable[[Audit], None] = lambda _: None,
    ) -> tuple[list[Audit], Path]:
        """Let Great Expectations judge tables by their suites, and record the results.

        Args:
            names: tables, as `silver.access_log`; every table that has a suite when none is named.
            new: only the rows since the last audit.
            docs: where Data Docs are; `<lake>/quality/audit` without it.
            begin: opened with what is audited, while it is.
            done: takes each audit as soon as it is there.

        Returns:
            The audits, and where Data Docs are.

        Raises:
            ConfigError: there is no such suite, or no place for Data Docs.
        """
        declared = self.declared
        known = {str(table): suite for table, suite in declared.suites.items()}
        if not known:
            said = "there is no suite; put <layer>.<table>.json into `expectations` beside the configuration"
            raise ConfigError(said)
        for name in names:
            if name not in known:
                raise ConfigError(f"there is no suite for {name}; there is one for {', '.join(known)}")
        chosen = [known[name] for name in names or known]
        root = self.lake.root
        if docs is None and not is_local(root):
            raise ConfigError(f"the lake {root} is not on this machine: say where Data Docs are to be with --docs")
        auditor = Auditor((docs or Path(root) / "quality" / "audit").absolute())
        every, audits = Audits(self._chain, self.spark, auditor, declared.silver.parse), []
        for number, suite in enumerate(chosen, 1):
            with begin(f"{suite.table}, {number} of {len(chosen)}: {count_of(len(suite.ids), 'expectation')}"):
                audits.append(every.audit(suite, new=new))
            done(audits[-1])
        return audits, auditor.docs

    def suggest(self, name: str = str(SILVER), *, rows: int = 100_000) -> dict[str, Any]:
        """Propose a suite for a table; for bronze also say which log format fits how many lines.

        Raises:
            ConfigError: there are suggestions for bronze and silver alone.
            OncelakeError: there is no such table yet.
        """
        known = (str(SILVER), str(BRONZE))
        if name not in known:
            raise ConfigError(f"a suite is proposed for {' or '.join(known)}, not for {name}")
        if self._chain.commit_log(_table(name)).newest() is None:
            raise OncelakeError(f"there is no table {name} yet: run the chain first")
        found = self.table(name).limit(rows).persist()
        try:
            return suggest(found, _table(name), self.settings.silver, format_places(self.conf))
        finally:
            found.unpersist()

    # --- serving ---

    def make_served_tables(self, *, dry_run: bool = False) -> ServedTables:
        """Make the served tables and oncelake_position, unless they are there.

        Args:
            dry_run: only give the SQL; no database is asked.

        Raises:
            ConfigError: no database is configured, or a table of it does not fit.
        """
        spark = self.spark
        found = [stage.served for stage in self._chain.stages if stage.served is not None]
        if not found:
            raise ConfigError("no database is configured: set serving.url, as mysql+pymysql://user@host/database")
        return ServedTables(found, list(statements(spark, found) if dry_run else make(spark, found)))

    def _once(self, chain: Chain, *, lease: Lease, stopping: threading.Event | None, show: Show | None) -> None:
        """Run a part of the chain over all that is there, as the lake's one writer."""
        progress = Progress(chain, show(chain, ()) if show else Display())
        with progress.display:
            Run(chain, self.spark, progress, stopping or threading.Event(), lease.check, FOLLOWERS).once()

    def _warn(self, warnings: Iterable[str]) -> None:
        for warning in warnings:
            self.warn(warning)


def _table(name: str) -> Table:
    return Table(*name.split(".", 1))
