"""A lake has one writer, even if the lock file is replaced while it is being locked: with a JVM made of Python."""

import errno
import os
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from oncelake.common.errors import ConfigError, LockedError
from oncelake.common.lake import Lake
from oncelake.exactly_once.lease import NAME, sole_writer, writer
from tests.support.lease_objects import Objects
from tests.support.spark_handles import session_over

SECOND = timedelta(seconds=1)
# a lock is tried at most this many times
MOST = 20


class RandomAccessFile:
    """Java's class of this name, with the methods that are used here."""

    def __init__(self, path: str) -> None:
        self.closed = False
        self._file = os.open(path, os.O_RDWR | os.O_CREAT)

    def setLength(self, length: int) -> None:  # noqa: N802
        os.ftruncate(self._file, length)

    def writeBytes(self, text: str) -> None:  # noqa: N802
        os.write(self._file, text.encode())

    def close(self) -> None:
        self.closed = True
        os.close(self._file)


def spark(opened: list[RandomAccessFile], locks: Callable[[Path], bool]) -> Any:
    """Return a session whose JVM opens files, and locks one when `locks` says so."""

    def random_access_file(path: str, _mode: str) -> RandomAccessFile:
        assert len(opened) < MOST, "it tries for ever"
        file = RandomAccessFile(path)
        lock = lambda *_: object() if locks(Path(path)) else None  # noqa: E731
        file.getChannel = lambda: SimpleNamespace(tryLock=lock)  # type: ignore[attr-defined]
        opened.append(file)
        return file

    return session_over(SimpleNamespace(java=SimpleNamespace(io=SimpleNamespace(RandomAccessFile=random_access_file))))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"), str(tmp_path / "checkpoints"))


def test_the_locked_file_is_the_one_with_the_name_of_the_lock(lake: Lake) -> None:
    opened: list[RandomAccessFile] = []

    def locks(path: Path) -> bool:
        if len(opened) == 1:  # another process removes the file and creates a new one, before this one has locked it
            path.unlink()
            path.write_text("process 2 on there\nabc\n")
        return True

    with sole_writer(spark(opened, locks), lake, SECOND) as lease:
        lease.check()
        assert [file.closed for file in opened] == [True, False]
        assert f"process {os.getpid()} on " in (Path(lake.root) / NAME).read_text()
    assert all(file.closed for file in opened)


def test_a_locked_lake_is_not_written_and_its_holder_is_named(lake: Lake) -> None:
    Path(lake.root).mkdir()
    held = Path(lake.root) / NAME
    held.write_text("process 2 on there\nabc\n")
    opened: list[RandomAccessFile] = []
    with (
        pytest.raises(LockedError, match=r"is being written by process 2 on there; only one process at a time"),
        sole_writer(spark(opened, lambda _: False), lake, timedelta(0)),
    ):
        pytest.fail("it holds a lake that is held")
    assert held.read_text() == "process 2 on there\nabc\n"
    assert all(file.closed for file in opened)


def test_a_driver_on_s3_has_its_hosts_checkpoints_and_the_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = Objects()
    monkeypatch.setattr("oncelake.exactly_once.lease.has_lease", lambda _, lake: lake.root.startswith("s3:"))
    monkeypatch.setattr("oncelake.exactly_once.lease.S3LeaseStore", lambda *_: objects)
    lake = Lake("s3://bucket/lake", str(tmp_path / "checkpoints"), per_host=True)
    with sole_writer(spark([], lambda _: True), lake, SECOND) as lease:
        lease.check()
        assert writer(Lake(lake.checkpoints, lake.checkpoints)) is not None
        said = f"{lake.checkpoints} is being written by process {os.getpid()}"
        with (
            pytest.raises(LockedError, match=said),
            sole_writer(spark([], lambda _: False), lake, timedelta(0)),
        ):
            pytest.fail("it holds the checkpoints of another process")
        assert lease.on_store is not None
        objects.texts = {99: objects.texts[1].replace('"token": "', '"token": "another')}
        with pytest.raises(LockedError, match="no longer holds s3://bucket/lake"):
            lease.on_store.renew()
        with pytest.raises(LockedError, match="no longer holds s3://bucket/lake"):
            lease.check()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO])
def test_a_file_system_without_locks_is_no_lock_of_another_process(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.fcntl", refuse)
    said = rf"oncelake.lock cannot be locked \({os.strerror(number)}\): its file system has no working file locks"
    for session in (None, spark([], lambda _: True)):
        with pytest.raises(ConfigError, match=said), sole_writer(session, lake, timedelta(0)):
            pytest.fail("it holds a lake without a lock")


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("java.io.IOException", ConfigError, r"cannot be locked \(No locks available\): its file system has no"),
        ("java.nio.channels.OverlappingFileLockException", LockedError, "is being written by"),
    ],
)
def test_a_file_system_without_locks_is_no_thread_of_the_jvm_that_holds_the_lock(
    lake: Lake, name: str, error: type[Exception], said: str
) -> None:
    def locks(_: Path) -> bool:
        java = SimpleNamespace(_target_id="", _gateway_client=None, getMessage=lambda: "No locks available")
        java.getClass = lambda: SimpleNamespace(getName=lambda: name)
        raise Py4JJavaError("", java)

    with pytest.raises(error, match=said), sole_writer(spark([], locks), lake, timedelta(0)):
        pytest.fail("it holds a lake without a lock")


def test_a_python_process_whose_jvm_died_still_holds_the_lake(lake: Lake) -> None:
    opened: list[RandomAccessFile] = []
    with sole_writer(spark(opened, lambda _: True), lake, SECOND):
        (Path(lake.root) / NAME).read_text()  # closing another handle of the file does not give up the lock
        assert writer(lake) == f"process {os.getpid()} on {socket.gethostname()}"
        with (
            pytest.raises(LockedError, match=f"is being written by process {os.getpid()} on "),
            sole_writer(spark(opened, lambda _: True), lake, timedelta(0)),
        ):
            pytest.fail("both hold the lake")
    assert writer(lake) is None
    with sole_writer(spark(opened, lambda _: True), lake, timedelta(0)) as lease:
        lease.check()
