"""This is where a directory is removed, or a process killed, when this process is gone, however it ended.

A notebook's kernel is ended by a signal as often as not, and then nothing that it registered is called. So another
process waits for its end: the pipe between the two closes with it, whatever happens.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The JVM ends a moment after Python and may write until then: try for so many half seconds.
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
    _waiting.append(_watch(_WAIT_AND_REMOVE, str(directory)))  # its pipe stays open for as long as this process lives


@contextmanager
def removed_afterwards(directory: Path) -> Iterator[Path]:
    """Remove a directory at the block's end, or when this process is gone before that."""
    waiting = _watch(_WAIT_AND_REMOVE, str(directory))
    try:
        yield directory
    finally:
        waiting.communicate()  # closes the pipe, and waits until it is done


def kill_afterwards(child: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Kill a process that was started here when this process has ended.

    Returns:
        What waits for that; to be killed before the child is stopped, as its number may then be another process's.
    """
    return _watch(_WAIT_AND_KILL, str(child.pid))


def _watch(program: str, argument: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-c", program, argument],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # what ends this process's group must not end that one
        cwd="/",
    )
