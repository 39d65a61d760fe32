"""Prepare a machine for Spark at the first use: the Java libraries, our Java classes and the archive of Java's classes.

It takes a minute or two, once for each version of Java, Spark and oncelake. Only the libraries are necessary. Without
our classes, each file takes some milliseconds longer; without the archive, each start takes some seconds longer.
"""

import fcntl
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from oncelake.common.errors import OncelakeError
from oncelake.common.spark import class_data, compiled, jars
from oncelake.common.spark.java import java_command
from oncelake.common.spark.launch import java_output_to
from oncelake.common.terminal import own_console

LOCK = "set-up.lock"
# The demo, which writes the archive, numbers its parts.
_PARTS_OF_DEMO = 8
_PARTS = 2 + _PARTS_OF_DEMO
# A reason why something could not be prepared; as long as its file exists, no start tries again.
_FAILED = ".failed"

# A busy machine takes minutes; the parts have limits of their own, below this one.
PATIENCE = 3600.0
_POLL = 0.2

Step = Callable[[str, int], None]


def prepare(*, again: bool = False) -> None:
    """Prepare what is missing; show the progress, and warn of what failed. Of two processes, one does the work.

    Args:
        again: True to try again what failed before.

    Raises:
        ConfigError: there is no Java, or it is another version.
        OncelakeError: the libraries could not be downloaded, or the cache directory cannot be written, or another
            process that downloads them does not end.
    """
    if class_data.is_recording():
        return
    java_command()
    if _is_ready(again=again):
        return
    try:
        jars.cache_home().mkdir(parents=True, exist_ok=True)
        lock = (jars.cache_home() / LOCK).open("a")
    except OSError as error:
        if jars.are_here():
            return
        raise OncelakeError(
            f"the Java libraries cannot be kept: {error.strerror}: {error.filename}; set XDG_CACHE_HOME to a directory "
            "that this process may write to"
        ) from None
    with lock, _shown() as step:
        if not _wait_for(lock.fileno(), step):
            held = f"another process has prepared this machine for {PATIENCE:.0f} s, and holds {lock.name}"
            if not jars.are_here():
                raise OncelakeError(f"{held}; end it (fuser {lock.name} shows its number), then run again")
            _warn(f"{held}; going on without what it prepares")
        elif not _is_ready(again=again):
            _prepare(step)


def compiles_at_the_start() -> bool:
    """Return True if the next start of oncelake's own Spark first compiles our Java classes."""
    return not _is_tried(compiled.jar())


def why_not_compiled() -> str | None:
    """Return why our Java classes could not be compiled at the first use; None if they could, or it is to come."""
    failed = compiled.jar().with_suffix(_FAILED)
    return failed.read_text(encoding="utf-8") if failed.exists() and not compiled.jar().exists() else None


def _is_tried(path: Path) -> bool:
    return path.exists() or path.with_suffix(_FAILED).exists()


def _is_ready(*, again: bool) -> bool:
    return jars.are_here() and all(
        path.exists() if again else _is_tried(path) for path in (compiled.jar(), class_data.archive())
    )


def _prepare(step: Step) -> None:
    step("downloading the Java libraries", 0)
    jars.class_path()
    step("compiling", 1)
    if not compiled.jar().exists():
        _remember(
            compiled.jar(), _compile(), "oncelake's Java classes could not be compiled", "each file takes some ms"
        )
    step("archiving Java's classes", 2)
    if not class_data.archive().exists():
        heard = class_data.write(lambda line: _hear(line, step))
        _remember(class_data.archive(), heard, "no archive of Java's classes", "each start takes some seconds")
    step("done", _PARTS)


def _compile() -> str | None:
    try:
        with java_output_to(Path(os.devnull)):
            compiled.write()
    except (OncelakeError, Py4JError, PySparkException, OSError) as error:
        return str(error).splitlines()[0]
    return None


def _remember(path: Path, failed: str | None, what: str, cost: str) -> None:
    if failed is None:
        path.with_suffix(_FAILED).unlink(missing_ok=True)
        return
    path.with_suffix(_FAILED).write_text(failed, encoding="utf-8")
    _warn(f"{what} ({failed}); {cost} longer. To try again: python -m oncelake.set_up")


def _warn(text: str) -> None:
    print(f"oncelake: warning: {text}", file=sys.stderr)


def _hear(line: str, step: Step) -> None:
    part = re.match(r"(\d)\. ", line)
    if part is not None:
        step("archiving Java's classes", 2 + int(part[1]) - 1)


def _wait_for(lock: int, step: Step) -> bool:  # guard: one-process-prepares-machine
    """Lock the preparation; return False if another process has held the lock for `PATIENCE` seconds."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            step("waiting for another process that does it", 0)
        else:
            return True
        if time.monotonic() > until:  # guard: wait-for-preparation-bounded
            return False
        time.sleep(_POLL)


@contextmanager
def _shown() -> Iterator[Step]:
    """Yield what shows a step: a bar on a terminal, otherwise one line at the beginning."""
    with own_console() as console:
        if console is None:
            print(
                "oncelake: the first use prepares this machine, once: Java libraries and an archive of Java's classes "
                "(a minute or two)",
                file=sys.stderr,
                flush=True,
            )
            yield lambda _text, _done: None
            return
        columns = (TextColumn("first use:"), BarColumn(24), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as bar:
            task = bar.add_task("", total=_PARTS)
            yield lambda text, done: bar.update(task, description=text, completed=done)
