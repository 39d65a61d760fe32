"""This is where a notebook gets its Spark and its lake, by one first cell that is the same on every machine.

Two notebooks look at a lake that is there, and change nothing in it; all others play with a small lake of their own.
docs/notebooks.md says how a lake is named, here and on Databricks.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from oncelake.common import tables
from oncelake.common.errors import OncelakeError
from oncelake.common.lake import Table
from oncelake.common.spark.session import quiet_libraries
from oncelake.engine.configuration import configured
from oncelake.engine.preflight import check_ready
from oncelake.engine.runner import Run
from oncelake.engine.settings import Settings
from oncelake.engine.survey import Survey, View, survey
from oncelake.exactly_once.batch import BatchReport
from oncelake.exactly_once.lease import NAME, sole_writer
from oncelake.exactly_once.ledger import Ledger
from oncelake.lab import plots
from oncelake.lab.crash_test.conduct import QUICK
from oncelake.lab.crash_test.victim import Victims
from oncelake.lab.demo.made_days import DAYS, made_days, trouble
from oncelake.lab.demo.made_log import put
from oncelake.lab.notebook_place import LOOKING, Chosen, choose
from oncelake.lab.notebook_spark import notebook_spark
from oncelake.observe.backlog import Backlog, backlog
from oncelake.observe.followers import FOLLOWERS
from oncelake.observe.progress import Lines, Progress
from oncelake.observe.record import BatchRecord, record
from oncelake.proof.link import Link
from oncelake.proof.prove import Proof
from oncelake.silver.format import LogFormat

# The log that is made where no lake was named: so many lines, the last day of it in so many files, seconds apart.
MADE_LINES, PORTIONS, EVERY = 20_000, 5, 2.5
# A day is a batch, so that there is something to see over time; one notebook lets the last day come while it runs.
SMALL = ("source.max_bytes_per_batch=200kB", "run.max_bytes_per_batch=80kB")
LIVE = "06_stream_health"
# What a kernel tells the libraries of its cells; a process whose output goes to a file must not take it for itself.
_COLOURS = ("FORCE_COLOR", "CLICOLOR_FORCE")
# How long a chain that runs on may take until it has taken in all that is there.
SETTLES = 120.0


@dataclass(frozen=True)
class Ended:
    """A command that ran as a process of its own: its exit code, and all that it printed."""

    code: int
    text: str


@dataclass(frozen=True)
class NotebookLake:
    """The lake of one notebook.

    Attributes:
        chosen: which configuration it is, and whether the lake is the notebook's own.
    """

    spark: SparkSession = field(repr=False)
    chosen: Chosen
    settings: Settings = field(repr=False)
    log_format: LogFormat = field(repr=False)

    @property
    def root(self) -> Path:
        """The notebook's own directory; a lake of its own has `logs` and `lake` in it."""
        return self.chosen.root

    @property
    def chain(self) -> Survey:
        """The chain as its configuration declares it now."""
        return survey(*configured(self.chosen.conf, self.chosen.sets), self.spark)

    def with_sets(self, *sets: str) -> "NotebookLake":
        """Give the same lake with settings put over its own, as by `--set`."""
        chosen = replace(self.chosen, sets=(*self.chosen.sets, *sets))
        return NotebookLake(self.spark, chosen, *configured(chosen.conf, chosen.sets))

    def at(self, name: str) -> str:
        """Give the place of a table such as `gold.error_log`: a path, or a quoted name."""
        return self.chain.lake.at(_named(name))

    def table(self, name: str) -> DataFrame:
        """Read a table such as `gold.error_log` as it is now."""
        return tables.read(self.spark, self.at(name))

    def ledger(self, name: str) -> Ledger:
        """Give a table's log: its versions and commits."""
        return self.chain.ledger(_named(name))

    def versions(self) -> dict[str, int]:
        """Give the version of every table that the chain has made."""
        return {str(table): version for table, version in self.chain.versions().items() if version is not None}

    def record(self) -> dict[str, list[BatchRecord]]:
        """Give what each batch of each stage did, by the tables' own commits."""
        return record(self.chain)

    def prove(self) -> list[Link]:
        """Follow every link from the source to the last table, as `oncelake prove --full` does."""
        return list(Proof(self.chain, self.spark, full=True).links())

    def run(self, say: Callable[[str], None] = print) -> list[BatchReport]:
        """Take all that is in the source through the last stage, as `oncelake run --once` does, in this process."""
        with self._run(say, threading.Event()) as (run, told):
            run.once()
        return told

    @contextmanager
    def running(self, say: Callable[[str], None] = print) -> Iterator[None]:
        """Run the chain on in a thread, as `oncelake run` does; end it when it has taken in all that is there."""
        stopping, failed = threading.Event(), []

        def go_on() -> None:
            try:
                with self._run(say, stopping) as (run, _):
                    run.on()
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=go_on, name="oncelake run")
        thread.start()
        try:
            yield
            self._settle(thread)
        finally:
            stopping.set()
            thread.join()
        if failed:
            raise failed[0]

    def processes(self) -> Victims:
        """Give what starts `oncelake` over this lake as processes that may be killed; all are, when it is left."""
        flags = [part for each in self.chosen.sets for part in ("--set", each)]
        lock = Path(self.chain.lake.root) / NAME
        return Victims(["-c", str(self.chosen.conf), *flags], lock, self.root / "tmp", QUICK)

    def command(self, *command: str, sets: Sequence[str] = ()) -> Ended:
        """Run `oncelake` over this lake as a process of its own, and wait for its end."""
        with self.processes() as processes:
            started = processes.start(*command, sets=sets)
            return Ended(processes.finish(started), started.output.read_text(errors="replace"))

    @contextmanager
    def _run(self, say: Callable[[str], None], stopping: threading.Event) -> Iterator[tuple[Run, list[BatchReport]]]:
        if not self.chosen.own:
            raise OncelakeError(f"{self.chosen.name} only looks at {self.chosen.conf}'s lake; `oncelake run` writes it")
        chain, told = self.chain, Told(say)
        check_ready(self.spark, chain.settings, self.log_format)
        with sole_writer(self.spark, chain.lake, chain.settings.run.lock_wait) as lease:
            yield Run(chain, self.spark, Progress(chain, told), stopping, lease.check, FOLLOWERS), told.reports

    def _settle(self, thread: threading.Thread) -> None:
        for _ in range(int(SETTLES / 0.2)):
            if not thread.is_alive() or all(map(_is_done, self.chain.views())):
                return
            time.sleep(0.2)
        raise OncelakeError(f"the chain did not take in all that is there within {SETTLES:.0f} s")


class Told(Lines):
    """Says a line a batch, and keeps the reports."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(say)
        self.reports: list[BatchReport] = []

    def show(self, report: BatchReport, waits: Backlog | None) -> None:
        """Say one line."""
        self.reports.append(report)
        super().show(report, waits)


def open_lake(name: str, conf: str | os.PathLike[str] | None = None, sets: Sequence[str] = ()) -> NotebookLake:
    """Open the lake of a notebook, and print which one it is.

    Args:
        name: the notebook's.
        conf: the configuration; docs/notebooks.md tells which is taken when none is named.
        sets: settings that are put over it, as by `--set`.

    Raises:
        ConfigError: the configuration is wrong, or the promise does not hold on this Spark.
    """
    quiet_libraries()
    plots.use()
    for variable in _COLOURS:
        os.environ.pop(variable, None)
    chosen = choose(name, conf, sets)
    print(chosen.said)
    settings, log_format = configured(chosen.conf, chosen.sets)
    lake = NotebookLake(notebook_spark(settings.spark, chosen.root), chosen, settings, log_format)
    if chosen.own and name in LOOKING:
        _fill(lake, live=name == LIVE)
    return lake


def _fill(lake: NotebookLake, *, live: bool) -> None:
    """Take a made log in: a day, three that waited, then the last, in portions while the chain runs or at once."""
    print(f"It is filled with a made log of {DAYS} days first; that takes half a minute.")
    *before, last = made_days(MADE_LINES)
    logs, portion = lake.root / "logs", -(-len(last) // PORTIONS)
    for number, rows in enumerate(before, 1):
        put(logs / f"day-{number}.log", rows)
        if live and number == 1:
            lake.run(_say_nothing)
    (lake.with_sets(*SMALL) if live else lake).run(_say_nothing)
    with lake.running(_say_nothing) if live else nullcontext():
        for number in range(PORTIONS):
            put(logs / f"day-{DAYS}-part-{number}.log", last[number * portion : (number + 1) * portion])
            time.sleep(EVERY * live)
        put(logs / "late.log", trouble(late=200, broken=90))
    if not live:
        lake.run(_say_nothing)


def _say_nothing(_: str) -> None:
    pass


def _is_done(view: View) -> bool:
    return view.checkpoint.open_batch is None and backlog(view).count == 0


def _named(name: str) -> Table:
    return Table(*name.split(".", 1))
