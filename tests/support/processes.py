"""Wait until a process of the program has reached a certain point."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

# small batches, so that every run has many durable steps to be killed between
SMALL = ["source.max_bytes_per_batch=20000", "run.max_bytes_per_batch=20000", "run.trigger=0 seconds"]


def wait_for(process: subprocess.Popen[str], happened: Callable[[], bool], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if happened():
            return
        assert process.poll() is None, process.communicate()[0]
        assert began < until
        # an expensive check would take the cores from the process
        time.sleep(max(0.005, 4 * (time.monotonic() - began)))


def newest(directory: Path) -> int:
    names = (path.stem for path in directory.glob("*") if path.stem.isdigit()) if directory.exists() else ()
    return max(map(int, names), default=-1)
