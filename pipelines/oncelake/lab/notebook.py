"""This is where a notebook gets its Spark and its lake, by one first cell that is the same on every machine.

Two notebooks look at a lake that is there, and change nothing in it; all others play with a small lake of their own.
docs/notebooks.md says how a lake is named, here and on Databricks.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from oncelake.common.afterwards import remove_afterwards
from oncelake.common.errors import OncelakeError
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER
from oncelake.common.spark.runtime import is_given, refuse_connect
from oncelake.common.spark.session import build, java_output_to, quiet_libraries, take
from oncelake.common.spark.settings import SparkSettings
from oncelake.common.tables import identifier
from oncelake.common.wording import duration
from oncelake.engine.chain import Chain, StageState
from oncelake.engine.configuration import configured
from oncelake.exactly_once.batch import BatchReport, Event
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.lab import plots
from oncelake.lab.crash_test.conduct import QUICK
from oncelake.lab.crash_test.victim import Victims
from oncelake.lab.demo.made_log import DAYS, made_days, put, trouble
from oncelake.lab.notebook_place import LOOKING, Chosen, choose
from oncelake.lakehouse import Lakehouse, Ran
from oncelake.observe.progress import Lines
from oncelake.observe.record import BatchRecord
from oncelake.observe.status import backlog
from oncelake.observe.trace.way import At
from oncelake.observe.trace.way import lines as trace_lines
from oncelake.proof.link import Link

# What cells use beside the lake: notebooks import from oncelake and oncelake.lab alone.
__all__ = [
    "BRONZE",
    "QUARANTINE",
    "SILVER",
    "At",
    "NotebookLake",
    "backlog",
    "identifier",
    "open_lake",
    "remove_afterwards",
    "trace_lines",
]

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

    @property
    def root(self) -> Path:
        """The notebook's own directory; a lake of its own has `logs` and `lake` in it."""
        return self.chosen.root

    @property
    def lakehouse(self) -> Lakehouse:
        """The lake as its configuration declares it now."""
        return Lakehouse.open(self.chosen.conf, self.chosen.sets, spark=self.spark)

    @property
    def chain(self) -> Chain:
        """The chain as its configuration declares it now."""
        return self.lakehouse.chain

    def with_sets(self, *sets: str) -> "NotebookLake":
        """Return the same lake with settings put over its own, as by `--set`."""
        return replace(self, chosen=replace(self.chosen, sets=(*self.chosen.sets, *sets)))

    def at(self, name: str) -> str:
        """Return the place of a table such as `gold.error_log`: a path, or a quoted name."""
        return self.lakehouse.at(name)

    def table(self, name: str) -> DataFrame:
        """Read a table such as `gold.error_log` as it is now."""
        return self.lakehouse.table(name)

    def commit_log(self, name: str) -> DeltaLog:
        """Return a table's log: its versions and commits."""
        return self.lakehouse.commit_log(name)

    def versions(self) -> dict[str, int]:
        """Return the version of every table that the chain has made."""
        return self.lakehouse.versions()

    def record(self) -> dict[str, list[BatchRecord]]:
        """Return what each batch of each stage did, by the tables' own commits."""
        return self.lakehouse.record()

    def prove(self) -> list[Link]:
        """Follow every link from the source to the last table, as `oncelake prove --full` does."""
        return self.lakehouse.prove(full=True).links

    def run(self, say: Callable[[str], None] = print) -> list[BatchReport]:
        """Take all that is in the source through the last stage, as `oncelake run --once` does, in this process."""
        events: list[Event] = []
        self._writable().run(once=True, sink=events.append, show=lambda *_: Lines(say))
        return [each for each in events if isinstance(each, BatchReport)]

    @contextmanager
    def running(self, say: Callable[[str], None] = print) -> Iterator[None]:
        """Run the chain on in a thread, as `oncelake run` does; end it when it has taken in all that is there."""
        stopping, lake = threading.Event(), self._writable()
        with ThreadPoolExecutor(1, "oncelake run") as thread:
            ran = thread.submit(lake.run, stopping=stopping, show=lambda *_: Lines(say))
            try:
                yield
                self._settle(ran)
            finally:
                stopping.set()
        ran.result()

    def processes(self) -> Victims:
        """Give what starts `oncelake` over this lake as processes that may be killed; all are, when it is left."""
        return Victims(self.chosen.conf, self.chosen.sets, self.lakehouse.lake, self.root / "tmp", QUICK)

    def command(self, *command: str, sets: Sequence[str] = ()) -> Ended:
        """Run `oncelake` over this lake as a process of its own, and wait for its end."""
        with self.processes() as processes:
            started = processes.start(*command, sets=sets)
            return Ended(processes.finish(started), started.output.read_text(errors="replace"))

    def _writable(self) -> Lakehouse:
        """Return the lake, to be written.

        Raises:
            OncelakeError: the notebook was only asked to look at it.
        """
        if not self.chosen.own:
            raise OncelakeError(f"{self.chosen.name} only looks at {self.chosen.conf}'s lake; `oncelake run` writes it")
        return self.lakehouse

    def _settle(self, ran: "Future[Ran]") -> None:
        for _ in range(int(SETTLES / 0.2)):
            if ran.done() or all(map(_is_done, self.chain.states())):
                return
            time.sleep(0.2)
        raise OncelakeError(f"the chain did not take in all that is there within {duration(int(SETTLES))}")


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
    settings, _ = configured(chosen.conf, chosen.sets)
    lake = NotebookLake(notebook_spark(settings.spark, chosen.root), chosen)
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


def _is_done(state: StageState) -> bool:
    return state.checkpoint.open_batch is None and backlog(state).count == 0


WAREHOUSE = "spark.sql.warehouse.dir"
_APP = "oncelake-notebook"


def notebook_spark(settings: SparkSettings, root: Path) -> SparkSession:
    """Give the session that is there, or start one as the program does, its noise in `spark.log`.

    Raises:
        ConfigError: the promise does not hold on this Spark; says why.
    """
    refuse_connect()
    active: SparkSession | None = SparkSession.getActiveSession()
    if active is not None and active.conf.get("spark.app.name", "") == _APP:  # the first cell, run once more
        return active
    if is_given():
        return take(settings, app=_APP)
    own = {WAREHOUSE: str(root / "warehouse"), **settings.conf}
    with java_output_to(root / "spark.log"):
        return build(settings.model_copy(update={"conf": own}), app=_APP)
