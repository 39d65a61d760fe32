"""The application object: one configured lake and all operations on it.

The command line, the notebooks, the demo and the tests call this object. The settings are read when the lake is opened.
Spark starts when the first method needs it, and stops when the lake is closed.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime
from functools import cache
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession

from oncelake.common import tables
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.lake import QUARANTINE, SILVER, Table, bronze_of
from oncelake.common.wording import did_you_mean
from oncelake.engine.chain import Chain, StageState, needs_spark, selected, without_end
from oncelake.engine.open_lake import OpenLake, unheard

if TYPE_CHECKING:
    from oncelake.engine.exclusive import Exclusive, RunResult
    from oncelake.engine.maintain import MaintenanceResult
    from oncelake.engine.recover import RecoveryResult
    from oncelake.engine.replay import ReplayResult
    from oncelake.exactly_once.batch import CommittedBatch, EventSink
    from oncelake.exactly_once.link import Link
    from oncelake.observe.alerts.message import Message
    from oncelake.observe.alerts.state import AlertStatus
    from oncelake.observe.audit.audited import Audit
    from oncelake.observe.doctor import DoctorResult
    from oncelake.observe.gold_lines import GoldLines
    from oncelake.observe.plan.plan import Plan
    from oncelake.observe.progress import Display, Progress
    from oncelake.observe.report.facts import Facts
    from oncelake.observe.report.period import Period
    from oncelake.observe.rule_history import RulesSpan
    from oncelake.observe.status import StageStatus
    from oncelake.observe.trace.lineage import Lineage
    from oncelake.proof.result import ProofResult
    from oncelake.quality.reasons import Reason
    from oncelake.serving.table_setup import ServedTables
    from oncelake.sources.directory.census import Census
    from oncelake.sources.directory.resolve import Resolve


# Makes the display of a run's batches, from the chain and the stages' states before the run.
Show = Callable[[Chain, Sequence[StageState]], "Display"]


class Lakehouse(OpenLake):
    """One lake, as declared by its configuration.

    ```python
    with Lakehouse.open("conf/local.yaml", ["source.path=/var/log/myapp", "lake.root=/tmp/lake"]) as lake:
        lake.run(once=True)
        assert lake.prove().holds
        lake.table("gold.error_log").show()
    ```

    What runs stages takes `show`, which makes the display of the batches (without it, nothing is shown), and
    `stopping`, an event that ends the work between two batches. It raises LockedError if another process holds the
    lake's lock.
    """

    def _exclusive(
        self, stopping: threading.Event | None = None, show: Show | None = None, sink: "EventSink" = unheard
    ) -> "Exclusive":
        """Return the work on the lake that needs its lock, with a session."""
        from oncelake.engine.exclusive import Exclusive
        from oncelake.observe.group import publishing
        from oncelake.observe.measure import measured
        from oncelake.observe.openlineage.follow import lineage
        from oncelake.observe.progress import Display, Progress

        @contextmanager
        def reporter(chain: Chain, states: Sequence[StageState]) -> "Iterator[Progress]":
            progress = Progress(chain, show(chain, states) if show else Display(), sink)
            with progress.display:
                yield progress

        chain, spark = self._with_spark
        # the receivers of a run's events in addition to its display
        followers = (measured, publishing, lineage)
        return Exclusive(chain, spark, reporter, followers, self.warn, stopping or threading.Event())

    @contextmanager
    def _reading(self) -> Iterator[Callable[[], SparkSession]]:
        """Yield what returns the session, for work that starts Spark only if it must; quick on a small lake."""
        from oncelake.common.spark.jvm import with_conf
        from oncelake.proof.prove import WHOLE_PLAN, is_small

        small = is_small(self.settings.places(), self.settings.by_name)
        with ExitStack() as stack:

            @cache
            def session() -> SparkSession:
                spark = self._session(quick=small)
                stack.enter_context(with_conf(spark, WHOLE_PLAN if small else {}))
                return spark

            if needs_spark(self.settings):
                session()
            yield session

    # --- run ---

    def run(
        self,
        *,
        once: bool = False,
        stopping: threading.Event | None = None,
        sink: "EventSink" = unheard,
        show: Show | None = None,
        rebuild: "Callable[[Plan], bool] | None" = None,
        say: Callable[[str], None] = unheard,
    ) -> "RunResult":
        """Run every stage until a stop is requested; with `once`, process all available input and return.

        Args:
            once: True to return when no input is left.
            sink: receives the events of the batches, on the batches' threads.
            rebuild: called with the plan if only changed declarations of gold tables stop the run; if it returns True,
                these tables are built again first.
            say: called with a line for each step of such a rebuild.

        Raises:
            ConfigError: the configuration does not fit Spark, the source or the tables; nothing was started.
            StateError: a stage would lose or repeat lines; nothing was started.
            StageError: a stage failed, and the others were stopped; or one source of several failed, and the others
                went on.
        """
        from oncelake.engine.exclusive import RunResult, outlook, reachable
        from oncelake.engine.preflight import is_changed, other_log_store
        from oncelake.observe.alerts.alert_watch import alerting, round_of
        from oncelake.observe.endpoint import check_port
        from oncelake.observe.openlineage.follow import check_installed

        stopping, chain = stopping or threading.Event(), self._declared
        failed = reachable(chain)
        check_port(self.settings.metrics)
        check_installed(self.settings.openlineage)
        writers = other_log_store(chain.lake, self.settings.spark)
        if rebuild is not None and any(is_changed(self._table_chain, name) for name in self.settings.gold):
            plan = self.plan()
            for stage in plan.rebuilt if plan.rebuilt and rebuild(plan) else ():
                self._exclusive(stopping, show).rebuild(stage, say, accept_loss=False, dry_run=False)
        if once and self._spark is None and not needs_spark(self.settings):
            before = outlook(chain, failed, self.warn, writers)
            if before.nothing:
                round_of(self.chain, lambda: self.spark, self.warn, *self.settings.alerts)
                return RunResult(0, stopping.is_set(), without_end(self.chain))
            self._session(quick=before.small)
        batches = self._exclusive(stopping, show, sink).run(
            once=once, followers=(alerting,), failed=failed, writers=writers
        )
        return RunResult(batches, stopping.is_set(), without_end(self.chain) if once else ())

    def plan(self, *, against: str | PathLike[str] | None = None, sets: Sequence[str] = (), sample: int = 0) -> "Plan":
        """Return what `run` would do with the configuration. Change nothing.

        Args:
            against: another configuration file, to compare with it and not with the lake.
            sets: settings that override that file, such as those that override this one.
            sample: start Spark, make the checks that need it, and try the rules on this many lines.

        Raises:
            ConfigError: the other file is invalid, or both `against` and `sample` are given.
        """
        from oncelake.observe.plan.plan import plan_after, plan_of

        if against is not None:
            if sample:
                raise ConfigError("a sample is read from the lake; leave out --sample, or --against")
            with OpenLake.open(against, sets) as other:
                return plan_after(self._declared, other._declared, Path(against))
        if sample:
            self._session(quick=True)
        return plan_of(self.chain, sample=sample)

    # --- look ---

    def status(self) -> "list[StageStatus]":
        """Return the state of each stage, its last batch, rows, backlog, and the age of its last batch and newest line.

        Raises:
            SourceError: the only source does not answer; one of several has the state `source away`.
        """
        from oncelake.observe.doctor import statuses
        from oncelake.observe.newest_line import NewestLines

        chain = self.chain
        newest = NewestLines(chain)
        return [newest.added(row, state) for row, state in statuses(chain)]

    def doctor(self) -> "DoctorResult":
        """Return the state of each stage and what else would stop a run from starting. Change nothing.

        For a local lake that reads files, no JVM is started, unless an ingested file has changed or code of the
        user's own is declared.
        """
        from oncelake.observe.doctor import diagnose_lake

        return diagnose_lake(replace(self.chain, deep=True), lambda: self.spark)

    def watch(self, display: "Callable[[Chain], Display]", *, every: float, stopping: threading.Event) -> None:
        """Show the stages, and each batch that any process commits, until a stop is requested.

        Args:
            display: makes the display.
            every: the seconds between two checks.
            stopping: set this event to end.
        """
        from oncelake.observe.lake_watch import LakeWatch
        from oncelake.observe.log_cache import cached

        chain = cached(self.chain)
        with display(chain) as shown:
            LakeWatch(chain, shown).go(every, stopping)

    def record(self) -> "dict[str, list[CommittedBatch]]":
        """Return the record of each batch, per stage, from the tables' own commits."""
        from oncelake.observe.record import record

        return record(self._table_chain)

    def versions(self) -> dict[str, int]:
        """Return the newest version of every existing table."""
        return {str(table): version for table, version in self._table_chain.versions().items() if version is not None}

    def at(self, name: str) -> str:
        """Return the path, or the quoted catalog name, of a table such as `gold.error_log`."""
        return self.settings.places().at(Table.named(name))

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
        link: "Callable[[Link], None]" = unheard,
    ) -> "ProofResult":
        """Follow every line from the source to the last table. Take no lock and change no table.

        Tables on a local disk are read without Spark, where that is possible; with `full` or `deep`, Spark reads all.

        Args:
            since_ms: prove only what was committed from this time on, in milliseconds since 1970.
            full: prove everything again, including what an earlier proof covers.
            deep: read the source's files again and compare.
            link: called with each link as soon as it is checked.

        Raises:
            StateError: a rebuild or a replay is unfinished.
            SourceError: Kafka cannot be reached.
        """
        from oncelake.common.table_rows import TableRows
        from oncelake.proof.prove import Proof

        began = time.monotonic()
        with self._reading() as session:
            rows = TableRows(session, with_spark=full or deep)  # guard: whole-proof-by-spark
            if rows.with_spark:
                session()
            chain = self._look_chain
            result = Proof(chain, rows, since_ms, full, deep, warn=self.warn).result(link, began)
        # a part of the lake does not end the alert of another one
        if self.settings.alerts and (not result.holds or since_ms is None):
            from oncelake.observe.alerts.alert_watch import tell_proof

            tell_proof(chain, lambda: self.spark, result, self.warn)
        return result

    def trace(self, line: str) -> "Lineage":
        """Return the lineage of a line: bronze, silver or quarantine, and every gold table.

        The tables of a lake on a local disk are read without Spark. It starts for masked lines, for lines of files that
        only Spark can parse, and for a gold table whose `where` or `by` is more than columns and texts.

        Args:
            line: `topic/partition/offset`, or `file:the line's text`.

        Raises:
            ConfigError: `line` has neither form, or the tables are in a catalog.
        """
        from oncelake.observe.trace.find import parse_line_query, refuse_catalog
        from oncelake.observe.trace.tracer import Tracer

        query = parse_line_query(line)
        refuse_catalog(self.settings.lake.catalog)
        return Tracer(self._table_chain, lambda: self._session(quick=True)).way(query)

    def lines(
        self, table: str, at: datetime, keys: Mapping[str, str | None] | None = None, *, limit: int = 100
    ) -> "GoldLines":
        """Return the lines that a row of a gold table counts, as far as the table has read silver.

        Args:
            table: the gold table, such as `gold.error_log`.
            at: a time in the row's window.
            keys: values of the table's keys, as text; None for no value. A key that is left out may have any value.
            limit: the most lines that are returned; all are counted.

        Raises:
            ConfigError: there is no such table or key, or the time has no zone.
            OncelakeError: the table has no such row, or silver no longer has the version that it has read.
        """
        from oncelake.observe.gold_lines import GoldCell

        if at.tzinfo is None:
            raise ConfigError(f"at {at} has no time zone; write it with one, for example tzinfo=UTC")
        return GoldCell(self._table_chain, lambda: self.spark, table, at, keys or {}).lines(limit)

    @contextmanager
    def census(self, source: str | None = None) -> "Iterator[tuple[Census, Resolve]]":
        """Check every file of a source: yield the census, and the object that resolves its faults.

        Args:
            source: the source's name; not needed if only one source has files.

        Raises:
            ConfigError: the source is a topic, only Auto Loader knows its files, or several sources have files.
        """
        from oncelake.common.table_rows import TableRows
        from oncelake.engine.sources import census_kind, take_census

        kind = census_kind(self.settings, source, lambda: self.spark)
        yield take_census(self._look_chain, kind, TableRows(lambda: self._session(quick=True)))

    def history(self, table: str | None = None) -> "list[RulesSpan]":
        """Return which rules made which rows of the tables, the newest rows of a table first.

        Args:
            table: one table, such as `silver.access_log`; None for all.

        Raises:
            ConfigError: the lake has no such table.
        """
        from oncelake.observe.rule_history import rule_history

        return rule_history(self._table_chain, table)

    def report(self, *, proof: bool = True, period: "Period | None" = None) -> "Facts":
        """Return the facts of the report page: the chain's batches, its state and, with `proof`, the proof's result.

        Tables on a local disk are read without Spark, where that is possible.

        Args:
            proof: run the proof.
            period: also report what happened in this period, and limit the counts over time to it.
        """
        from oncelake.common.table_rows import TableRows
        from oncelake.observe.report.collect import LEFT_OUT, Collector, prove

        with self._reading() as session:
            chain = self._look_chain
            result = prove(chain, TableRows(session)) if proof else LEFT_OUT
            return Collector(chain, TableRows(session), period).facts(result)

    def watch_report(
        self,
        show: "Callable[[Facts], None]",
        *,
        proof: bool = True,
        period: "Callable[[], Period | None]" = lambda: None,
        stopping: threading.Event,
    ) -> None:
        """Call `show` with the facts of the report page whenever they change, until a stop is requested.

        Args:
            show: receives the facts.
            proof: run a proof whenever something is new.
            period: returns the period to report on at this moment; None for all that is in the lake.
            stopping: the request to stop.
        """
        from oncelake.common.table_rows import TableRows
        from oncelake.observe.report.watch import watch

        watch(self._look_chain, lambda: TableRows(lambda: self.spark), show, proof=proof, period=period).until(stopping)

    # --- alerts ---

    def alerts(self, *, send: bool = False) -> "list[AlertStatus]":
        """Return the declared alerts and their states.

        Args:
            send: True to look once at every alert and send what is due before. A message that cannot be sent is a
                warning, and stays due. An alert that another process is working on is left to it.

        Raises:
            StateError: the state of an alert cannot be read.
        """
        from oncelake.observe.alerts.alert_watch import alert_statuses

        return alert_statuses(self.chain, lambda: self.spark, self.warn, send=send)

    def test_alert(self, name: str) -> "Message":
        """Send a test message to the receiver of an alert, and return it.

        Raises:
            ConfigError: there is no such alert, or a secret cannot be read here.
            DeliveryError: it was not delivered.
        """
        from oncelake.observe.alerts.alert_watch import alert_of, refuse_unknown

        refuse_unknown(self.settings.alerts, name)
        return alert_of(self.chain, lambda: self.spark, name).test()

    # --- repair ---

    def recover(
        self,
        *stages: str,
        accept_loss: bool = False,
        dry_run: bool = False,
        done: "Callable[[RecoveryResult], None]" = unheard,
    ) -> "list[RecoveryResult]":
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
        """
        self._check_stages(*stages)
        return self._exclusive().recover(stages, done, accept_loss=accept_loss, dry_run=dry_run)

    def rebuild(
        self,
        stage: str,
        *,
        source: str | None = None,
        accept_loss: bool = False,
        dry_run: bool = False,
        stopping: threading.Event | None = None,
        say: Callable[[str], None] = unheard,
        show: Show | None = None,
    ) -> list[str]:
        """Empty the tables of a stage and of all stages after it, and replay them.

        Of several sources, the stage of one is rebuilt with its lines in silver and gold alone; the rows of the others
        stay, unless silver drops repeats.

        A gold table whose declaration changed is not emptied: it is built again beside the old one, without the lake's
        lock, and then put in its place in one commit, with the lock.

        Args:
            stage: the name of the first stage, or of a layer.
            source: with the stage `silver`, the one source whose lines are made again from bronze.
            accept_loss: continue although the source no longer holds all lines of the stage's tables.
            dry_run: only report the steps.
            say: called with a line for each step.

        Returns:
            The names of the stages.

        Raises:
            ConfigError: there is no such stage or layer, or no such source; or its lines cannot be made again alone.
            StateError: lines would be lost, or a stage before them may not start; nothing was removed.
        """
        from oncelake.engine.source_rebuild import refuse_no_source_of

        self._check_stages(stage)
        if source is not None:
            refuse_no_source_of(self.settings, source, stage)
        exclusive = self._exclusive(stopping, show)
        return exclusive.rebuild(stage, say, accept_loss=accept_loss, dry_run=dry_run, source=source)

    def _check_stages(self, *names: str) -> None:
        """Raise ConfigError if no stage or layer has one of these names, before Spark starts."""
        for name in names:
            selected(self._declared.stages, name)

    def maintain(self, done: "Callable[[MaintenanceResult], None]" = unheard) -> "list[MaintenanceResult]":
        """Compact the tables' small files and remove old ones; the chain may run at the same time.

        Raises:
            StateError: a rebuild or a replay is unfinished.
        """
        from oncelake.engine.maintain import maintain
        from oncelake.engine.preflight import no_hard_links, other_log_store
        from oncelake.engine.start_gate import refuse_unless_finished

        lake = self.settings.places()
        writers = [*other_log_store(lake, self.settings.spark), *no_hard_links(lake)]
        chain, spark = self._with_spark
        refuse_unless_finished(chain)
        self._warn(writers)
        results = []
        for result in maintain(chain, spark):
            results.append(result)
            done(result)
        return results

    # --- quality ---

    def quarantined(self) -> "tuple[int, list[Reason]]":
        """Return the number of lines in quarantine, and the rules that they broke."""
        from oncelake.common.table_rows import TableRows
        from oncelake.quality.reasons import reasons

        chain, rows = self._table_chain, TableRows(lambda: self.spark)
        if chain.commit_log(QUARANTINE).newest() is None:
            return 0, []
        at = chain.lake.at(QUARANTINE)
        (counted,) = rows.records("SELECT count(*) AS lines FROM {rows}", {"rows": (at, None)})
        return counted["lines"], reasons(rows, at)

    def replay(
        self,
        *rules: str,
        dry_run: bool = False,
        stopping: threading.Event | None = None,
        moved: "Callable[[ReplayResult], None]" = unheard,
        show: Show | None = None,
    ) -> "ReplayResult":
        """Check quarantined lines with today's format and rules; those that pass move to silver and count in gold.

        Args:
            rules: check only lines that broke one of these rules.
            dry_run: only return what would move.
            moved: called with the result before gold counts the lines.

        Raises:
            ConfigError: no line broke such a rule.
            StateError: a stage may not start; no line of this replay was moved.
        """
        return self._exclusive(stopping, show).replay(rules, moved, dry_run=dry_run)

    def validate(
        self,
        *names: str,
        new: bool = False,
        docs: Path | None = None,
        begin: Callable[[str], Any] = nullcontext,
        done: "Callable[[Audit], None]" = unheard,
    ) -> "tuple[list[Audit], Path]":
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
        from oncelake.observe.audit.audit import Auditor
        from oncelake.observe.audit.audited import Audits, chosen_suites, docs_place

        suites = chosen_suites(self._declared.suites, names)
        auditor = Auditor(docs_place(docs, self.settings.places().root))
        chain, spark = self._with_spark
        return Audits(chain, spark, auditor).audit_all(suites, begin, done, new=new), auditor.docs

    def suggest(self, name: str = str(SILVER), *, rows: int = 100_000) -> dict[str, Any]:
        """Propose a suite for a table; for bronze, also return how many lines each log format fits.

        Raises:
            ConfigError: the table is neither bronze nor silver.
            OncelakeError: there is no such table yet.
        """
        from oncelake.common.table_rows import TableRows
        from oncelake.quality.suggest import bronze_columns, silver_columns, suggest

        known = (str(SILVER), *(str(bronze_of(source)) for source in self.settings.by_name))
        if name not in known:
            raise ConfigError(
                f"oncelake can propose a suite only for {' or '.join(known)}, not for {name}{did_you_mean(name, known)}"
            )
        if self._table_chain.commit_log(Table.named(name)).newest() is None:
            raise OncelakeError(f"there is no table {name} yet. Run first: oncelake run --once")
        sampled, at = TableRows(lambda: self.spark), self.at(name)
        if name == str(SILVER):
            return suggest(silver_columns(sampled, at, rows), SILVER, {})
        return suggest(bronze_columns(sampled, at, rows), Table.named(name), self._format_shares(name, rows))

    def _format_shares(self, name: str, rows: int) -> dict[str, float]:
        """Return the share of a bronze table's lines that each known log format parses, by the format's name."""
        from oncelake.engine.conf_file import format_places
        from oncelake.silver.parsing.format import format_names
        from oncelake.silver.parsing.parser import load_parser
        from oncelake.silver.transform import share_accepted

        places, limits = format_places(self.conf), self.settings.silver.limits
        bronze = self.table(name).limit(rows).persist()
        try:
            return {name: share_accepted(bronze, load_parser(name, places), limits) for name in format_names(places)}
        finally:
            bronze.unpersist()

    # --- serving ---

    def make_served_tables(self, *, dry_run: bool = False) -> "ServedTables":
        """Create the served tables and oncelake_position, or what a sink of your own needs, unless they exist.

        Args:
            dry_run: only return the SQL, without connecting to the database.

        Raises:
            ConfigError: no database and no sink is configured, or one of the tables does not fit.
        """
        from oncelake.serving.table_setup import make_served_tables

        chain, spark = self._with_spark
        served = [stage.served for stage in chain.stages if stage.served is not None]
        return make_served_tables(spark, served, dry_run=dry_run)
