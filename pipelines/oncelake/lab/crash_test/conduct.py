"""This is where a crash test is put together: place, source, processes, kills, check."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from oncelake.bronze.sources.kind import SourceKind
from oncelake.bronze.sources.registry import kind_of
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.lake import BRONZE, is_local
from oncelake.common.spark import class_data
from oncelake.common.spark.session import spark_session
from oncelake.engine.chain import chain_of
from oncelake.engine.configuration import configured
from oncelake.engine.settings import Settings
from oncelake.exactly_once.files import lines_of
from oncelake.exactly_once.lease import NAME
from oncelake.lab.crash_test.crash_test import SMALL, STANDBYS, CrashTest, Killing
from oncelake.lab.crash_test.feed import Feed, MadeFiles, MadeTopic, OwnSource, Portions
from oncelake.lab.crash_test.order import Order
from oncelake.lab.crash_test.place import CrashTestPlace, copy_lake, place_for
from oncelake.lab.crash_test.plan import plan
from oncelake.lab.crash_test.steps import durable_steps
from oncelake.lab.crash_test.tally import Tally, tallies
from oncelake.lab.crash_test.verdict import CrashTestVerdict
from oncelake.lab.crash_test.victim import Victim, Victims
from oncelake.quality.settings import GateSettings
from oncelake.silver.format import LogFormat

# A durable step is waited for so many seconds. Where lines are made there is always a next one, however slow the
# machine; the user's own source may be at its end.
LIMIT_MADE, LIMIT_OWN = 60.0, 10.0
# Code that lives for seconds never pays for the optimizing compiler; what it does stays the same.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
# The heap of a process that works on batches of some kilobytes.
MEMORY = "1g"
# From so many kills on, writing the archive takes less time than it saves.
_WORTH = 20


def conduct(order: Order, say: Callable[[str], None]) -> CrashTestVerdict:
    """Do one crash test; the configured lake and source are read at most.

    Raises:
        ConfigError: the configuration or a flag is wrong; nothing was started.
        OncelakeError: a process ended that nobody killed, or the check could not be made.
    """
    order.check()
    settings, log_format = configured(order.conf, order.sets)
    if settings.lake.root is None:
        raise ConfigError(
            f"lake.catalog {settings.lake.catalog}: a crash test makes a lake of its own in a directory; give it a "
            "configuration with lake.root"
        )
    if not order.made:
        kind_of(settings.source).check_here()
    with place_for(order.keep) as place:
        if order.copy_lake:
            copy_lake(settings.places(), place.lake)
        verdict = Conductor(order, settings, log_format, place, say).test()
        place.kept = place.kept or not verdict.clean
        if verdict.clean:
            shutil.rmtree(place.root / "tmp", ignore_errors=True)
        return verdict.at(str(place.root) if place.kept else None)


@dataclass(frozen=True)
class Conductor:
    """One crash test in its place."""

    order: Order
    settings: Settings
    log_format: LogFormat
    place: CrashTestPlace
    say: Callable[[str], None]

    def test(self) -> CrashTestVerdict:
        """Kill as ordered, and look what came of it."""
        begin = time.monotonic()
        self.say(f"seed {self.order.seed}")
        java = self._java()
        with self._source() as feed, self._victims(self.place, feed, java) as victims:
            killing = self._kill(victims, feed)
            self.say("the check: oncelake prove --full --deep" + (", and all lines by plain Python" * self.order.made))
            prove = victims.start("prove", "--full", "--deep", "--json")
            rows, counted = self._count(feed)
            proves, doubts = _proof(victims, prove)
        return CrashTestVerdict(
            seed=self.order.seed,
            source=self.settings.source.kind,
            kills=self.order.kills,
            kinds=dict(killing.kinds),
            missed=killing.missed,
            restarts=self.order.kills,
            kill_seconds=killing.seconds,
            seconds=time.monotonic() - begin,
            rows=rows,
            tallies=counted,
            proves=proves,
            doubts=doubts,
        )

    def _java(self) -> list[str]:
        if self.order.kills >= _WORTH and not class_data.archive().exists():
            self.say("writing an archive of Java's classes once, from which later processes start faster")
            class_data.write()
        return [*QUICK]

    def _victims(self, place: CrashTestPlace, feed: Feed, java: list[str]) -> Victims:
        lake = place.lake
        sets = [*self.order.sets, *feed.sets, f"lake.root={lake.root}", f"checkpoints={lake.checkpoints}"]
        if self.order.made and self.settings.quality.gate != GateSettings():  # limits on other lines: none is reached
            sets += ["quality.gate.quarantined.fail=1", "quality.gate.age.fail=36500 days"]
        if self.settings.serving.url is not None:  # the configured database is nobody's to play with
            sets.append(f"serving.url=sqlite:///{place.served}")
        flags = [part for each in sets for part in ("--set", each)]
        return Victims(["-c", str(self.order.conf), *flags], Path(lake.root) / NAME, self.place.root / "tmp", java)

    def _make_served(self, victims: Victims) -> None:
        """Make the served tables in the test's own database."""
        if self.settings.serving.url is None:
            return
        made = victims.start("serving", "init")
        if victims.finish(made) != 0:
            raise OncelakeError(f"the test's own serving database was not made: {made.said()}")

    def _kill(self, victims: Victims, feed: Feed) -> Killing:
        chain = chain_of(self.settings, self.log_format)
        steps = durable_steps(self.place.lake, chain.stages, source_log=chain.kind.lists_batches)
        planned = plan(steps, self.order.kills, self.order.seed)
        self.say(
            f"{len(planned)} kills, half of them right after one of {len(steps)} kinds of durable steps; "
            f"while one process works, {STANDBYS} more is up and waits for the lake"
        )
        self._make_served(victims)
        feed.more()
        small = [*SMALL, *feed.small, f"spark.driver_memory={MEMORY}"]
        return CrashTest(victims, feed, planned, self.say, small, LIMIT_MADE if self.order.made else LIMIT_OWN).run()

    @contextmanager
    def _source(self) -> Iterator[Feed]:
        """Give what is read, and take it away at the end where it is not in the test's own directory."""
        order, source = self.order, self.settings.source
        portions = Portions(order.made_lines, order.kills + 1, order.seed)
        if not order.made:
            yield OwnSource(_small_bytes(kind_of(source), order.kills))
        elif source.kind == "files":
            yield MadeFiles(self.place.root / "source", portions)
        elif source.kind == "kafka":
            topic = f"oncelake-crash-test-{order.seed}-{time.time_ns() // 1_000_000}"
            with spark_session(self.settings.spark, verbose=order.verbose) as spark:
                made = MadeTopic(spark, source, topic, portions)
                with made.there():
                    yield made
        else:
            raise ConfigError(f"no lines are made for source.kind {source.kind}; test it with --own-source")

    def _count(self, feed: Feed) -> tuple[int, list[Tally]]:
        """Count bronze's rows, and hold the tables against the made lines."""
        own = spark_session(self.settings.spark, verbose=self.order.verbose)
        with nullcontext(feed.spark) if isinstance(feed, MadeTopic) else own as spark:
            rows = spark.read.format("delta").load(self.place.lake.at(BRONZE)).count()
            lines = feed.lines()
            return rows, [] if lines is None else tallies(spark, self.place.lake, self.settings.gold, lines)


def _proof(victims: Victims, prove: Victim) -> tuple[bool, list[str]]:
    """Wait for `prove --json`, and give whether it holds and what does not."""
    holds = victims.finish(prove) == 0
    try:
        links = json.loads(lines_of(prove.output.read_text())[-1])["links"]
        return holds, [f"{link['name']}: {link['said']}" for link in links if not link["holds"]]
    except (IndexError, KeyError, ValueError):
        return holds, [] if holds else [prove.said()]


def _small_bytes(source: SourceKind, kills: int) -> int:
    """Choose the size of a batch so that a directory lasts for all kills; a file is a batch at least."""
    path = source.directory
    if path is None or not is_local(path) or not Path(path).is_dir():
        return 1_000_000
    return max(1, sum(each.stat().st_size for each in Path(path).rglob("*") if each.is_file()) // (4 * kills))
