"""The `oncelake` processes that a crash test kills: start them, find the lock holder, kill the process group."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from oncelake.common.errors import OncelakeError
from oncelake.common.lake import Lake
from oncelake.common.wording import duration
from oncelake.exactly_once.lease import writer

POLL = 0.003
# How many seconds a process may take to acquire the lake's lock: Spark's start on a busy machine.
PATIENCE = 240.0
_SHOWN = 4000


@dataclass(frozen=True)
class Victim:
    """One `oncelake` process, the leader of its own process group, and the file with its output."""

    process: subprocess.Popen[bytes]
    output: Path

    def said(self) -> str:
        """Return the end of its output."""
        return self.output.read_text(errors="replace")[-_SHOWN:].strip()

    def kill(self) -> None:
        """Kill the process and its children with SIGKILL: like a machine failure, it leaves no time to clean up."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Victims:
    """The processes of one crash test; the end of the `with` block kills all of them.

    Attributes:
        conf: the configuration file of all processes; see `Lakehouse.open`.
        sets: settings that override it.
        lake: the lake; its lock file names the process that holds the lock.
        directory: for their output and their temporary files, which a killed process leaves behind.
        java: options of their JVMs.
    """

    conf: Path | None
    sets: Sequence[str]
    lake: Lake
    directory: Path
    java: Sequence[str] = ()
    alive: list[Victim] = field(default_factory=list)
    started: int = 0

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for victim in self.alive:
            victim.kill()

    def start(self, *command: str, sets: Sequence[str] = ()) -> Victim:
        """Start `oncelake`; its temporary files and those of its JVM are below the directory."""
        self.started += 1
        output = self.directory / f"output-{self.started}"
        named = [] if self.conf is None else ["-c", str(self.conf)]
        flags = [*named, *(part for setting in (*self.sets, *sets) for part in ("--set", setting))]
        with output.open("wb") as out, _signals_held_back():
            process = subprocess.Popen(
                [sys.executable, "-m", "oncelake", *command, *flags],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **self._environment()},
            )
            victim = Victim(process, output)
            self.alive.append(victim)
        return victim

    def holder(self) -> Victim:
        """Wait until one of the processes holds the lake's lock, and return that process."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            self.check()
            holder = writer(self.lake) or ""
            for victim in self.alive:
                if re.search(rf"process {victim.process.pid}\b", holder):
                    return victim
            time.sleep(POLL)
        raise OncelakeError(f"no process got the lake's lock within {duration(int(PATIENCE))}: {self.alive[0].said()}")

    def kill(self, victim: Victim) -> None:
        """Kill one of the processes."""
        victim.kill()
        self.alive.remove(victim)

    def finish(self, victim: Victim) -> int:
        """Wait until a process exits by itself, and return its exit code."""
        code = victim.process.wait()
        self.alive.remove(victim)
        return code

    def check(self) -> None:
        """Raise OncelakeError if a process exited that was not killed."""
        for victim in self.alive:
            code = victim.process.poll()
            if code is not None:
                raise OncelakeError(f"a process that was not killed exited with code {code}: {victim.said()}")

    def _environment(self) -> Mapping[str, str]:
        directory = str(self.directory)
        options = (f'-Djava.io.tmpdir="{directory}"', "-XX:-UsePerfData", *self.java)
        existing = os.environ.get("SPARK_SUBMIT_OPTS", "")
        return {
            "TMPDIR": directory,
            "SPARK_LOCAL_DIRS": directory,
            "SPARK_SUBMIT_OPTS": " ".join([existing, *options]).strip(),
        }


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Block signals such as Ctrl-C until a started process is registered, so that none is left running."""
    signals = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
