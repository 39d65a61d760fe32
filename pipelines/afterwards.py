"""This is where a directory is removed when this process is gone, however it ended.

A notebook's kernel is ended by a signal as often as not, and then nothing that it registered is called. So another
process waits for its end: the pipe between the two closes with it, whatever happens.
"""

import subprocess
import sys
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
_waiting: list[subprocess.Popen[bytes]] = []


def remove_afterwards(directory: Path) -> None:
    """Remove a directory when this process has ended."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _WAIT_AND_REMOVE, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # what ends this process's group must not end that one
        cwd="/",
    )
    _waiting.append(process)  # its end of the pipe is to stay open for as long as this process lives
