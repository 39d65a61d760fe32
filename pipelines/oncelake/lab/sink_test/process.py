"""Run a step of a test in a forked process, which kills, stops or fails itself before a line of the sink's code."""

import os
import pickle
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from oncelake.lab.sink_test.made import MadeError

# Seconds that a step may take.
LIMIT = 60.0
_POLL = 0.01
# A line of code: its file and number.
Line = tuple[str, int]


@dataclass(frozen=True)
class Halt:
    """Where a process ends, stops or fails.

    Attributes:
        at: the number of the line, in the order in which the lines are run; None for nowhere.
        signal: SIGKILL or SIGSTOP; None to raise MadeError there instead.
        places: the directories of the sink's own code.
    """

    at: int | None
    signal: signal.Signals | None
    places: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """How a step ended.

    Attributes:
        value: what it returned.
        error: the error that it raised, as text; empty without one.
        lines: the lines of the sink's own code that it ran.
        killed: True if a signal ended it.
        modules: the modules that it imported.
    """

    value: Any = None
    error: str = ""
    lines: tuple[Line, ...] = ()
    killed: bool = False
    modules: tuple[str, ...] = ()


@dataclass
class Step:
    """A forked process that runs one function; the end of the `with` block kills it.

    Attributes:
        work: the function; what it returns must be picklable.
        halt: where the process ends or stops itself.
    """

    work: Callable[[], Any]
    halt: Halt | None = None
    _pid: int = field(default=0, init=False)
    _read: int = field(default=-1, init=False)
    _text: bytearray = field(default_factory=bytearray, init=False)

    def __enter__(self) -> Self:
        self._read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:  # nothing here may return into the parent's code
            try:
                os.close(self._read)
                os.dup2(2, 1)  # what a sink prints is no result of the test
                _send(write, _run(self.work, self.halt))
            finally:
                os._exit(0)
        os.close(write)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pid:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
            self._pid = 0
        os.close(self._read)

    def kill(self) -> None:
        """Kill the process."""
        os.kill(self._pid, signal.SIGKILL)

    def go_on(self) -> None:
        """Let a stopped process continue."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGCONT)

    def has_stopped(self) -> bool:
        """Wait until the process stops itself or ends; return True if it has stopped."""
        until = time.monotonic() + LIMIT
        while time.monotonic() < until:
            self._receive(_POLL)
            done, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
            if done and os.WIFSTOPPED(status):
                return True
            if done:
                self._pid = 0
                return False
        return False

    def outcome(self, limit: float = LIMIT) -> Outcome | None:
        """Return how the process ended; None if it has not ended within some seconds."""
        until = time.monotonic() + limit
        while self._receive(max(0.0, min(0.1, until - time.monotonic()))):
            if time.monotonic() >= until:
                return None
        if self._pid:
            os.waitpid(self._pid, 0)
            self._pid = 0
        ended: Outcome = pickle.loads(self._text) if self._text else Outcome(killed=True)
        for name in ended.modules:  # so that later processes need not import them again
            with suppress(Exception):
                import_module(name)
        return ended

    def _receive(self, seconds: float) -> bool:
        """Read what the process has sent; return False at its end."""
        with selectors.DefaultSelector() as selector:  # select() itself refuses a descriptor above 1,023
            selector.register(self._read, selectors.EVENT_READ)
            if not selector.select(seconds):
                return True
        part = os.read(self._read, 1 << 16)
        self._text += part
        return bool(part)


def run(work: Callable[[], Any], halt: Halt | None = None) -> Outcome:
    """Run a function in a process of its own, and return how it ended."""
    with Step(work, halt) as step:
        return step.outcome() or Outcome(error=f"it did not end within {LIMIT:.0f} seconds")


def _run(work: Callable[[], Any], halt: Halt | None) -> Outcome:
    seen: list[Line] = []
    known, value, failed = set(sys.modules), None, ""
    try:
        with _traced(halt, seen):
            value = work()
    except BaseException as error:
        failed = f"{type(error).__name__}: {error}"
    return Outcome(value, failed, tuple(seen), modules=tuple(name for name in sys.modules if name not in known))


def _send(write: int, outcome: Outcome) -> None:
    with os.fdopen(write, "wb") as pipe:
        pickle.dump(outcome, pipe)


@contextmanager
def _traced(halt: Halt | None, seen: list[Line]) -> Iterator[None]:
    """Record each line of the sink's own code before it runs; send the signal before the line that is meant."""
    if halt is None:
        yield
        return

    def line(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            if len(seen) == halt.at:
                if halt.signal is None:
                    raise MadeError("an error made by the test")
                os.kill(os.getpid(), halt.signal)
            seen.append((frame.f_code.co_filename, frame.f_lineno))
        return line

    def call(frame: FrameType, event: str, _: object) -> Any:
        del event
        return line if str(Path(frame.f_code.co_filename).parent) in halt.places else None

    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(None)
