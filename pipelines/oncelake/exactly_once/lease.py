"""The lock that keeps a lake on a local disk to one writer, and the holder's check that it still holds it.

The JVM and Python both commit, so each locks its own byte of the lock file, and a start needs both bytes. After Python
is killed, the JVM lives on for seconds and could still commit. A Python process that was stopped while its JVM died
could commit when it continues. So the lake is free only when both have ended.

A lock is on a file, not on its name: a process that removes the file can lock a new file with that name. So the holder
writes its identity into the file, and checks before each batch that the name still leads to its own file. A lake
on S3 has a lease in place of the lock, see `store_lease.py`; the lock is then on the host's own checkpoints. On other
stores, Delta's own conflict check and the commits of the other run decide between two writers.
"""

import errno
import fcntl
import os
import socket
import struct
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import IO

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, LockedError
from oncelake.common.lake import Lake, is_local
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.s3 import has_lease
from oncelake.exactly_once.files import lines_of
from oncelake.exactly_once.store_lease import S3LeaseStore, StoreLease

NAME = ".oncelake.lock"
# Written into the lock file if the file system has no hard links, which commits need; `doctor` reads it from there.
_NO_LINKS = "no hard links"
# Databricks' volumes look like local files and have no locks.
_VOLUMES = "/Volumes/"
# The bytes of the lock file: one for the JVM, one for Python. Older versions lock the whole file in the JVM.
_JVM, _PYTHON = 0, 1
# A lock of the open file, not of the process: other handles of the same file may be closed without losing it.
_SET, _GET = (getattr(fcntl, f"F_OFD_{name}", getattr(fcntl, f"F_{name}")) for name in ("SETLK", "GETLK"))
# The errors of a lock that another process holds.
_HELD = frozenset({errno.EAGAIN, errno.EACCES})
# The layout of this system's `struct flock`, the index of the lock type in it, and that of the first byte.
_FLOCK, _KIND, _START = ("qqihh", 3, 0) if sys.platform == "darwin" else ("hhqqi", 0, 2)


@dataclass(frozen=True)
class Lease:
    """The right to write a lake, as long as its lock file is the file that was locked.

    Attributes:
        path: the lock file; None on a store without locks.
        text: the holder's text in the lock file: its identity, and a line that is unique to this start.
        identity: the file's device and inode, which no other file has while this one is open.
        on_store: the lease on a lake on S3; None elsewhere.
    """

    path: Path | None = None
    text: str = ""
    identity: tuple[int, int] = (0, 0)
    on_store: StoreLease | None = None

    def check(self) -> None:
        """Raise LockedError if this process no longer holds the lake; costs two reads of one small file.

        Raises:
            LockedError: the lock file was removed, replaced or written by another process, or another driver has the
                lease.
        """
        if self.on_store is not None:
            self.on_store.check()  # guard: lease-checked-with-lock
        # guard: lock-file-names-holder
        if self.path is None or (_identity(self.path) == self.identity and _text(self.path) == self.text):
            return
        holder = _holder(self.path)
        now = f"the holder is now {holder}" if holder else "it now has no holder"
        raise LockedError(  # guard: expired-lease-stops-holder
            f"this process no longer holds the lock of {self.path.parent}: {self.path.name} was removed or replaced, "
            f"and {now}. This process stops and changes nothing more. Make sure that no other process writes the lake, "
            "then start again"
        )


@contextmanager
def sole_writer(
    spark: SparkSession | None, lake: Lake, wait: timedelta, say: Callable[[str], None] = lambda _: None
) -> Iterator[Lease]:
    """Hold the lake's lock, or its lease on S3; wait up to `wait` for a run that is just ending.

    Args:
        spark: the session whose JVM writes the lake too; None if no JVM does.
        lake: the lake.
        wait: how long to wait for another process.
        say: called with one line if the end of a lease's term is waited for.

    Raises:
        LockedError: another process holds the lake.
        ConfigError: the lake's directory cannot be created, or its file system has no locks.
    """
    if spark is not None and has_lease(spark, lake):
        own = Lake(lake.checkpoints, lake.checkpoints)
        lease = StoreLease(S3LeaseStore(spark, lake.lease), lake.root, _process())
        with (
            # guard: one-process-on-checkpoints
            sole_writer(spark, own, wait) if lake.per_host else nullcontext(Lease()) as lock,
            lease.held(wait.total_seconds(), say),
        ):
            yield replace(lock, on_store=lease)
        return
    if not has_lock(lake):
        yield Lease()
        return
    try:
        Path(lake.root).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{lake.root} cannot be created ({error.strerror}); name a directory that this process may write, with "
            "lake.root, or with checkpoints for a lake on S3"
        ) from None
    path = Path(lake.root) / NAME
    text = who(path.parent)
    with _acquired(spark, path, text, time.monotonic() + wait.total_seconds()):
        yield Lease(path, text, _identity(path) or (0, 0))


def has_lock(lake: Lake) -> bool:
    """Return True if a lake is on a store with locks, where the lock holder can be found."""
    return is_local(lake.root) and not lake.root.startswith(_VOLUMES)


def writer(lake: Lake) -> str | None:
    """Return the lock holder, such as `process 123 on host`; None if the lock is free. Takes no lock."""
    path = Path(lake.root) / NAME
    try:
        with path.open("rb") as file:
            answer = fcntl.fcntl(file, _GET, _flock(start=0, length=0))
    except OSError:
        return None
    is_held = struct.unpack_from(_FLOCK, answer)[_KIND] != fcntl.F_UNLCK
    return (_holder(path) or "another process") if is_held else None


def writing(lake: Lake) -> str | None:
    """Return the lock holder; an empty string if the lock is free, None on a store without locks."""
    return writer(lake) or "" if has_lock(lake) else None


def who(directory: Path) -> str:
    """Return the text that a holder writes into the lock file of a directory."""
    own = (_process(), uuid.uuid4().hex)
    return "".join(f"{line}\n" for line in (*own, *(() if _has_links(directory) else (_NO_LINKS,))))


def _process() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


def links_are_missing(lake: Lake) -> bool:
    """Return True if the last lock holder found no hard links on the lake's file system."""
    return _NO_LINKS in (_text(Path(lake.root) / NAME) or "").splitlines()


def _has_links(directory: Path) -> bool:
    """Return True if a directory's file system supports hard links; creates and removes a test file."""
    try:
        with tempfile.NamedTemporaryFile(dir=directory, prefix=f"{NAME}.") as file:
            link = Path(f"{file.name}.link")
            link.hardlink_to(file.name)
            link.unlink()
    except OSError:
        return False
    return True


@contextmanager
def _acquired(spark: SparkSession | None, path: Path, text: str, until: float) -> Iterator[None]:
    """Lock the file that the name leads to, in the JVM and here; try again if it was replaced meanwhile.

    Raises:
        LockedError: another process holds one of the locks until the time is up.
        ConfigError: the file system has no locks.
    """
    while True:
        with path.open("a+b") as own, _by_jvm(spark, path) if spark else nullcontext(_lock(own, _JVM)) as locked:
            if locked and _lock(own, _PYTHON):  # guard: python-holds-lock-too
                own.truncate(0)
                own.write(text.encode())
                own.flush()
                if _text(path) == text and _identity(path) == _identity(own.fileno()):  # guard: locked-file-keeps-name
                    yield
                    return
        if time.monotonic() >= until:
            raise LockedError(  # guard: no-wait-for-lock
                f"{path.parent} is being written by {_holder(path) or 'another process'}; only one process at a time "
                "may write a lake. Stop that process, or wait until it ends"
            )
        time.sleep(0.2)


@contextmanager
def _by_jvm(spark: SparkSession, path: Path) -> Iterator[bool]:
    """Lock the JVM's byte of the lock file in the JVM; yield False if another process holds it.

    Raises:
        ConfigError: the file system has no locks.
    """
    with closing(jvm(spark).java.io.RandomAccessFile(str(path), "rw")) as file:
        try:
            lock = file.getChannel().tryLock(_JVM, 1, False)
        except Py4JJavaError as error:
            if "OverlappingFileLock" in str(error.java_exception.getClass().getName()):
                yield False  # another thread of this JVM holds it
                return
            raise _without_locks(path, str(error.java_exception.getMessage())) from None
        yield lock is not None  # guard: one-jvm-writes-lake


def _lock(file: IO[bytes], byte: int) -> bool:
    """Lock a byte of the lock file for this process; return False if another process holds it.

    Raises:
        ConfigError: the file system has no locks.
    """
    try:
        fcntl.fcntl(file, _SET, _flock(start=byte, length=1))
    except OSError as error:
        if error.errno in _HELD:  # guard: missing-locks-named
            return False
        raise _without_locks(Path(file.name), str(error.strerror)) from None
    return True


def _without_locks(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"{path} cannot be locked ({why}): its file system has no working file locks, which keep a lake to one writer. "
        "Start its lock service (on NFS 3: rpc.statd; NFS 4 needs none), or set lake.root to a local disk or an object "
        "store"
    )


def _flock(*, start: int, length: int) -> bytes:
    """Return a `struct flock` for a write lock; a length of 0 means up to the end of the file and beyond."""
    fields = [0] * 5
    fields[_KIND] = fcntl.F_WRLCK
    fields[_START], fields[_START + 1] = start, length
    return struct.pack(_FLOCK, *fields).ljust(64, b"\0")


def _identity(file: Path | int) -> tuple[int, int] | None:
    try:
        status = os.stat(file)  # noqa: PTH116 - of a path or an open file
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _holder(path: Path) -> str | None:
    return next(iter(lines_of(_text(path) or "")), None)
