"""Set up and run a crash test: options, directory, source, processes, kills, check."""

import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from oncelake.bronze.settings import SourceSettings
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.explain import explain
from oncelake.common.lake import BRONZE, DUPLICATES, is_local
from oncelake.common.spark import compiled, first_use
from oncelake.common.spark.runtime import is_given
from oncelake.common.wording import count_of
from oncelake.engine.chain import chain_of
from oncelake.engine.configuration import code_places
from oncelake.engine.settings import Settings
from oncelake.lab.crash_test.crash_test import SMALL, STANDBYS, CrashTest, Killing
from oncelake.lab.crash_test.feed import Feed, MadeFiles, MadeTopic, OwnSource, Portions
from oncelake.lab.crash_test.place import CrashTestPlace, copy_lake, place_for
from oncelake.lab.crash_test.plan import durable_steps, plan
from oncelake.lab.crash_test.verdict import CrashTestVerdict, tallies
from oncelake.lab.crash_test.victim import Victims
from oncelake.lakehouse import Lakehouse
from oncelake.quality.settings import GateSettings
from oncelake.serving.settings import SQL, ServingSettings
from oncelake.silver.settings import OFF
from oncelake.sources.kind import SourceKind
from oncelake.sources.registry import kind_of

# The default number of generated lines per kill.
LINES = 300
# How many seconds to wait for a durable step. With generated lines there is always a next step, even on a slow machine;
# the user's own source may have no more input.
LIMIT_MADE, LIMIT_OWN = 60.0, 10.0
# In a process that lives for seconds, the optimizing compiler costs more than it gains. The behavior stays the same.
QUICK = (*compiled.QUICK, "-XX:-UsePerfData")
# The heap of a process whose batches have a few kilobytes.
MEMORY = "1g"


@dataclass(frozen=True)
class Order:
    """The options of a crash test.

    Attributes:
        conf: the configuration file; see `Lakehouse.open`.
        kills: the number of kills.
        seed: the random seed for kills and lines.
        lines: how many lines to generate; None for as many as the kills need.
        own_source: True to read the configured source instead of generated lines.
        copy_lake: True to start with a copy of the configured lake; then the source is also the configured one.
    """

    conf: Path | None
    sets: Sequence[str]
    kills: int
    seed: int
    lines: int | None = None
    own_source: bool = False
    copy_lake: bool = False
    keep: Path | None = None
    verbose: bool = False

    def open(self, sets: Sequence[str], spark: SparkSession | None = None) -> Lakehouse:
        """Open the configured lake with other settings, in the given session if there is one."""

        def end_as_by_ctrl_c() -> None:  # replaces Spark's own handler, which works only while Spark runs
            signal.signal(signal.SIGINT, signal.default_int_handler)

        return Lakehouse.open(self.conf, sets, spark=spark, verbose=self.verbose, started=end_as_by_ctrl_c)

    def check(self) -> None:
        """Check the options.

        Raises:
            ConfigError: a flag's value is not accepted, or two flags exclude each other.
        """
        if self.kills < 1:
            raise ConfigError(f"--kills {self.kills}: at least one kill is needed")
        if self.lines is not None and self.lines < 1:
            raise ConfigError(f"--lines {self.lines}: at least one line is needed")
        if self.lines is not None and not self.is_generated:
            raise ConfigError("--lines is for generated lines; remove it when you use --own-source or --copy-lake")

    @property
    def generated_lines(self) -> int:
        """Return how many lines to generate: one portion before the first kill, and one per kill."""
        return self.lines or LINES * (self.kills + 1)

    @property
    def is_generated(self) -> bool:
        """Return True if the lines are generated."""
        return not (self.own_source or self.copy_lake)


def conduct(order: Order, say: Callable[[str], None]) -> CrashTestVerdict:
    """Run one crash test; the configured lake and source are only read, never written.

    Raises:
        ConfigError: the configuration or a flag is wrong; nothing was started.
        OncelakeError: a process exited that was not killed, or the check could not be completed.
    """
    order.check()
    with order.open(order.sets) as configured:
        settings = configured.settings
        if settings.lake.root is None:
            raise ConfigError(
                f"lake.catalog {settings.lake.catalog}: a crash test creates its own lake in a directory; use "
                "a configuration with lake.root"
            )
        source = _one_source(settings)
        if not order.is_generated:
            kind_of(source).check_here()
        with place_for(order.keep) as place:
            if order.copy_lake:
                copy_lake(configured.settings.places(), place.lake)
            verdict = Conductor(order, configured, place, say).test()
            place.is_kept = place.is_kept or not verdict.clean
            if verdict.clean:
                shutil.rmtree(place.root / "tmp", ignore_errors=True)
            return verdict.at(str(place.root) if place.is_kept else None)


@dataclass(frozen=True)
class Conductor:
    """One crash test in its directory.

    Attributes:
        configured: the lake that the user named; the test uses its own lake.
    """

    order: Order
    configured: Lakehouse
    place: CrashTestPlace
    say: Callable[[str], None]

    def test(self) -> CrashTestVerdict:
        """Run the kills and check the result."""
        begin = time.monotonic()
        self.say(f"seed {self.order.seed}")
        if not is_given():
            first_use.prepare()  # not one of the processes that are killed
        with self._source() as feed:
            sets = self._sets(feed)
            own = partial(self.order.open, sets, feed.spark)
            if self.configured.settings.serving.is_set:
                with own() as lake:
                    lake.make_served_tables()
            with Victims(self.order.conf, sets, self.place.lake, self.place.root / "tmp", QUICK) as victims:
                killing = self._kill(victims, feed)
            self.say(
                "check: oncelake prove --full --deep" + (", and a count in plain Python" * self.order.is_generated)
            )
            with own() as lake:
                doubts, rows, lines = _doubts(lake), lake.table(str(BRONZE)).count(), feed.lines()
                counted = [] if lines is None else tallies(lake, lines)
        return CrashTestVerdict(
            seed=self.order.seed,
            source=_one_source(self.configured.settings).kind,
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
        """Return the settings of the test's own lake."""
        lake, settings = self.place.lake, self.configured.settings
        configured_sets = [setting for setting in self.order.sets if not setting.startswith("silver.deduplicate")]
        sets = [*configured_sets, *feed.sets, f"lake.root={lake.root}", f"checkpoints={lake.checkpoints}"]
        if settings.silver.deduplicate is not None:  # the test counts every line, also equal ones
            sets.append(f"silver.deduplicate={OFF}")
        # the user's limits are for other lines, so generated lines must never reach a limit
        if self.order.is_generated and settings.quality.gate != GateSettings():
            sets += ["quality.gate.quarantined.fail=1", "quality.gate.age.fail=36500 days"]
        return [*sets, *own_serving(settings.serving, self.place.served)]

    def _kill(self, victims: Victims, feed: Feed) -> Killing:
        configured = self.configured
        chain = chain_of(configured.settings, configured.parsers, places=code_places(configured.conf))
        lists = any(kind.lists_batches for kind in chain.kinds.values())
        stages = tuple(
            replace(stage, writes=tuple(target for target in stage.writes if target.table != DUPLICATES))
            for stage in chain.stages
        )
        steps = durable_steps(self.place.lake, stages, source_log=lists)
        planned = plan(steps, self.order.kills, self.order.seed)
        kills, kinds = count_of(len(planned), "kill"), count_of(len(steps), "kind")
        self.say(
            f"{kills}, half of them right after one of {kinds} of durable steps; "
            f"while one process works, {STANDBYS} more is started and waits for the lake's lock"
        )
        feed.more()
        small = [*SMALL, *feed.small, f"spark.driver_memory={MEMORY}"]
        return CrashTest(
            victims, feed, planned, self.say, small, LIMIT_MADE if self.order.is_generated else LIMIT_OWN
        ).run()

    @contextmanager
    def _source(self) -> Iterator[Feed]:
        """Yield the source of the test; at the end, delete a source that is not in the test's own directory."""
        order, source = self.order, _one_source(self.configured.settings)
        portions = Portions(order.generated_lines, order.kills + 1, order.seed)
        if not order.is_generated:
            yield OwnSource(_small_bytes(kind_of(source), order.kills))
        elif source.kind == "files":
            yield MadeFiles(self.place.root / "source", portions)
        elif source.kind == "kafka":
            topic = f"oncelake-crash-test-{order.seed}-{time.time_ns() // 1_000_000}"
            feed = MadeTopic(self.configured.spark, source, topic, portions)
            with feed.created():
                yield feed
        else:
            raise ConfigError(
                f"source.kind {source.kind}: lines can be generated only for files and kafka; use --own-source"
            )


def own_serving(configured: ServingSettings, at: Path) -> list[str]:
    """Return the settings that serve into the test's own file: it must not write to the configured database or sink."""
    if configured.sink is not None:
        return [f"serving.sink={SQL}", f"serving.options.url=sqlite:///{at}"]
    return [f"serving.url=sqlite:///{at}"] if configured.url is not None else []


def _one_source(settings: Settings) -> SourceSettings:
    """Return the source of a lake with one source.

    Raises:
        ConfigError: the settings have several.
    """
    if settings.source is None:
        raise ConfigError(
            f"sources {', '.join(settings.sources)}: a crash test needs one source; use a configuration with source"
        )
    return settings.source


def _doubts(lake: Lakehouse) -> list[str]:
    """Prove a lake, and return the links that do not hold, or the error that prevented the proof."""
    try:
        links = lake.prove(full=True, deep=True).links
    except Exception as error:
        return [str(error) if isinstance(error, OncelakeError) else explain(error)]
    return [f"{link.name}: {link.said}" for link in links if not link.holds]


def _small_bytes(source: SourceKind, kills: int) -> int:
    """Return a batch size so small that a directory has enough batches for all kills; a batch has at least one file."""
    path = source.directory
    if path is None or not is_local(path) or not Path(path).is_dir():
        return 1_000_000
    return max(1, sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file()) // (4 * kills))
