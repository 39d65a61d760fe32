"""Clean up after this process, however it ends: remove a directory, or kill a child process.

A notebook's kernel is often ended by a signal, and then Python calls none of its exit handlers. So a second process
waits on a pipe: the pipe closes when this process ends, no matter how.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The JVM ends shortly after Python and may still write until then: try at most this many times, every half second.
_TRIES = 60
_WAIT_AND_REMOVE = f"""
import os, shutil, sys, time
sys.stdin.read()
for _ in range({_TRIES}):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not os.path.exists(sys.argv[1]):
        break
    time.sleep(0.5)
"""
_WAIT_AND_KILL = """
import os, signal, sys
sys.stdin.read()
os.kill(int(sys.argv[1]), signal.SIGKILL)
"""
_waiting: list[subprocess.Popen[bytes]] = []


def remove_afterwards(directory: Path) -> None:
    """Remove a directory when this process has ended."""
    _waiting.append(_watch(_WAIT_AND_REMOVE, str(directory)))  # the list keeps the pipe open until this process ends


@contextmanager
def removed_afterwards(directory: Path) -> Iterator[Path]:
    """Remove a directory at the end of the block, or when this process ends before that."""
    waiting = _watch(_WAIT_AND_REMOVE, str(directory))
    try:
        yield directory
    finally:
        waiting.communicate()  # closes the pipe, and waits until the directory is removed


def kill_afterwards(child: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Kill a child process when this process has ended.

    Returns:
        The waiting process. Kill it before you stop the child: afterwards another process can get the child's number.
    """
    return _watch(_WAIT_AND_KILL, str(child.pid))


def _watch(program: str, argument: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-c", program, argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a signal to this process's group must not end the waiting process
        cwd="/",
    )
