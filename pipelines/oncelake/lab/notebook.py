"""Set up Spark and a lake for a notebook, with a first cell that is the same on every machine.

Two notebooks can read an existing lake, and change nothing in it. All others write to a small lake of their own.
docs/notebooks.md describes how to name a lake, locally and on Databricks.
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
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Table, identifier
from oncelake.common.spark.launch import java_output_to
from oncelake.common.spark.runtime import is_given, refuse_connect
from oncelake.common.spark.session import build, quiet_libraries, take
from oncelake.common.spark.settings import SparkSettings
from oncelake.common.wording import duration
from oncelake.engine.chain import Chain, StageState
from oncelake.engine.configuration import configured
from oncelake.engine.exclusive import RunResult
from oncelake.engine.open_lake import unheard
from oncelake.exactly_once.batch import CommittedBatch, Event
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.link import Link
from oncelake.lab import plots
from oncelake.lab.crash_test.conduct import QUICK
from oncelake.lab.crash_test.victim import Victims
from oncelake.lab.demo.made_log import DAYS, made_days, put, trouble
from oncelake.lab.notebook_place import LOOKING, ChosenLake, choose
from oncelake.lakehouse import Lakehouse
from oncelake.observe.progress import Lines
from oncelake.observe.status import backlog
from oncelake.observe.trace.lineage import At
from oncelake.observe.trace.lineage import lines as trace_lines

# Names that cells use in addition to the lake: notebooks import only from oncelake and oncelake.lab.
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

# The log that is generated if no lake was named: its number of lines, the number of files for its last day, and the
# seconds between these files.
MADE_LINES, PORTIONS, EVERY = 20_000, 5, 2.5
# One day is one batch, so that plots over time have several points. In the notebook LIVE, the last day arrives while
# the chain runs.
SMALL = ("source.max_bytes_per_batch=200kB", "run.max_bytes_per_batch=80kB")
LIVE = "06_stream_health"
# A kernel sets these for the libraries in its cells. A child process that writes to a file must not inherit them.
_COLOURS = ("FORCE_COLOR", "CLICOLOR_FORCE")
# How many seconds a running chain may take to process all available input.
SETTLES = 120.0


@dataclass(frozen=True)
class CommandResult:
    """The exit code and the full output of a command that ran in its own process."""

    code: int
    text: str


@dataclass(frozen=True)
class NotebookLake:
    """The lake of one notebook.

    Attributes:
        chosen: the configuration, and whether the lake is the notebook's own.
    """

    spark: SparkSession = field(repr=False)
    chosen: ChosenLake

    @property
    def root(self) -> Path:
        """Return the notebook's directory; with its own lake, the directory has `logs` and `lake`."""
        return self.chosen.root

    @property
    def lakehouse(self) -> Lakehouse:
        """Return the lake, as currently configured."""
        return Lakehouse.open(self.chosen.conf, self.chosen.sets, spark=self.spark)

    @property
    def chain(self) -> Chain:
        """Return the chain, as currently configured."""
        return self.lakehouse.chain

    def with_sets(self, *sets: str) -> "NotebookLake":
        """Return the same lake with settings that override its own, as with `--set`."""
        return replace(self, chosen=replace(self.chosen, sets=(*self.chosen.sets, *sets)))

    def at(self, name: str) -> str:
        """Return the location of a table such as `gold.error_log`: a path, or a quoted name."""
        return self.lakehouse.at(name)

    def table(self, name: str) -> DataFrame:
        """Return the current content of a table such as `gold.error_log`."""
        return self.lakehouse.table(name)

    def commit_log(self, name: str) -> DeltaLog:
        """Return a table's Delta log: its versions and commits."""
        return self.lakehouse.chain.commit_log(Table.named(name))

    def versions(self) -> dict[str, int]:
        """Return the version of every table that the chain has created."""
        return self.lakehouse.versions()

    def record(self) -> dict[str, list[CommittedBatch]]:
        """Return each stage's batches, as recorded in the tables' commits."""
        return self.lakehouse.record()

    def prove(self) -> list[Link]:
        """Check every link from the source to the last table, as `oncelake prove --full` does."""
        return self.lakehouse.prove(full=True).links

    def run(self, say: Callable[[str], None] = print) -> list[CommittedBatch]:
        """Process all available input through the last stage, as `oncelake run --once` does, in this process."""
        events: list[Event] = []
        self._writable().run(once=True, sink=events.append, show=lambda *_: Lines(say))
        return [event for event in events if isinstance(event, CommittedBatch)]

    @contextmanager
    def running(self, say: Callable[[str], None] = print) -> Iterator[None]:
        """Run the chain in a thread, as `oncelake run` does; at the end, wait for all available input, then stop it."""
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
        """Return an object that starts `oncelake` processes on this lake and, on exit, kills those still running."""
        return Victims(self.chosen.conf, self.chosen.sets, self.lakehouse.settings.places(), self.root / "tmp", QUICK)

    def command(self, *command: str, sets: Sequence[str] = ()) -> CommandResult:
        """Run `oncelake` on this lake in its own process, and wait until it exits."""
        with self.processes() as processes:
            started = processes.start(*command, sets=sets)
            return CommandResult(processes.finish(started), started.output.read_text(errors="replace"))

    def _writable(self) -> Lakehouse:
        """Return the lake for writing.

        Raises:
            OncelakeError: the notebook opened the lake only to read it.
        """
        if not self.chosen.own:
            raise OncelakeError(
                f"{self.chosen.name} only reads the lake of {self.chosen.conf}; "
                "to write to it, run `oncelake run` with the same settings"
            )
        return self.lakehouse

    def _settle(self, ran: "Future[RunResult]") -> None:
        for _ in range(int(SETTLES / 0.2)):
            if ran.done() or all(map(_is_done, self.chain.states())):
                return
            time.sleep(0.2)
        raise OncelakeError(
            f"the run did not process all input within {duration(int(SETTLES))}; nothing is lost: run the cell again"
        )


def open_lake(name: str, conf: str | os.PathLike[str] | None = None, sets: Sequence[str] = ()) -> NotebookLake:
    """Open the lake of a notebook, and print which lake it is.

    Args:
        name: the notebook's name.
        conf: the configuration file; docs/notebooks.md describes the default.
        sets: settings that override it, as with `--set`.

    Raises:
        ConfigError: the configuration is wrong, or exactly-once is not guaranteed on this Spark.
    """
    quiet_libraries()
    plots.use()
    for variable in _COLOURS:
        os.environ.pop(variable, None)
    chosen = choose(name, conf, sets)
    print(chosen.description)
    settings, _ = configured(chosen.conf, chosen.sets)
    lake = NotebookLake(notebook_spark(settings.spark, chosen.root), chosen)
    if chosen.own and name in LOOKING:
        _fill(lake, live=name == LIVE)
    return lake


def _fill(lake: NotebookLake, *, live: bool) -> None:
    """Fill the lake from a generated log; if `live`, the last day arrives in portions while the chain runs."""
    print(f"First, the lake is filled from a generated log of {DAYS} days. This takes half a minute.")
    *before, last = made_days(MADE_LINES)
    logs, portion = lake.root / "logs", -(-len(last) // PORTIONS)
    for number, rows in enumerate(before, 1):
        put(logs / f"day-{number}.log", rows)
        if live and number == 1:
            lake.run(unheard)
    (lake.with_sets(*SMALL) if live else lake).run(unheard)
    with lake.running(unheard) if live else nullcontext():
        for number in range(PORTIONS):
            put(logs / f"day-{DAYS}-part-{number}.log", last[number * portion : (number + 1) * portion])
            time.sleep(EVERY * live)
        put(logs / "late.log", trouble(late=200, broken=90))
    if not live:
        lake.run(unheard)


def _is_done(state: StageState) -> bool:
    waits = backlog(state)
    return state.checkpoint.open_batch is None and waits.count == waits.behind


WAREHOUSE = "spark.sql.warehouse.dir"
_APP = "oncelake-notebook"


def notebook_spark(settings: SparkSettings, root: Path) -> SparkSession:
    """Return the existing session, or start one as the program does, with its Java output in `spark.log`.

    Raises:
        ConfigError: exactly-once is not guaranteed on this Spark; the message has the cause.
    """
    refuse_connect()
    active: SparkSession | None = SparkSession.getActiveSession()
    if active is not None and active.conf.get("spark.app.name", "") == _APP:  # the first cell was run again
        return active
    if is_given():
        return take(settings, app=_APP)
    own = {WAREHOUSE: str(root / "warehouse"), **settings.conf}
    with java_output_to(root / "spark.log"):
        return build(settings.model_copy(update={"conf": own}), app=_APP)
