"""Unpack a frozen lake at the one place that its own paths name, and pack one there."""

import fcntl
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm
from tests.support.house import House

HERE = Path(__file__).parent
# Bronze and the checkpoints hold the source's absolute path, so each lake has one place on every machine.
PLACE = Path("/tmp/oncelake-frozen")


@contextmanager
def frozen(name: str, spark: SparkSession | None = None) -> Iterator[House]:
    """Unpack a lake, and remove it afterwards; another test run on the same machine waits."""
    with _alone(), tarfile.open(_archive(name)) as archive:
        archive.extractall(PLACE, filter="tar")
        if spark is not None:
            jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
        yield House(PLACE / name)


@contextmanager
def empty(name: str) -> Iterator[House]:
    """Yield the empty place of a lake that is to be made."""
    with _alone():
        yield House(PLACE / name)


def pack(house: House) -> None:
    """Write a lake with its logs and configuration into its archive."""
    (house.lake / ".oncelake.lock").write_text(f"process 4711 on host\n{'0' * 32}\n")
    with tarfile.open(_archive(house.root.name), "w:xz") as archive:
        archive.add(house.root, house.root.name, filter=_without_owner)


@contextmanager
def _alone() -> Iterator[None]:
    with Path(f"{PLACE}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(PLACE, ignore_errors=True)
        try:
            yield
        finally:
            shutil.rmtree(PLACE, ignore_errors=True)


def _archive(name: str) -> Path:
    return HERE / "lakes" / f"{name}.tar.xz"


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "data_docs" in member.name:  # pages of Great Expectations, megabytes
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
