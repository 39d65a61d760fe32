"""Draw sequences of steps from a seed."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from random import Random, SystemRandom

from tests.chaos.log_operations import ROTATIONS, TWINS
from tests.chaos.steps import During, Step

SEED = "ONCELAKE_CHAOS_SEED"
PLAIN = (b"a.log", b"b.log", b"c.log", b"sub/a.log", b"sub/deep/d.log", b"e.log.gz", b"sub/f.log.gz")
ODD = (
    b"a b.log",
    b"a%20b.log",
    b"a#b.log",
    b"a?b.log",
    b"a[b].log",
    b"a{b,c}.log",
    b"star*.log",
    b"back\\slash.log",
    b"new\nline.log",
    b" lead.log",
    b"caf\xc3\xa9.log",
    b"cafe\xcc\x81.log",
    b"\xf0\x9f\x94\xa5.log",
    b"latin\xe9.log",
    b"d\xe9r/inside.log",
    b"co:lon.log",
    b"~tilde",
    b"x=y.log",
    b"_k=v/part.log",
    b"_k=v.log",
    b"_metadata/m.log",
    b"_metadata.log",
    b"_common_metadata.d/n.log",
    b"_metadata._COPYING_/o.log",
    b"_hidden/h.log",
    b".dot/h.log",
    b"sub._COPYING_/h.log",
    b"under_score.log",
    b"upper.GZ",
    b"other.gzip",
    b"packed.bz2",
    b"dots...",
    b"n" * 250,
)
# dates: 1901, 1970, last year, tomorrow, 2200, 2400
DATES = (-2_150_000_000, 0, 1_760_000_000, 1_800_000_000, 7_258_118_400, 13_569_465_600)

_FILES = {
    "create": 30,
    "append": 6,
    "begin-line": 2,
    "truncate": 5,
    "replace": 6,
    "swap": 3,
    "swap-unseen": 2,
    "date": 6,
    "empty": 4,
    "delete": 6,
    "rename": 5,
    "rename-over": 3,
    "copy": 3,
    "link": 3,
    "loop": 1,
    "hide": 4,
    "unhide": 4,
    "away": 4,
    "back": 5,
    "pipe": 1,
    "allow": 2,
    "root-away": 1,
    "root-emptied": 1,
    "root-back": 3,
}
_TOPIC = {
    "send": 20,
    "commit": 5,
    "abort": 6,
    "begin": 4,
    "end": 4,
    "add-partition": 5,
    "delete-records": 8,
    "recreate": 3,
}
LOGS = (b"app.log", b"sub/web.log")
_TWIN_LOGS = tuple(twin + b"/job.log" for twin in TWINS)
_LOGS = {
    "append": 30,
    "rewrite": 6,
    "half": 5,
    "crash": 6,
    "rotate": 10,
    "pack": 8,
    "pack-keep": 6,
    "pack-half": 3,
    "repack": 4,
    "unpack": 5,
    "unpack-half": 2,
    "append-member": 5,
    "begin-member": 2,
    "end-member": 4,
    "restore": 4,
    "olddir": 5,
    "olddir-back": 4,
    "drop": 6,
    "deny": 4,
    "permit": 5,
    "delete": 3,
    "hide": 2,
    "unhide": 3,
    "away": 2,
    "back": 3,
    "date": 3,
    "root-away": 1,
    "root-emptied": 1,
    "root-back": 3,
}
# Copies are drawn if the settings say that the logs are rotated by copying them.
_COPIES = {"copy": 14, "append-copied": 10, "cut": 16}
_TWIN_LINES = {"append-twins": 20}
# The numbers of each operation on a log, and the values of each.
_LOG_NUMBERS = {
    "append": ("tag", "count"),
    "append-copied": ("tag", "count"),
    "append-twins": ("tag", "few"),
    "rewrite": ("tag", "few"),
    "half": ("tag",),
    "half-record": ("tag",),
    "rest-of-record": ("begun",),
    "crash": ("kept",),
    "pack": ("rotated", "form"),
    "pack-keep": ("rotated", "ending"),
    "pack-half": ("rotated", "ending"),
    "repack": ("rotated", "level"),
    "unpack": ("rotated",),
    "unpack-half": ("rotated",),
    "append-member": ("rotated", "tag", "few"),
    "begin-member": ("rotated", "tag", "few"),
    "end-member": ("rotated",),
    "restore": ("file",),
    "olddir": ("rotated", "way"),
    "olddir-back": ("rotated", "way"),
    "drop": ("dropped",),
    "deny": ("file",),
    "permit": ("file",),
    "date": ("date",),
    "hide": ("way",),
}
_ARGUMENTS = {
    "count": (1, 2, 3, 8, 30),
    "few": (1, 2, 8),
    "kept": (60, 80, 95, 99),
    "rotated": (1, 1, 1, 2),
    "file": (0, 0, 1, 1, 2),
    "dropped": (1, 1, 2, 3),
    "ending": (0, 1),
    "form": (0, 1, 2, 3),
    "way": (0, 1),
    "level": (0, 4, 8),
    "date": DATES,
}
# What must have happened to a log before an operation has anything to do.
_BEFORE = {
    "cut": "copy",
    "append-copied": "copy",
    "pack": "rotate",
    "pack-keep": "rotate",
    "pack-half": "rotate",
    "repack": "pack",
    "unpack": "pack",
    "unpack-half": "pack",
    "append-member": "pack",
    "begin-member": "pack",
    "end-member": "begin-member",
    "olddir": "rotate",
    "olddir-back": "olddir",
    "drop": "rotate",
    "permit": "deny",
    "unhide": "hide",
    "back": "away",
    "rotate": "append",
    "copy": "append",
    "crash": "append",
    "rewrite": "append",
}
_RECORDS = {"half-record": 6, "rest-of-record": 8}
_SETTINGS = {"remove": 2, "return": 3}
_WHOLE = {"create": 20, "append": 1, "replace": 1, "delete": 2, "rename": 1, "empty": 1}
_CHAIN = {"declare": 4, "watch": 6, "writer": 2}
_NUMBERS = {"declare": 3, "watch": 4, "writer": 3}
_TWO = ("rename", "rename-over", "copy", "link")
_COMMANDS = {
    "run": 30,
    "prove": 2,
    "prove-deep": 3,
    "prove-full": 1,
    "recover": 2,
    "recover-accept": 3,
    "rebuild": 3,
    "rebuild-accept": 2,
    "forget": 1,
}

_WHOLE_COMMANDS = {**_COMMANDS, "run": 40, "recover": 5, "forget": 6, "take-over": 14}


def draw(seed: int) -> list[Step]:
    """Draw one sequence; it begins with files, and ends with an undisturbed run."""
    drawn = _DrawFiles(Random(seed))
    steps = [drawn.operation("create") for _ in range(drawn.random.randint(2, 6))]
    for _ in range(drawn.random.randint(2, 4)):
        steps += [drawn.operation() for _ in range(drawn.random.randint(1, 5))]
        steps.append(drawn.command())
    return [*steps, Step("run")]


def draw_topic(seed: int) -> list[Step]:
    """Draw one sequence for a topic."""
    random = Random(seed)
    drawn = _DrawTopic(random)
    steps = [drawn.operation("send") for _ in range(random.randint(1, 3))]
    for _ in range(random.randint(2, 4)):
        steps += [drawn.operation() for _ in range(random.randint(1, 3))]
        steps.append(drawn.command())
    return [*steps, Step("run")]


def draw_logs(seed: int) -> list[Step]:
    """Draw one sequence for growing files."""
    return _DrawLogs(Random(seed)).sequence()


def draw_records(seed: int) -> list[Step]:
    """Draw one sequence for growing files with records of several lines."""
    return _DrawLogs(Random(seed), records=True).sequence()


def draw_sources(seed: int) -> list[Step]:
    """Draw one sequence for two sources of one lake; it ends with both in the settings."""
    drawn = _DrawSources(Random(seed))
    steps = [drawn.operation(verb) for verb in ("create", "append", "append")]
    for _ in range(drawn.random.randint(2, 4)):
        steps += [drawn.operation() for _ in range(drawn.random.randint(2, 5))]
        steps.append(drawn.command())
        steps += [drawn.change()] if drawn.random.random() < 0.5 else []
    return [*steps, Step("return", (), (0,)), Step("return", (), (1,)), Step("run")]


def draw_whole(seed: int) -> list[Step]:
    """Draw one sequence for the whole chain; it ends with the declared gold table and a run."""
    drawn = _DrawWhole(Random(seed))
    steps = [drawn.operation("create") for _ in range(drawn.random.randint(1, 3))]
    for _ in range(drawn.random.randint(3, 5)):
        steps += [drawn.operation() for _ in range(drawn.random.randint(1, 3))]
        steps += [drawn.change() for _ in range(drawn.random.randint(0, 2))]
        steps.append(drawn.command())
    return [*steps, Step("recover"), Step("take-over"), Step("run")]


class _Drawing(ABC):
    """Draws steps from a random generator.

    Attributes:
        random: the generator.
        stops: how a run or a stage may be ended.
        tag: the number of the last operation, which makes its lines unique.
    """

    stops: tuple[str, ...] = ("stop", "stop", "stop-unplanned")
    commands: Mapping[str, int] = _COMMANDS

    def __init__(self, random: Random) -> None:
        self.random = random
        self.tag = 0

    @abstractmethod
    def operation(self, verb: str | None = None) -> Step:
        """Draw an operation on the source."""

    def command(self) -> Step:
        """Draw a command; half of the runs are disturbed."""
        verb = self.weighed(self.commands)
        if not verb.startswith(("run", "rebuild", "take-over")) or self.random.random() < 0.5:
            return Step(verb)
        during = [self.during(verb) for _ in range(self.random.randint(1, 2))]
        return Step(verb, during=tuple(sorted(during, key=lambda each: each.batch)))

    def weighed(self, weights: Mapping[str, int]) -> str:
        """Draw a key by weight."""
        return self.random.choices(list(weights), list(weights.values()))[0]

    def during(self, verb: str) -> During:
        del verb
        moment = self.random.choice(("before", "writing", "after"))
        stop = self.random.choice((*self.stops, None, None, None, None))
        step = Step(stop) if stop else self.operation()
        return During(self.random.choice((0, 0, 0, 1, 1, 2)), moment, step)


class _DrawTopic(_Drawing):
    def operation(self, verb: str | None = None) -> Step:
        """Draw an operation on a topic."""
        verb = verb or self.weighed(_TOPIC)
        self.tag += 1
        partition = self.random.randrange(4)
        if verb in ("send", "commit", "abort", "begin"):
            return Step(verb, (), (partition, self.tag, self.random.randint(1, 8)))
        if verb == "delete-records":
            return Step(verb, (), (partition, self.random.choice((30, 60, 100))))
        if verb == "recreate":
            return Step(verb, (), (self.random.randint(1, 3),))
        return Step(verb, (), (self.random.randrange(2),) if verb == "end" else ())


class _DrawFiles(_Drawing):
    def __init__(self, random: Random) -> None:
        super().__init__(random)
        odd = random.choice((0, 0, 0, 1, 2))
        self._names = [*random.sample(PLAIN, 4 - odd), *random.sample(ODD, odd)]
        self._weights = _FILES

    def operation(self, verb: str | None = None) -> Step:
        """Draw an operation on the directory."""
        verb = verb or self.weighed(self._weights)
        names = tuple(self.random.sample(self._names, 2 if verb in _TWO else 1))
        self.tag += 1
        numbers: tuple[int, ...] = ()
        if verb in ("create", "append", "replace"):
            numbers = (self.tag, self.random.randint(1, 6))
        elif verb == "begin-line":
            numbers = (self.tag,)
        elif verb == "truncate":
            numbers = (self.random.choice((0, 1, 40, 80, 97)),)
        elif verb == "date":
            numbers = (self.random.choice(DATES),)
        elif verb == "allow":
            numbers = (self.random.choice((0, 0o644)),)
        elif verb == "hide":
            numbers = (self.random.randrange(3),)
        elif verb.startswith("root-"):
            names = ()
        return Step(verb, names, numbers)


class _DrawWhole(_DrawFiles):
    """Draws operations on a few plain files, and changes of the chain behind them."""

    commands = _WHOLE_COMMANDS
    stops = ("stop", "stop", "stop", "stop", "stop", "stop-unplanned", "stop-unplanned")

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._names = random.sample(PLAIN, 4)
        self._weights = _WHOLE

    def change(self) -> Step:
        """Draw another declaration of the gold table, another writer, or the stage that is disturbed."""
        verb = self.weighed(_CHAIN)
        return Step(verb, (), (self.random.randrange(_NUMBERS[verb]),))

    def during(self, verb: str) -> During:
        """Draw what happens; in a change of the gold table, it may be a kill at a file, or a run that goes on."""
        chance = self.random.random()
        if verb == "take-over" and chance < 0.6:
            return During(self.random.randrange(14), "step", Step("stop"))
        if verb == "take-over" and chance < 0.8:
            return During(self.random.randrange(2), self.random.choice(("before", "after")), Step("run"))
        return super().during(verb)


class _DrawLogs(_Drawing):
    """Draws operations on logs that are rotated in one way.

    Args:
        random: the generator.
        records: whether the log format puts several lines together.
        rotation: how the logs are rotated, by its number in `ROTATIONS`; None to draw it.
    """

    def __init__(self, random: Random, *, records: bool = False, rotation: int | None = None) -> None:
        super().__init__(random)
        self._rotation = random.randrange(len(ROTATIONS)) if rotation is None else rotation
        is_copied = ROTATIONS[self._rotation] == "copytruncate"
        has_twins = not is_copied and random.random() < 0.5
        self._names = (LOGS[0], *(_TWIN_LOGS if has_twins else ()), *LOGS)
        self._weights = {
            **_LOGS,
            **(_RECORDS if records else {}),
            **(_COPIES if is_copied else {}),
            **(_TWIN_LINES if has_twins else {}),
        }
        self._begun: dict[bytes, int] = {}
        self._drawn: set[tuple[str, bytes]] = set()

    def sequence(self) -> list[Step]:
        """Draw a sequence that begins with a log, and ends with an undisturbed run."""
        steps = [Step("rotation", (), (self._rotation,)), self.operation("append")]
        for _ in range(self.random.randint(2, 4)):
            steps += [self.operation() for _ in range(self.random.randint(1, 6))]
            steps.append(self.command())
        return [*steps, Step("run")]

    def operation(self, verb: str | None = None) -> Step:
        """Draw an operation on the logs."""
        verb = verb or self.weighed(self._weights)
        name = self.random.choice(self._names)
        while verb in _BEFORE and (_BEFORE[verb], name) not in self._drawn:
            verb = _BEFORE[verb]
        self._drawn |= {(verb, name), *((("rotate", name),) if verb == "copy" else ())}
        self.tag += 1
        numbers = tuple(self._number(argument, name) for argument in _LOG_NUMBERS.get(verb, ()))
        if verb.startswith("half"):
            self._begun[name] = self.tag
        if verb in ("date", "hide", "unhide", "away", "back", "delete"):
            name = self.random.choice((name, name + b".1", name + b".2", name + b".1.gz"))
        names = _TWIN_LOGS if verb == "append-twins" else () if verb.startswith("root-") else (name,)
        return Step(verb, names, numbers)

    def _number(self, argument: str, name: bytes) -> int:
        """Draw an argument of an operation on a log."""
        if argument == "begun":
            return self._begun.get(name, self.tag)
        return self.tag if argument == "tag" else self.random.choice(_ARGUMENTS[argument])


class _DrawSources(_Drawing):
    """Draws operations of both sources, and changes of the settings."""

    stops = ("stop", "stop", "fail", "fail", "stop-unplanned")

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._each = {
            b"access_log": _DrawFiles(random),
            b"tail": _DrawLogs(random, rotation=ROTATIONS.index("copytruncate")),
        }

    def operation(self, verb: str | None = None) -> Step:
        """Draw an operation on one of the sources."""
        of = b"access_log" if verb == "create" or (verb is None and self.random.random() < 0.4) else b"tail"
        step = self._each[of].operation(verb)
        while step.verb.startswith("root-"):
            step = self._each[of].operation()
        return replace(step, names=tuple(of + b"/" + name for name in step.names))

    def change(self) -> Step:
        """Draw a change of the settings."""
        return Step(self.weighed(_SETTINGS), (), (self.random.randrange(2),))


def seeds(seconds: float) -> Iterator[int]:
    """Count up from a random seed, or from the configured one, until the time is over."""
    first, until = int(os.environ.get(SEED) or SystemRandom().randrange(10**9)), time.monotonic() + seconds
    while time.monotonic() < until:
        yield first
        first += 1
