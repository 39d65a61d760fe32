"""Take guards out of copies of the tree, and check that each of a guard's tests fails."""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.guards import tree
from tests.guards.edits import edited
from tests.guards.guard import Guard
from tests.guards.tags import EntryError, files

_WORKER = Path(__file__).with_name("worker.py")
# seconds that a process that runs tests has to end
PATIENCE = 30


@dataclass(frozen=True)
class Verdict:
    """The result of taking a guard out.

    Attributes:
        red: whether each of its tests failed.
        said: why not, in one line.
        seconds: how long it took.
    """

    guard: Guard
    red: bool
    said: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        """Format a line of the table."""
        said = f": {self.said}" if self.said else ""
        return f"{'red' if self.red else 'NOT RED':8}{self.seconds:6.1f} s  {self.guard.tag}: {self.guard.name}{said}"


@dataclass
class Worker:
    """A copy of the tree, and the process that runs tests there.

    Attributes:
        scratch: a directory for the copy and for what tests write.
        spark: whether one Spark session is kept for all runs.
    """

    scratch: Path
    spark: bool
    _process: subprocess.Popen[str] | None = None

    @property
    def root(self) -> Path:
        """Return the copy."""
        return self.scratch / "tree"

    @cached_property
    def files(self) -> Mapping[str, str]:
        """Return the file of each tag in the copy."""
        return files(self.root)

    def run(self, tests: Sequence[str], file: str = "", source: str = "") -> dict[str, Any]:
        """Run tests with one file changed.

        Raises:
            EntryError: the process ended.
        """
        process = self._process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps({"tests": list(tests), "file": file, "source": source}) + "\n")
            process.stdin.flush()
        answer = process.stdout.readline()
        seen = dict(json.loads(answer)) if answer else {}
        if seen.get("interrupted", True):  # perhaps in a call of the JVM: its next answer would belong to that call
            self.end()
        if not seen:
            raise EntryError(f"the process that runs the tests ended with {process.returncode}")
        return seen

    def end(self) -> None:
        """End the process; the next run starts another one."""
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _start(self) -> subprocess.Popen[str]:
        places = [str(self.scratch / "worker.log"), str(self.scratch / "tmp")]
        return subprocess.Popen(
            [sys.executable, "-P", str(_WORKER), *places, *(["--spark"] if self.spark else [])],
            cwd=self.root,
            env=tree.environment(self.root),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


@contextmanager
def worker(root: Path, scratch: Path, *, spark: bool) -> Iterator[Worker]:
    """Copy a tree for a process that runs tests in it."""
    working = Worker(scratch, spark)
    tree.copy(root, working.root)
    try:
        yield working
    finally:
        working.end()


def try_out(guard: Guard, worker: Worker) -> Verdict:
    """Take one guard out, run its tests, and put it back."""
    began = time.monotonic()
    try:
        file = worker.files.get(guard.tag, "")
        if not file:
            raise EntryError(f"no line has the tag {guard.tag}")
        source = edited((worker.root / file).read_text(encoding="utf-8"), guard.tag, guard.off)
        seen = worker.run(guard.ids, file, source)
    except EntryError as error:
        return Verdict(guard, red=False, said=f"the entry does not fit the code: {error}")
    said = "; ".join(seen["broken"]) or _stayed_green(guard, seen)
    return Verdict(guard, not said, said, time.monotonic() - began)


def _stayed_green(guard: Guard, seen: dict[str, Any]) -> str:
    green = [each for each in guard.ids if not _any(each, seen["failed"])]
    return f"without it, {', '.join(green)} still pass" if green else ""


def _any(asked: str, tests: Iterable[str]) -> bool:
    """Return whether a test, or one of its parametrized forms, is in a set."""
    return any(test == asked or test.startswith(f"{asked}[") for test in tests)


@dataclass
class Trial:
    """A run over guards, by two processes: one with Spark, one without.

    Attributes:
        root: the tree that is copied.
        say: receives each verdict when it is known.
    """

    root: Path
    say: Callable[[Verdict], None]
    verdicts: list[Verdict] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, guards: Iterable[Guard]) -> list[Verdict]:
        """Try every guard, and return the verdicts in the order in which they came."""
        guards = list(guards)
        lots = {spark: [guard for guard in guards if guard.needs_spark == spark] for spark in (True, False)}
        with tempfile.TemporaryDirectory(prefix="guards-") as scratch:
            threads = [
                threading.Thread(target=self._all, args=(lot, Path(scratch) / str(spark)), kwargs={"spark": spark})
                for spark, lot in lots.items()
                if lot
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return self.verdicts

    def _all(self, guards: list[Guard], scratch: Path, *, spark: bool) -> None:
        with worker(self.root, scratch, spark=spark) as working:
            failing = _failing_before(guards, working)
            for guard in guards:
                before = next((failing[each] for each in guard.ids if each in failing), "")
                verdict = Verdict(guard, red=False, said=before) if before else try_out(guard, working)
                with self._lock:
                    self.verdicts.append(verdict)
                    self.say(verdict)


def _failing_before(guards: list[Guard], working: Worker) -> dict[str, str]:
    """Run all tests with every guard in place, and return those that do not pass."""
    ids = list(dict.fromkeys(each for guard in guards for each in guard.ids))
    try:
        seen = working.run(ids)
    except EntryError as error:
        return dict.fromkeys(ids, str(error))
    failing = {each: f"{each} fails with the guard in place" for each in ids if _any(each, seen["failed"])}
    for said in seen["broken"]:
        failing |= dict.fromkeys([each for each in ids if each in said] or ids, said)
    return failing
