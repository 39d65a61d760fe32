"""The work on a lake that needs its lock: a run, a recovery, a rebuild, and a replay of quarantined lines."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, LockedError, OncelakeError, SourceError, StageError
from oncelake.common.lake import SILVER
from oncelake.common.spark.s3 import check_lake
from oncelake.common.table_rows import TableRows
from oncelake.common.wording import listed
from oncelake.engine.before_spark import has_small_backlog, nothing_new, passed_preflight, record_preflight
from oncelake.engine.chain import Chain, StageState, selected
from oncelake.engine.gold_change import Change, waits_for_the_lock, was_stopped
from oncelake.engine.graph import Stage
from oncelake.engine.late_columns import late_columns
from oncelake.engine.log_retention import keep_logs
from oncelake.engine.preflight import check_served_stage, no_hard_links, preflight, refused_root
from oncelake.engine.rebuild import Rebuild, served_from, stages_from, with_served
from oncelake.engine.recover import RecoveryResult, follow_settings, recover, set_spare_aside
from oncelake.engine.replay import Replay, ReplayResult
from oncelake.engine.runner import Follower, Reporter, Run
from oncelake.engine.source_rebuild import SourceRebuild, whole_reason
from oncelake.engine.sources import Failed, failure_lines, unreadable, without
from oncelake.engine.start_gate import refuse_other_rebuild, startable, unfinished
from oncelake.exactly_once.lease import Lease, sole_writer
from oncelake.quality.suite_check import left_out


class CountingReporter(Reporter, Protocol):
    """A display that counts batches.

    Attributes:
        batches: how many batches were committed, without replayed ones that the tables already held.
    """

    batches: int


# Opens the display of a run's batches, from the chain and the stages' states before the run.
OpenReporter = Callable[[Chain, Sequence[StageState]], AbstractContextManager[CountingReporter]]


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    Attributes:
        batches: the number of committed batches, without replayed batches that the tables already held.
        stopped: True if a stop was requested.
        without_end: the files that grow whose last line has no end yet, so that it waits; only of a run that ends by
            itself.
    """

    batches: int
    stopped: bool
    without_end: Sequence[str] = ()


@dataclass(frozen=True)
class Exclusive:
    """The work on one lake under its lock.

    Attributes:
        chain: the chain, with its session.
        spark: the session.
        reporter: opens the display of a run's batches.
        followers: further receivers of the events of each run, such as metrics.
        warn: called with each warning.
        stopping: ends the work between two batches when it is set.
    """

    chain: Chain
    spark: SparkSession
    reporter: OpenReporter
    followers: Sequence[Follower]
    warn: Callable[[str], None]
    stopping: threading.Event

    def run(self, *, once: bool, followers: Sequence[Follower], failed: Failed, writers: Sequence[str]) -> int:
        """Run every stage; return the number of committed batches.

        Args:
            once: True to return when no input is left.
            writers: warnings about the log store, from before Spark started.
            followers: receivers of the events of this run alone.
            failed: the sources that cannot be read, and why; more may be added.
        """
        spark, chain = self.spark, self.chain
        preflight(spark, without(chain, failed), passed=passed_preflight(chain), failed=failed)
        with self._lock(chain) as lease:
            self._warn(set_spare_aside(chain, spark))
            self._recover_moved(chain)
            follow_settings(chain, spark)
            chain = startable(chain, failed)
            if not failed:
                record_preflight(chain)
            self._warn(keep_logs(self.chain, spark))
            states = chain.states()
            self._warn(_warnings_before(chain, states, writers))
            self._warn(map(str, late_columns(chain, TableRows(lambda: spark))))
            with self.reporter(chain, states) as reporter:
                every = (*self.followers, *followers)
                run = Run(chain, spark, reporter, self.stopping, lease.check, every, states=states, failed=failed)
                run.once() if once else run.on()
        return reporter.batches

    def recover(
        self, names: Sequence[str], done: Callable[[RecoveryResult], None], *, accept_loss: bool, dry_run: bool
    ) -> list[RecoveryResult]:
        """Rewrite the checkpoints of stages from their tables; of all stages if none is named."""
        chain = self.chain
        chosen = [stage for name in names for stage in selected(chain.stages, name)] or list(chain.stages)
        outcomes = []
        with self._lock(chain):
            for stage in chosen:
                outcomes.append(recover(chain, self.spark, stage, accept_loss=accept_loss, dry_run=dry_run))
                done(outcomes[-1])
        return outcomes

    def rebuild(
        self, name: str, say: Callable[[str], None], *, accept_loss: bool, dry_run: bool, source: str | None = None
    ) -> list[str]:
        """Empty the tables of a stage and of all stages after it, and replay them; return the stages' names.

        Args:
            name: the stage, or a layer.
            say: called with a line for each step.
            accept_loss: continue although the source no longer holds all lines.
            dry_run: only report the steps.
            source: of silver and what follows it, only the lines of this source.
        """
        spark, chain = self.spark, self.chain
        stages = with_served(chain, stages_from(chain.stages, name))  # guard: rebuild-with-served-table
        if stages[0].name == name and stages[0].layer == "gold":
            after = served_from(chain, stages[0])
            change = Change(chain, spark, stages[0], after, _no_run, say)
            if change.is_needed:
                if dry_run:
                    for step in change.plan():
                        say(step)
                    return [name]
                if self._change(change):
                    return [name, *(stage.name for stage in after)]
        work = self._rebuild(stages, source, say)
        preflight(spark, chain, emptied=[table for stage in work.emptied for table in stage.tables])
        with self._lock(chain) as lease:
            if not dry_run:
                self._warn(set_spare_aside(chain, spark))
                self._recover_moved(chain)
            for step in work.plan():
                say(step)
            if not dry_run:
                replace(work, run=partial(self._run_part, lease=lease), fence=lease.check).go(accept_loss=accept_loss)
        return [stage.name for stage in stages]

    def _rebuild(self, stages: tuple[Stage, ...], source: str | None, say: Callable[[str], None]) -> Rebuild:
        """Return the rebuild of stages that does not run them yet; it is of one source alone if it can be.

        Raises:
            ConfigError: the lines of the named source cannot be rebuilt alone.
        """
        chain, heads = self.chain, [stage for stage in stages if not stage.reads]
        whole = Rebuild(chain, self.spark, stages, _no_run, say)
        if source is None and (len(heads) != 1 or not chain.silver.named):
            return whole
        only = source or heads[0].tables[0].name
        reason = whole_reason(chain, only)
        if reason is None:
            return SourceRebuild(chain, self.spark, stages, _no_run, say, only)
        if source is not None:
            refuse_other_rebuild(chain)
            raise ConfigError(
                f"the lines of {source} cannot be rebuilt alone: {reason}. To rebuild those of all sources: oncelake "
                "rebuild silver"
            )
        if len(chain.settings.by_name) > 1:
            say(f"the lines of all sources are made again: {reason}")
        return whole

    def replay(self, rules: Sequence[str], moved: Callable[[ReplayResult], None], *, dry_run: bool) -> ReplayResult:
        """Check quarantined lines again, move those that pass to silver, and let gold count them."""
        spark, chain = self.spark, self.chain
        preflight(spark, chain)
        if dry_run:
            outcome = Replay(chain, spark, chain.silver).plan(rules)
            moved(outcome)
            return outcome
        with self._lock(chain) as lease:
            self._recover_moved(chain)
            outcome = Replay(chain, spark, chain.silver, lease.check).go(rules)
            moved(outcome)
            # an earlier replay may have ended before gold counted its lines, so this runs even if no line moved
            if chain.commit_log(SILVER).state().last is not None:
                self._run_part(replace(chain, stages=stages_from(chain.stages, "silver")[1:]), lease=lease)
        return outcome

    def _change(self, change: Change) -> bool:
        """Build a gold table by its new declaration and put it in its place; False if there is no line to count yet."""
        chain, spark = change.chain, self.spark
        # a served table is checked before it changes
        others = tuple(stage for stage in chain.stages if stage.served is None)
        emptied = [stage.tables[0] for stage in others if stage.layer == "gold"]
        preflight(spark, replace(chain, stages=others), emptied=emptied)
        with self._lock(change.beside) as beside, ExitStack() as stack:

            def run(built: Chain) -> None:  # without followers: the run that goes on has the metrics' port
                with self.reporter(built, ()) as reporter:
                    Run(built, spark, reporter, self.stopping, beside.check).once()

            building = replace(change, run=run)
            building.build()
            if self.stopping.is_set():
                raise was_stopped(change.table)
            try:
                lease = stack.enter_context(self._lock(chain))  # guard: lock-for-replacing-gold
            except LockedError as error:
                raise waits_for_the_lock(change.table, error) from None
            for stage in change.after:
                check_served_stage(spark, stage)
            if not building.take_over(lease.check):
                return False
            if change.after:
                self._run_part(replace(chain, stages=change.after), lease=lease)
            return True

    def _run_part(self, chain: Chain, *, lease: Lease) -> None:
        """Run a part of the chain over all available input; the caller holds the lake's lock."""
        follow_settings(chain, self.spark)
        with self.reporter(chain, ()) as reporter:
            Run(chain, self.spark, reporter, self.stopping, lease.check, self.followers).once()

    @contextmanager
    def _lock(self, chain: Chain) -> Iterator[Lease]:
        check_lake(self.spark, chain.lake)
        with sole_writer(self.spark, chain.lake, self.chain.settings.run.lock_wait, self.warn) as lease:
            try:
                yield lease
            except OncelakeError:
                lease.check()  # guard: lost-lock-is-the-cause
                raise

    def _recover_moved(self, chain: Chain) -> None:
        """Write again the checkpoints that this host lacks, or has from before another host ran the lake.

        The caller holds the lease. What is not known exactly stays for the start gate, which names it.
        """
        names = []
        for stage in chain.stages if chain.lake.per_host and unfinished(chain) is None else ():
            try:
                if not chain.stage_state(stage).recovers:
                    continue
            except SourceError:
                continue  # the start gate names it
            recovery = recover(chain, self.spark, stage, accept_loss=False, dry_run=False)
            if recovery.kept is not None:  # where this host stopped, long ago
                chain.checkpoint_files.remove(recovery.kept)
            names += [stage.name] if recovery.refused is None else []
        if names:
            self.warn(
                f"this host's checkpoints of {listed(names)} were missing or of an earlier time, as another host has "
                "run the lake; they were written again from the tables"
            )

    def _warn(self, warnings: Iterable[str]) -> None:
        for text in warnings:
            self.warn(text)


@dataclass(frozen=True)
class Outlook:
    """What is known of a run before Spark starts.

    Attributes:
        nothing: True if the run certainly has nothing to do.
        small: True if its backlog is known to be small.
    """

    nothing: bool
    small: bool


def reachable(chain: Chain) -> Failed:
    """Return the sources of several that this process cannot reach, with why; call it before Spark starts.

    Raises:
        ConfigError: the lake's root is none.
        OncelakeError: the only source cannot be reached, or no source can.
    """
    if (refused := refused_root(chain.lake)) is not None:
        raise ConfigError(refused)
    return unreadable(chain)


def outlook(chain: Chain, failed: Failed, warn: Callable[[str], None], writers: Sequence[str]) -> Outlook:
    """Look without Spark at the work of the next run; warn as a run does if there is none.

    The lake is locked only if its configuration has passed the checks of a run: a refused run writes no lock file.

    Raises:
        StageError: the run would do nothing, and a source failed.
    """
    passed = passed_preflight(chain)  # guard: same-settings-passed-before
    with sole_writer(None, chain.lake, chain.settings.run.lock_wait) if passed else nullcontext():
        if passed:
            for text in set_spare_aside(chain):
                warn(text)
        chain = startable(chain, failed)
        states = chain.states()
        if passed and nothing_new(chain, states):
            for text in _warnings_before(chain, states, writers):
                warn(text)
            if failed:
                raise StageError(failure_lines(failed))
            return Outlook(nothing=True, small=True)
    return Outlook(nothing=False, small=has_small_backlog(states))


def _warnings_before(chain: Chain, states: Iterable[StageState], writers: Iterable[str]) -> Iterator[str]:
    """Yield the warnings of a run that do not stop it; call it while the lake's lock is held.

    Args:
        chain: the chain.
        states: the states of its stages.
        writers: what `other_log_store` returned before Spark started.
    """
    for suite in chain.suites.values():
        yield from left_out(suite)
    for state in states:
        yield from state.source.warnings()
    for table, kind in chain.kinds.items():
        if chain.silver.parsers[table.name].declared.assumes_utc:
            yield (
                f"{kind.key}.zone is not set: a time without a zone counts as UTC. Set it to the zone of the lines' "
                "times, such as Europe/Paris, or to UTC"
            )
    yield from writers
    yield from no_hard_links(chain.lake)


def _no_run(_: Chain) -> None:
    """Run nothing, for a change that is only planned."""
