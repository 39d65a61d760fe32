"""This is where a lake on a local disk is kept to one writer.

The JVM holds the lock, not Python: after Python was killed the JVM lives on for seconds and could still
commit, and the lock goes with it. Other stores have no such lock; there Delta's own check decides
between two writers.
"""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipelines.errors import ConfigError, LockedError
from pipelines.jvm import jvm
from pipelines.lake import Lake, is_local

NAME = ".oncelake.lock"


@contextmanager
def sole_writer(spark: SparkSession, lake: Lake, wait: timedelta) -> Iterator[None]:
    """Hold the lake's lock; wait a little for a run that is just ending.

    Raises:
        LockedError: another process holds the lake.
        ConfigError: the lake's directory cannot be made.
    """
    if not is_local(lake.root):
        yield
        return
    try:
        Path(lake.root).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"lake.root {lake.root} cannot be made ({error.strerror}); name a directory that this process may write"
        ) from None
    path = Path(lake.root) / NAME
    file: Any = jvm(spark).java.io.RandomAccessFile(str(path), "rw")
    try:
        _acquire(file, path, wait)
        file.setLength(0)
        file.writeBytes(f"process {os.getpid()} on {socket.gethostname()}")
        yield
    finally:
        file.close()


def _acquire(file: Any, path: Path, wait: timedelta) -> None:
    until = time.monotonic() + wait.total_seconds()
    while file.getChannel().tryLock() is None:
        if time.monotonic() >= until:
            holder = path.read_text(encoding="utf-8", errors="replace") or "another process"
            raise LockedError(
                f"{path.parent} is being written by {holder}; one process at a time may write a lake. "
                "Stop that one, or wait for its end"
            )
        time.sleep(0.2)
