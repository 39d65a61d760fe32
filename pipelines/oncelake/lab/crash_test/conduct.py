"""This is where a crash test is put together: what was asked for, place, source, processes, kills, check."""

import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from oncelake.bronze.sources.kind import SourceKind
from oncelake.bronze.sources.registry import kind_of
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.explain import explain
from oncelake.common.lake import BRONZE, is_local
from oncelake.common.spark import class_data
from oncelake.common.wording import count_of
from oncelake.lab.crash_test.crash_test import SMALL, STANDBYS, CrashTest, Killing
from oncelake.lab.crash_test.feed import Feed, MadeFiles, MadeTopic, OwnSource, Portions
from oncelake.lab.crash_test.place import CrashTestPlace, copy_lake, place_for
from oncelake.lab.crash_test.plan import durable_steps, plan
from oncelake.lab.crash_test.verdict import CrashTestVerdict, tallies
from oncelake.lab.crash_test.victim import Victims
from oncelake.lakehouse import Lakehouse
from oncelake.quality.settings import GateSettings

# Made lines for each kill, unless told otherwise.
LINES = 300
# A durable step is waited for so many seconds. Where lines are made there is always a next one, however slow the
# machine; the user's own source may be at its end.
LIMIT_MADE, LIMIT_OWN = 60.0, 10.0
# Code that lives for seconds never pays for the optimizing compiler; what it does stays the same.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
# The heap of a process that works on batches of some kilobytes.
MEMORY = "1g"
# From so many kills on, writing the archive takes less time than it saves.
_WORTH = 20


@dataclass(frozen=True)
class Order:
    """What was asked for.

    Attributes:
        kills: how often to kill.
        seed: what kills and lines are drawn from.
        lines: how many lines to make, None for as many as the kills need.
        own_source: read the configured source instead of made lines.
        copy_lake: begin with a copy of the configured lake; the source is then the configured one, too.
    """

    conf: Path
    sets: Sequence[str]
    kills: int
    seed: int
    lines: int | None = None
    own_source: bool = False
    copy_lake: bool = False
    keep: Path | None = None
    verbose: bool = False

    def open(self, sets: Sequence[str], spark: SparkSession | None = None) -> Lakehouse:
        """Open the configured lake with other settings, in a session where there is one."""

        def end_as_by_ctrl_c() -> None:  # Spark has set a handler of its own, which needs it to be there
            signal.signal(signal.SIGINT, signal.default_int_handler)

        return Lakehouse.open(self.conf, sets, spark=spark, verbose=self.verbose, started=end_as_by_ctrl_c)

    def check(self) -> None:
        """Refuse what cannot be.

        Raises:
            ConfigError: a flag's value is not accepted, or two flags do not go together.
        """
        if self.kills < 1:
            raise ConfigError(f"--kills {self.kills}: at least one kill is needed")
        if self.lines is not None and self.lines < 1:
            raise ConfigError(f"--lines {self.lines}: at least one line is needed")
        if self.lines is not None and not self.made:
            raise ConfigError("--lines is for made lines; leave it out with --own-source and --copy-lake")

    @property
    def made_lines(self) -> int:
        """How many lines to make: a portion before the first kill, and one for each."""
        return self.lines or LINES * (self.kills + 1)

    @property
    def made(self) -> bool:
        """Whether the lines are made here."""
        return not (self.own_source or self.copy_lake)


def conduct(order: Order, say: Callable[[str], None]) -> CrashTestVerdict:
    """Do one crash test; the configured lake and source are read at most.

    Raises:
        ConfigError: the configuration or a flag is wrong; nothing was started.
        OncelakeError: a process ended that nobody killed, or the check could not be made.
    """
    order.check()
    with order.open(order.sets) as configured:
        settings = configured.settings
        if settings.lake.root is None:
            raise ConfigError(
                f"lake.catalog {settings.lake.catalog}: a crash test makes a lake of its own in a directory; give it "
                "a configuration with lake.root"
            )
        if not order.made:
            kind_of(settings.source).check_here()
        with place_for(order.keep) as place:
            if order.copy_lake:
                copy_lake(configured.lake, place.lake)
            verdict = Conductor(order, configured, place, say).test()
            place.kept = place.kept or not verdict.clean
            if verdict.clean:
                shutil.rmtree(place.root / "tmp", ignore_errors=True)
            return verdict.at(str(place.root) if place.kept else None)


@dataclass(frozen=True)
class Conductor:
    """One crash test in its place.

    Attributes:
        configured: the lake that the user named; the test's own is another one.
    """

    order: Order
    configured: Lakehouse
    place: CrashTestPlace
    say: Callable[[str], None]

    def test(self) -> CrashTestVerdict:
        """Kill as ordered, and look what came of it."""
        begin = time.monotonic()
        self.say(f"seed {self.order.seed}")
        if self.order.kills >= _WORTH and not class_data.archive().exists():
            self.say("writing an archive of Java's classes once, from which later processes start faster")
            class_data.write()
        with self._source() as feed:
            sets = self._sets(feed)
            own = partial(self.order.open, sets, feed.spark)
            if self.configured.settings.serving.url is not None:
                with own() as lake:
                    lake.make_served_tables()
            with Victims(self.order.conf, sets, self.place.lake, self.place.root / "tmp", QUICK) as victims:
                killing = self._kill(victims, feed)
            self.say("the check: oncelake prove --full --deep" + (", and all lines by plain Python" * self.order.made))
            with own() as lake:
                doubts, rows, lines = _doubts(lake), lake.table(str(BRONZE)).count(), feed.lines()
                counted = [] if lines is None else tallies(lake, lines)
        return CrashTestVerdict(
            seed=self.order.seed,
            source=self.configured.settings.source.kind,
            kills=self.order.kills,
            kinds=dict(killing.kinds),
            missed=killing.missed,
            restarts=self.order.kills,
            kill_seconds=killing.seconds,
            seconds=time.monotonic() - begin,
            rows=rows,
            tallies=counted,
            proves=not doubts,
            doubts=doubts,
        )

    def _sets(self, feed: Feed) -> list[str]:
        """Give the settings of the test's own lake."""
        lake, settings = self.place.lake, self.configured.settings
        sets = [*self.order.sets, *feed.sets, f"lake.root={lake.root}", f"checkpoints={lake.checkpoints}"]
        if self.order.made and settings.quality.gate != GateSettings():  # limits on other lines: none is reached
            sets += ["quality.gate.quarantined.fail=1", "quality.gate.age.fail=36500 days"]
        if settings.serving.url is not None:  # the configured database is nobody's to play with
            sets.append(f"serving.url=sqlite:///{self.place.served}")
        return sets

    def _kill(self, victims: Victims, feed: Feed) -> Killing:
        chain = self.configured.declared
        steps = durable_steps(self.place.lake, chain.stages, source_log=chain.kind.lists_batches)
        planned = plan(steps, self.order.kills, self.order.seed)
        kills, kinds = count_of(len(planned), "kill"), count_of(len(steps), "kind")
        self.say(
            f"{kills}, half of them right after one of {kinds} of durable steps; "
            f"while one process works, {STANDBYS} more is up and waits for the lake"
        )
        feed.more()
        small = [*SMALL, *feed.small, f"spark.driver_memory={MEMORY}"]
        return CrashTest(victims, feed, planned, self.say, small, LIMIT_MADE if self.order.made else LIMIT_OWN).run()

    @contextmanager
    def _source(self) -> Iterator[Feed]:
        """Give what is read, and take it away at the end where it is not in the test's own directory."""
        order, source = self.order, self.configured.settings.source
        portions = Portions(order.made_lines, order.kills + 1, order.seed)
        if not order.made:
            yield OwnSource(_small_bytes(kind_of(source), order.kills))
        elif source.kind == "files":
            yield MadeFiles(self.place.root / "source", portions)
        elif source.kind == "kafka":
            topic = f"oncelake-crash-test-{order.seed}-{time.time_ns() // 1_000_000}"
            made = MadeTopic(self.configured.spark, source, topic, portions)
            with made.there():
                yield made
        else:
            raise ConfigError(f"no lines are made for source.kind {source.kind}; test it with --own-source")


def _doubts(lake: Lakehouse) -> list[str]:
    """Prove a lake, and give what does not hold, or why it cannot be proven."""
    try:
        links = lake.prove(full=True, deep=True).links
    except Exception as error:
        return [str(error) if isinstance(error, OncelakeError) else explain(error)]
    return [f"{link.name}: {link.said}" for link in links if not link.holds]


def _small_bytes(source: SourceKind, kills: int) -> int:
    """Choose the size of a batch so that a directory lasts for all kills; a file is a batch at least."""
    path = source.directory
    if path is None or not is_local(path) or not Path(path).is_dir():
        return 1_000_000
    return max(1, sum(each.stat().st_size for each in Path(path).rglob("*") if each.is_file()) // (4 * kills))
