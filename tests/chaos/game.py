"""Play a sequence: apply each step to a directory and a lake of its own, and judge the outcome."""

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm
from tests.chaos.bronze import BronzeFiles
from tests.chaos.directory import Listing
from tests.chaos.judge import Judge
from tests.chaos.product import Failed, Killed, Outcome, Product
from tests.chaos.steps import Step, spelled
from tests.chaos.whole import Whole
from tests.chaos.world import World
from tests.support.callbacks import callbacks_closed

_SHOWN = 5


@dataclass
class Result:
    """The result of a sequence.

    Attributes:
        steps: the steps that were played.
        broken: how the invariant was broken; empty when it holds.
        counts: how often each operation was applied, and how the commands ended.
        log: what the commands printed.
    """

    steps: Sequence[Step]
    broken: list[str]
    counts: Counter[str]
    log: list[str] = field(repr=False)

    def __str__(self) -> str:
        """Describe how the invariant was broken, and by which steps."""
        more = [f"and {len(self.broken) - _SHOWN} more"] if len(self.broken) > _SHOWN else []
        said = "\n".join(f"  - {how}" for how in [*self.broken[:_SHOWN], *more])
        return f"broken:\n{said}\nsteps:\n{spelled(self.steps)}\nlog:\n" + "\n".join(self.log)


@dataclass
class Game:
    """The state of one sequence while it is played.

    Attributes:
        compares: whether the proofs are compared with those of Spark.
    """

    world: World
    product: Product
    judge: Judge
    compares: bool = True
    counts: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)
    _sound: bool = True

    def play(self, steps: Sequence[Step]) -> Result:
        """Play steps until one breaks the invariant."""
        for step in steps:
            self._step(step)
            if self.judge.broken:
                break
        else:
            self.product.forget_proofs()
            outcome = self.product.prove()
            self.product.forget_proofs()
            self._compare_by_spark(outcome)
        return Result(steps, self.judge.broken, self.counts, self.log)

    def _step(self, step: Step) -> None:
        began = time.monotonic()
        command = _COMMANDS.get(step.verb)
        self.log.append(str(step))
        if command is not None:
            command(self, step)
        elif self.world.apply(step):
            self.counts[step.verb] += 1
        else:
            self.log.append("  nothing to do it to")
        self.log.append(f"  {time.monotonic() - began:.1f} s")

    def run(self, step: Step) -> None:
        """Run with the step's disturbances, then prove."""
        alone = not step.during and self.world.may_run(self.product.table)
        outcome, listings = self._watched(step, self.product.run)
        self.judge.ran(listings, outcome, self._held(), alone=alone)
        self.judge.wrote(self.world.wrong(self.product.table, whole=outcome.ok))
        self._sound = outcome.ok
        self._prove(deep=False, full=False)

    def prove(self, step: Step) -> None:
        """Prove, and judge the proof."""
        self._prove(deep="deep" in step.verb, full="full" in step.verb)

    def recover(self, step: Step) -> None:
        """Recover, and judge the recovery."""
        before, accept = self._held(), step.verb.endswith("accept")
        outcome = self.product.recover(accept_loss=accept)
        self._note("recover", outcome)
        self.judge.accepts(self.world.accepted(self.product.table))
        self.judge.repaired("recover", outcome, before, self._held(), given_up=None if accept else ())

    def rebuild(self, step: Step) -> None:
        """Rebuild with the step's disturbances, then prove."""
        before, accept = self._held(), step.verb.endswith("accept")
        outcome, listings = self._watched(step, lambda at: self.product.rebuild(at, accept_loss=accept))
        if not outcome.refused:
            self.world.emptied(accepted=accept)
        after = self._held()
        # what was there when it began may be gone or wait for the next run by now, if that was changed meanwhile
        there = [content.lines or () for listing in listings for content in listing.files.values()]
        given_up = None if accept else [line for lines in there if step.during for line in lines]
        self.judge.repaired("rebuild", outcome, before, after, given_up=given_up)
        if not outcome.refused:
            self.judge.accepts(self.world.accepted(self.product.table))
            self.judge.ran(listings, outcome, after, alone=False)
            self.judge.wrote(self.world.wrong(self.product.table, whole=outcome.ok))
            self._sound = outcome.ok
        self._prove(deep=False, full=False)

    def take_over(self, step: Step) -> None:
        """Build the gold table by its declaration in the settings, with the step's disturbances, then prove."""
        assert isinstance(self.world, Whole)
        held, before = self._held(), self.world.counted(self.product.table)
        changes = not self.world.may_run(self.product.table)
        outcome, _ = self._watched(step, self.product.take_over)
        self.judge.repaired("take-over", replace(outcome, refused=False), held, self._held())
        self.judge.wrote(self.world.wrong(self.product.table, whole=False))
        if outcome.ok:
            self.judge.wrote(self.world.wrong_after_gold(self.product.table))
        elif changes and not any(each.step.verb == "run" for each in step.during):
            self.judge.wrote(self.world.took_over(self.product.table, before))
        self._sound = self._sound and outcome.ok
        self._prove(deep=False, full=False)

    def forget(self, step: Step) -> None:
        """Remove the checkpoint."""
        del step
        self.product.forget()
        self.world.forgotten()
        self.judge.forgot()
        self._sound = False
        self.counts["forget"] += 1

    def _watched(
        self, step: Step, command: Callable[[Callable[[int, str], None]], Outcome]
    ) -> tuple[Outcome, list[Listing]]:
        """Run a command, and apply steps at its points; read the directory before the command and after each step."""
        seen = [self._look()]
        after: list[str] = []

        def at(batch: int, moment: str) -> None:
            if moment == "before":
                self.world.planned(self.product.checkpoint)
            for each in step.during:
                if (each.batch, each.moment) != (batch, moment):
                    continue
                self.counts[f"{each.step.verb} {moment}"] += 1
                if each.step.verb in ("stop", "stop-unplanned"):
                    after.append(each.step.verb if moment != "after" else "stop")
                    raise Killed
                if each.step.verb == "fail":
                    raise Failed
                if each.step.verb == "run":
                    self._run_as_built()
                else:
                    self.world.apply(each.step)
                seen.append(self._look())

        outcome = command(at)
        if "stop-unplanned" in after:
            self.product.unplan()
            self.world.forgotten()
        self._note(step.verb, outcome)
        return outcome, seen

    def _run_as_built(self) -> None:
        """Run by the declaration that a gold table was built by, while another one is built beside it."""
        assert isinstance(self.world, Whole)
        if not self.product.is_building:  # the lake's lock keeps a run out
            return
        with self.world.as_built(self.product.table):
            outcome = Product(self.product.house, self.product.spark, self.world).run(lambda *_: None)
        self._note("run of the old declaration", outcome)

    def _prove(self, *, deep: bool, full: bool) -> None:
        outcome = self.product.prove(deep=deep, full=full)
        self._note("prove", outcome)
        if not (outcome.ok or deep or full):
            self._compare_by_spark(outcome)
        listing = self.world.look()
        if outcome.ok:
            self.judge.wrote(f"prove holds, and {how}" for how in self.world.wrong_if_proven(self.product.table))
        self.judge.proved(outcome, listing, self._held(), deep=deep, sound=self._sound)

    def _compare_by_spark(self, plain: Outcome) -> None:
        """Compare what a proof said that read the tables without Spark with what Spark makes of the same lake."""
        if not self.compares:
            return
        by_spark = self.product.prove(with_spark=True)
        self.counts["proofs that are compared with Spark's"] += 1
        if by_spark != plain:
            self.judge.wrote([f"prove says {plain.said!r} without Spark, and {by_spark.said!r} with it"])

    def _look(self) -> Listing:
        listing = self.world.look()
        self.judge.saw(listing)
        return listing

    def _held(self) -> Mapping[bytes, BronzeFiles]:
        return self.world.held(self.product.table)

    def _note(self, what: str, outcome: Outcome) -> None:
        self.counts[f"{what}: exit {0 if outcome.ok else 1}"] += 1
        self.log.append(f"  {what}: exit {0 if outcome.ok else 1}: {outcome.said}")


_COMMANDS: dict[str, Callable[[Game, Step], None]] = {
    "run": Game.run,
    "prove": Game.prove,
    "prove-deep": Game.prove,
    "prove-full": Game.prove,
    "recover": Game.recover,
    "recover-accept": Game.recover,
    "rebuild": Game.rebuild,
    "rebuild-accept": Game.rebuild,
    "take-over": Game.take_over,
    "forget": Game.forget,
}


def play(steps: Sequence[Step], world: World, directory: Path, spark: SparkSession, *, compares: bool = True) -> Result:
    """Play one sequence with a lake in a directory of its own, and remove both."""
    try:
        with callbacks_closed(spark):
            return Game(world, Product(world.house(directory), spark, world), Judge(world), compares).play(steps)
    finally:
        jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
        shutil.rmtree(directory, ignore_errors=True)
