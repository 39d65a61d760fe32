"""Let several drivers on three hosts work on one lake on a store, at random, by a seed.

Each driver runs the product's own work under the lake's lease: it waits for the lease, recovers the checkpoints of its
host if another host has run the lake, and runs the chain; some run `oncelake recover`. At each step (a request to the
store, a file of a checkpoint, a part of a commit) any other driver may go on, be killed, or be paused for longer than a
term; and the answer to a put can get lost. The store honours the condition of a put; a commit is at the version after
the one that was looked at.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, cast

from pyspark.sql import SparkSession

from oncelake.common.errors import OncelakeError
from oncelake.engine import exclusive as work
from oncelake.engine import recover as recoveries
from oncelake.engine import runner as runs
from oncelake.engine import sources as stage_sources
from oncelake.engine.exclusive import Exclusive
from oncelake.exactly_once.lease import Lease
from oncelake.exactly_once.store_lease import RENEW, TERM, StoreLease
from oncelake.exactly_once.writers import spark as spark_writes
from tests.model.chain_model import Ending, Replaced, Silent, faults, on_model, replacing, survey_of
from tests.model.process import Died, Process, Texts
from tests.model.recovering import RecoverProcess, on_recovery
from tests.model.source_model import LOTS, lots, produce
from tests.support.lease_objects import Objects

HOSTS = ("one", "two", "three")
_STARTS, _STEPS = 6, 4_000
# How many steps a driver goes on before another one may, and how many seconds a pause lasts.
_TURNS = (1, 1, 2, 3, 8, 30, 200)
_PAUSES = (1.0, RENEW + 3, TERM + 2, 3 * TERM)
_AWAY = "the store does not answer"
# Why a stage may stop: a driver whose lease had ended committed a batch between its last check and this one's commit.
_CAUSES = (("away", _AWAY), ("overtaken", "another run of"), ("overtaken", "is replayed with another range"))
_LOST, _NOT_SENT, _PAUSED_AT_COMMIT, _RECOVERS = 0.04, 0.02, 0.1, 0.15


class ViolationError(Exception):
    """Raised when a line is in a table twice or never, or the lake does not go on."""


@dataclass
class Store:
    """What is outside the drivers: the files, the lease's objects, and the time.

    Attributes:
        chance, others: what is drawn; whether a driver recovers the lake, from the second one.
        kind: the source, a topic or files.
        texts: the tables, the input, and the checkpoints of each host.
        objects: the lease's objects.
        now: the seconds.
        counts: how often each event happened, and how the drivers ended.
    """

    chance: random.Random
    others: random.Random
    kind: str
    texts: Texts = field(default_factory=dict)
    objects: Objects = field(default_factory=Objects)
    now: float = 1000.0
    counts: Counter[str] = field(default_factory=Counter)


class Driver:
    """A process on a host, which goes on only when it is its turn.

    Attributes:
        store: what it works on.
        host: where it runs.
        process: what it sees.
        ending: how it ended; None before that.
        wakes: it does not go on before this time.
    """

    def __init__(self, store: Store, name: str, host: str, *, recovers: bool = False) -> None:
        self.store, self.host = store, host
        self.process = RecoverProcess(store.texts, name, f"host-{host}", before=self._wait, per_host=True)
        self.ending: Ending | None = None
        self.wakes = store.now
        self._recovers = recovers
        self._lease: StoreLease | None = None
        self._renews, self._renewed = False, 0.0
        self._turn, self._back = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True).start()

    def go_on(self) -> None:
        """Do one step."""
        for module in (runs, recoveries):
            setattr(module, "RUN_ID", self.process.name)  # noqa: B010
        self._turn.release()
        self._back.acquire()

    def kill(self) -> None:
        """Die at the present step."""
        self.process.die_at = self.process.steps
        while self.ending is None:
            self.go_on()

    def _run(self) -> None:
        self._turn.acquire()
        try:
            self._work()
            self.ending = Ending()
        except Died:
            self.ending = Ending("died")
        except OncelakeError as error:
            self.ending = Ending("died" if self.process.dead else type(error).__name__, str(error))
        except OSError as error:
            self.ending = Ending("away", str(error))
        except Exception as error:
            self.ending = Ending(type(error).__name__, str(error))
        for kind, text in _CAUSES:
            if self.ending.kind == "StageError" and text in self.ending.said:
                self.ending = replace(self.ending, kind=kind)
        self._back.release()

    def _work(self) -> None:
        chain, spark = survey_of(self.process, self.store.kind), cast(SparkSession, self.process)
        progress = cast(Any, Reporter())
        alone = Exclusive(chain, spark, lambda *_: progress, (), lambda _: None, threading.Event())
        if self._recovers:
            alone.recover((), lambda _: None, accept_loss=False, dry_run=False)
        else:
            alone.run(once=True, followers=(), failed={}, writers=())

    def _wait(self, number: int, what: str) -> None:
        """Let others go on before a step; then renew the lease, as a thread of the product does.

        A pause just before a commit is what commits must stand, so it is drawn more often than others.
        """
        del number
        if what.startswith("commit") and self.store.chance.random() < _PAUSED_AT_COMMIT:
            self.wakes = self.store.now + self.store.chance.choice(_PAUSES)
            self.store.counts["paused before a commit"] += 1
        self._back.release()
        self._turn.acquire()
        if self.process.dead or self._renews or self._lease is None:
            return
        self._renews = True
        if self.store.now - self._renewed > RENEW:
            try:
                self._lease.renew()
                self._lease.store.remove_before(self.store.objects.newest())
            except Exception:
                self.store.counts["renewal fails"] += 1
            self._renewed = self.store.now
        self._renews = False

    @contextmanager
    def hold(self, wait: float, say: Callable[[str], None]) -> Iterator[Lease]:
        """Hold the lake's lease, as `sole_writer` does."""
        lease = StoreLease(Requests(self), "s3://lake", self.process.name, lambda: self.store.now, self._sleep)
        with lease.held(wait, say):
            self._renewed, self._lease = self.store.now, lease
            try:
                yield Lease(on_store=lease)
            finally:
                self._lease = None

    def _sleep(self, seconds: float) -> None:
        self.wakes = self.store.now + seconds
        self.process.step("wait for the lease")


@dataclass(frozen=True)
class Requests:
    """The requests of a driver to the lease's objects; each is a step, and some answers get lost."""

    driver: Driver

    @property
    def _objects(self) -> Objects:
        return self.driver.store.objects

    def newest(self) -> int:
        self.driver.process.step("list the lease")
        return self._objects.newest()

    def read(self, number: int) -> str | None:
        self.driver.process.step("read the lease")
        return self._objects.read(number)

    def put(self, number: int, text: str) -> bool:
        chance = self.driver.store.chance
        self.driver.process.step(f"put lease {number}")
        if chance.random() < _NOT_SENT:
            raise OSError(_AWAY)
        is_free = self._objects.put(number, text) or self._objects.read(number) == text
        if chance.random() < _LOST:
            raise OSError(f"{_AWAY}: it has the number")
        return is_free

    def remove_before(self, number: int) -> None:
        self.driver.process.step("remove lower numbers of the lease")
        self._objects.remove_before(number)


class Reporter(Silent):
    """A display that counts batches."""

    batches = 0

    def __enter__(self) -> "Reporter":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@contextmanager
def at_version(frame: Any, path: str, version: int) -> Iterator[None]:
    """Let the next commit to a table be one version, or fail as a conflict, as `only_version` does on a store."""
    frame.process.following[path] = version
    try:
        yield
    finally:
        del frame.process.following[path]


@contextmanager
def _held(drivers: Mapping[str, Driver], process: Process, _: object, wait: Any, say: Any) -> Iterator[Lease]:
    with drivers[process.name].hold(wait.total_seconds(), say) as lease:
        yield lease


@contextmanager
def on_store(drivers: Mapping[str, Driver], process: RecoverProcess) -> Iterator[None]:
    """Replace what needs Spark or a server in the work under the lease."""
    replaced: Replaced = {
        work: {
            "preflight": lambda *_, **__: None,
            "passed_preflight": lambda _: False,
            "record_preflight": lambda _: None,
            "check_lake": lambda *_: None,
            "sole_writer": partial(_held, drivers),
            "set_spare_aside": lambda *_: [],
            "follow_settings": lambda *_: None,
            "keep_logs": lambda *_: [],
            "late_columns": lambda *_: (),
        },
        stage_sources: {"files_at": lambda _place, process: process},
        spark_writes: {"only_version": at_version},
        recoveries: {"RUN_ID": ""},
    }
    with on_model(process), on_recovery(process), replacing(replaced):
        yield


def play(seed: int, say: Callable[[str], None] | None = None) -> Counter[str]:
    """Play the sequence of a seed; return how often each event happened.

    Raises:
        ViolationError: a line is in a table twice or never, or the lake does not go on.
    """
    chance = random.Random(seed)
    store = Store(chance, random.Random(~seed), chance.choice(["kafka", "files"]))
    produce(store.texts, store.kind)
    drivers: dict[str, Driver] = {}
    with on_store(drivers, RecoverProcess(store.texts, "reader")):
        try:
            _play(store, drivers, say or (lambda _: None))
        finally:
            for driver in drivers.values():
                driver.kill()
    return store.counts


def _play(store: Store, drivers: dict[str, Driver], say: Callable[[str], None]) -> None:
    for _ in range(_STEPS):
        live = [driver for driver in drivers.values() if driver.ending is None]
        if len(drivers) == _STARTS and not live:
            break
        event, free = store.chance.random(), [host for host in HOSTS if all(driver.host != host for driver in live)]
        if len(drivers) < _STARTS and free and (not live or event < 0.12):
            name, host = f"driver {len(drivers) + 1}", store.chance.choice(free)
            recovers = store.others.random() < _RECOVERS
            drivers[name] = Driver(store, name, host, recovers=recovers)
            say(f"{store.now:.1f}: {name} starts on host {host}{' to recover the lake' if recovers else ''}")
        elif event < 0.16 and lots(store.texts) < len(LOTS):
            produce(store.texts, store.kind)
            say(f"{store.now:.1f}: more input")
        else:
            _let(store, live, event, say)
    for host in (*HOSTS, HOSTS[0]):
        if lots(store.texts) < len(LOTS):
            produce(store.texts, store.kind)
        while _last(store, drivers, host, say).kind == "away":
            pass
    if faults(store.texts):
        raise ViolationError(f"at the end: {faults(store.texts)}")


def _let(store: Store, live: list[Driver], event: float, say: Callable[[str], None]) -> None:
    """Let one of the live drivers go on, be paused, or be killed."""
    awake = [driver for driver in live if driver.wakes <= store.now]
    if not awake:
        store.now = min(driver.wakes for driver in live)
    elif event < 0.2:
        driver = store.chance.choice(live)
        driver.kill()
        store.counts["killed"] += 1
        say(f"{store.now:.1f}: {driver.process.name} is killed")
    elif event < 0.28:
        driver = store.chance.choice(awake)
        driver.wakes = store.now + store.chance.choice(_PAUSES)
        store.counts["paused"] += 1
        say(f"{store.now:.1f}: {driver.process.name} is paused until {driver.wakes:.1f}")
    else:
        _go_on(store, store.chance.choice(awake), store.chance.choice(_TURNS), say)


def _last(store: Store, drivers: dict[str, Driver], host: str, say: Callable[[str], None]) -> Ending:
    """Let a driver run alone, to its end; or until the store does not answer."""
    name = f"driver {len(drivers) + 1}, alone"
    driver = drivers[name] = Driver(store, name, host)
    while driver.ending is None:
        store.now = max(store.now, driver.wakes)
        _go_on(store, driver, 1, say)
    if driver.ending.kind not in ("done", "away"):
        raise ViolationError(f"{name} on host {host}: {driver.ending}")
    return driver.ending


def _go_on(store: Store, driver: Driver, steps: int, say: Callable[[str], None]) -> None:
    for _ in range(steps):
        if driver.ending is not None or driver.wakes > store.now:
            break
        driver.go_on()
        store.now += store.chance.random() * 0.2
    if driver.ending is None:
        return
    store.counts[driver.ending.kind] += 1
    if driver.ending.kind not in ("done", "died", "away", "overtaken", "LockedError"):
        raise ViolationError(f"{driver.process.name} on host {driver.host}: {driver.ending}")
    say(f"{store.now:.1f}: {driver.process.name} ends: {driver.ending.kind} {driver.ending.said}")
    wrong = faults(store.texts)
    if wrong.doubled or wrong.twice:
        raise ViolationError(f"{driver.process.name} ends with {driver.ending.kind}: {wrong}")
