"""Run the product as the sequences use it: bronze alone, in this process, on a warm Spark session."""

import errno
import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelake.common.errors import REFUSED, OncelakeError, StageError, StateError
from oncelake.common.explain import explain
from oncelake.common.table_rows import TableRows
from oncelake.common.wording import shown_path
from oncelake.engine.chain import Chain
from oncelake.engine.gold_change import Change
from oncelake.engine.graph import Stage
from oncelake.engine.preflight import check_tables
from oncelake.engine.rebuild import Rebuild
from oncelake.engine.recover import recover
from oncelake.engine.runner import Run
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.files import LocalFiles
from oncelake.observe.progress import Progress
from oncelake.proof.prove import Proof
from oncelake.sources.directory.listing import ListedFile
from oncelake.sources.files.source import FilesSource
from oncelake.sources.tail.content import Disk
from tests.chaos.world import World
from tests.support.house import House, Recorder

# Called at each point of a run where the directory may change or the run be killed: its batch, from 0, and moment.
At = Callable[[int, str], None]


class Killed(Exception):  # noqa: N818 - what a kill leaves behind, not an error of the chain
    """Raised to end a run as a kill would."""


class CommandResult(BaseException):
    """Raised to end this process's own work as a kill would: no `except` of an error handles it."""


class Failed(Exception):  # noqa: N818 - as above
    """Raised to end a stage as an error would."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a command.

    Attributes:
        ok: whether it would exit 0.
        said: what it printed.
        refused: whether it refused to start, and so must have changed nothing.
        unforeseen: an error that the command line does not handle; None without one.
    """

    ok: bool
    said: str
    refused: bool = False
    unforeseen: str | None = None


@dataclass
class Product:
    """Bronze of one lake.

    Attributes:
        world: says which layers are run, and in which stage's batches something happens.
        batch: the ID of the batch in which the last run ended.
        is_building: whether a gold table is being built beside another one, so that a run may go on.
    """

    house: House
    spark: SparkSession
    world: World
    batch: int | None = None
    is_building: bool = False
    _said: list[str] = field(default_factory=list)
    _planned_in: Path = Path()

    @property
    def table(self) -> Path:
        """Return bronze's directory."""
        return self.house.table("bronze/access_log")

    @property
    def checkpoint(self) -> Path:
        """Return the checkpoint of the stage in whose batches something happens."""
        return self.house.checkpoint(self.world.stage)

    def run(self, at: At) -> Outcome:
        """Run bronze once over all available input."""

        def go() -> None:
            chain, inside = self._chain(at)
            check_tables(chain, spark=self.spark)
            for stage in _first(chain):
                chain.kind(stage).check_here()
                source = chain.stage_state(stage).source
                self._said += source.warnings()
                if isinstance(source, FilesSource) and (census := source.glance()) is not None:
                    self._said += [
                        shown_path(each.path) for each in census.touched
                    ]  # a warning names one, and a number
            self._run(chain, inside)

        return self._outcome(go)

    def prove(self, *, deep: bool = False, full: bool = False, with_spark: bool = False) -> Outcome:
        """Prove the lake; Spark reads the tables if it is asked for, or if all is compared."""
        broken: list[str] = []

        def go() -> None:
            rows = TableRows(lambda: self.spark, with_spark=with_spark or deep or full)
            for link in Proof(self.house.chain(self.spark), rows, deep=deep, full=full).links():
                self._said += [link.said, *link.notes]
                broken.extend([] if link.holds else [link.name])

        outcome = self._outcome(go)
        return replace(outcome, ok=outcome.ok and not broken)

    def forget_proofs(self) -> None:
        """Remove the record of what was proven, so that the next proof is of all."""
        shutil.rmtree(self.house.lake / "_proofs", ignore_errors=True)

    def recover(self, *, accept_loss: bool) -> Outcome:
        """Recover bronze."""

        def go() -> None:
            chain, _ = self._chain(lambda *_: None)
            outcomes = [
                recover(chain, self.spark, stage, accept_loss=accept_loss, dry_run=False) for stage in chain.stages
            ]
            self._said += [step for outcome in outcomes for step in outcome.steps]
            refused = [outcome.refused for outcome in outcomes if outcome.refused]
            if refused:
                raise StateError("\n".join(refused))

        return self._outcome(go)

    def rebuild(self, at: At, *, accept_loss: bool) -> Outcome:
        """Rebuild bronze."""

        def go() -> None:
            chain, inside = self._chain(at)
            for stage in _first(chain):
                chain.kind(stage).check_here()
                chain.kind(stage).check(self.spark)
            work = Rebuild(chain, self.spark, chain.stages, lambda part: self._run(part, inside), self._said.append)
            work.go(accept_loss=accept_loss)

        return self._outcome(go)

    def take_over(self, at: At) -> Outcome:
        """Build the gold table by its declaration in the settings, and put it in the place of the old one.

        Args:
            at: also called before each change that this process makes to a file itself: its number, and `step`.
        """

        def go() -> None:
            chain, stopping = self.house.chain(self.spark), threading.Event()
            gold, served = (stages_of(chain, layer) for layer in ("gold", "serving"))

            def run(part: Chain) -> None:
                hooks = {each.name: Inside(at, each.write, self._begun, stopping) for each in (*gold, *served)}
                self._planned_in = Path(part.lake.checkpoint(part.stages[0].name))
                hooked = (replace(stage, write=hooks.get(stage.name, stage.write)) for stage in part.stages)
                self._run(replace(part, stages=tuple(hooked)), *hooks.values())

            change = Change(chain, self.spark, gold[0], served, run, self._said.append)
            if change.is_needed:
                self.is_building = True
                change.build()
                self.is_building = False
            if change.is_needed and change.take_over(lambda: None):
                run(replace(chain, stages=served))
            else:
                Rebuild(chain, self.spark, (*gold, *served), run, self._said.append).go(accept_loss=False)

        with _each_step(at):
            outcome = self._outcome(go)
        self.is_building = False
        return outcome

    def forget(self) -> None:
        """Remove the checkpoint."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)

    def unplan(self) -> None:
        """Remove the plan of the batch in which the last run was killed, as if the kill had come earlier."""
        for name in (str(self.batch), f".{self.batch}.crc"):
            (self._planned_in / "offsets" / name).unlink(missing_ok=True)

    def _chain(self, at: At) -> tuple[Chain, "Inside"]:
        """Reduce the chain to bronze, or to the world's layers, with a hook at each point of a stage's batches."""
        chain = self.house.chain(self.spark)
        stages = {stage.name: stage for stage in chain.stages if stage.layer in self.world.layers}
        stage = stages[self.world.stage]
        self._planned_in = self.checkpoint
        inside = Inside(at, stage.write, self._begun)
        stages[stage.name] = replace(stage, write=inside)
        return replace(chain, stages=tuple(stages.values())), inside

    def _begun(self, batch: int) -> None:
        self.batch = batch

    def _run(self, chain: Chain, *inside: "Inside") -> None:
        progress = Progress(chain, Recorder([], self._said.append))

        def fence() -> None:
            for each in inside:
                each.fence()

        Run(chain, self.spark, progress, inside[0].stopping, fence).once()

    def _outcome(self, go: Callable[[], None]) -> Outcome:
        """Run a command, and return its outcome as the command line would report it."""
        self._said.clear()
        error: Exception | None = None
        self.house.sets = self.world.sets
        try:
            with _refusing(self.world):
                go()
        except Exception as raised:
            error = raised
        except CommandResult:
            error = StageError("the process was killed")
        if error is None:
            return Outcome(ok=True, said="\n".join(self._said))
        known = isinstance(error, OncelakeError)
        said = "\n".join([*self._said, str(error) if known else explain(error)])
        known = known or REFUSED in str(error)
        return Outcome(False, said, isinstance(error, StateError), None if known else f"{type(error).__name__}: {said}")


@contextmanager
def _refusing(world: World) -> Iterator[None]:
    """Let files that the world says not be opened, as without permission; this process may be root."""
    opens = Disk.open

    def opened(disk: Disk, file: ListedFile) -> BinaryIO:
        if file.identity is not None and file.identity[1] in world.refused():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), file.path)
        return opens(disk, file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Disk, "open", opened)
        yield


@contextmanager
def _each_step(at: At) -> Iterator[None]:
    """Call `at` before each file or directory that this thread writes, moves or removes by itself."""
    thread, numbers = threading.get_ident(), itertools.count()

    def told(call: Callable[..., None]) -> Callable[..., None]:
        def called(files: LocalFiles, *paths: str) -> None:
            if threading.get_ident() == thread:
                try:
                    at(next(numbers), "step")
                except Killed:
                    raise CommandResult from None
            call(files, *paths)

        return called

    with pytest.MonkeyPatch.context() as patch:
        for name in ("write", "move", "remove"):
            patch.setattr(LocalFiles, name, told(getattr(LocalFiles, name)))
        yield


def stages_of(chain: Chain, layer: str) -> tuple[Stage, ...]:
    """Return the stages of a layer."""
    return tuple(stage for stage in chain.stages if stage.layer == layer)


def _first(chain: Chain) -> list[Stage]:
    """Return the stages that read a source."""
    return [stage for stage in chain.stages if not stage.reads]


@dataclass
class Inside:
    """The work of a stage's batches, with a hook before, during and after each.

    Attributes:
        stopping: set when the run is killed, which ends the other stages, too.
    """

    at: At
    write: Callable[[DataFrame, Batch], None]
    begun: Callable[[int], None]
    stopping: threading.Event = field(default_factory=threading.Event)
    _number: int = -1
    _worker: int | None = None

    def __call__(self, frame: DataFrame, batch: Batch) -> None:
        """Write one batch."""
        self._number += 1
        self.begun(batch.batch_id)
        try:
            self.at(self._number, "before")
            with self._at_work():
                self.write(frame, batch)
            self.at(self._number, "after")
        except Killed:
            self.stopping.set()
            raise

    def fence(self) -> None:
        """Check the fence: called by the batch right before its commit, and by the run at any time."""
        if self._worker == threading.get_ident():
            self._worker = None
            self.at(self._number, "writing")

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        self._worker = threading.get_ident()
        try:
            yield
        finally:
            self._worker = None
