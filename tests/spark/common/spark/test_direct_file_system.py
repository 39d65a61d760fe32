"""Files on this machine's disk are the same as with Hadoop's own file system, and no process is started for them."""

import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.spark import direct_file_system
from oncelake.common.spark.jvm import hadoop, jvm
from tests.support.places import ROOT
from tests.support.spark_handles import gateway, hadoop_conf

pytestmark = pytest.mark.spark


PROGRAM = """
import sys
from oncelake.common.spark import compiled, direct_file_system
from oncelake.common.spark.jvm import hadoop, jvm
from oncelake.common.spark.session import build
from oncelake.common.spark.settings import SparkSettings
from tests.support.spark_handles import hadoop_conf, java_session

spark = build(SparkSettings(master="local[1]", driver_memory="1g"))
java, place = jvm(spark), sys.argv[1]
conf, uri = hadoop_conf(spark), jvm(spark).java.net.URI("file:///")
context = java.org.apache.hadoop.fs.FileContext.getFileContext(uri, conf)
spark.range(1).write.format("delta").save(place + "/table")
log = java.org.apache.spark.sql.delta.DeltaLog.forTable(java_session(spark), place + "/table")
store = log.store().getDelegate(hadoop(spark, "file://" + place + "/table")[0]).logStoreImpl()
for each in (hadoop(spark, uri.toString())[1], context.getDefaultFileSystem(), store):
    print(each.getClass().getName())
"""


@dataclass
class Disk:
    """A directory, and several ways to access its files."""

    spark: SparkSession
    place: Path

    def at(self, name: str) -> Any:
        """Return a Hadoop path."""
        return hadoop(self.spark, (self.place / name).as_uri())[0]

    @property
    def conf(self) -> Any:
        """Return Hadoop's settings with oncelake's own classes; the tests' Spark has those that crash on demand."""
        conf = jvm(self.spark).org.apache.hadoop.conf.Configuration(hadoop_conf(self.spark))
        for key, value in direct_file_system.CONF.items():
            conf.set(key.removeprefix("spark.hadoop."), value)
        return conf

    @property
    def ours(self) -> Any:
        """Return the file system that a session of the program uses."""
        java = jvm(self.spark)
        return java.org.apache.hadoop.fs.FileSystem.newInstance(java.java.net.URI("file:///"), self.conf)

    @property
    def hadoops(self) -> Any:
        """Return Hadoop's own file system."""
        files = jvm(self.spark).org.apache.hadoop.fs.LocalFileSystem()
        files.initialize(jvm(self.spark).java.net.URI("file:///"), self.conf)
        return files

    @property
    def context(self) -> Any:
        """Return the file context through which checkpoints are written."""
        java = jvm(self.spark)
        return java.org.apache.hadoop.fs.FileContext.getFileContext(java.java.net.URI("file:///"), self.conf)

    def permit(self, files: Any, name: str, bits: int) -> int:
        """Set a file's mode, and return its new mode."""
        files.setPermission(self.at(name), jvm(self.spark).org.apache.hadoop.fs.permission.FsPermission(bits))
        return mode(self.place / name)

    def rename(self, name: str, to: str) -> None:
        """Rename a file, without overwriting another one."""
        option = jvm(self.spark).org.apache.hadoop.fs.Options.Rename
        options = gateway(self.spark).new_array(option, 1)
        options[0] = option.NONE
        self.context.rename(self.at(name), self.at(to), options)

    def children(self, work: Callable[[], object]) -> int:
        """Return the page faults of processes that Spark's JVM starts during `work`; zero if it starts none."""
        pid = jvm(self.spark).java.lang.ProcessHandle.current().pid()

        def faults() -> int:
            return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[8])

        before = faults()
        work()
        return faults() - before


@pytest.fixture
def disk(spark: SparkSession, tmp_path: Path) -> Disk:
    return Disk(spark, tmp_path)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.chain
def test_a_local_session_uses_the_direct_file_system(tmp_path: Path) -> None:
    program = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split() == [
        "oncelake.DirectFileSystem",
        "oncelake.DirectFileSystem$Context",
        "oncelake.DirectFileSystem$Log",
    ], done.stderr


@pytest.mark.parametrize("bits", [0o600, 0o644, 0o750, 0o777, 0o1777, 0])
@pytest.mark.parametrize("kind", ["file", "directory", "directory of a group"])
def test_a_mode_is_set_as_by_chmod(disk: Disk, bits: int, kind: str) -> None:
    for path in (disk.place / "a", disk.place / "b"):
        path.touch() if kind == "file" else path.mkdir()
        if kind == "directory of a group":
            path.chmod(0o2755)
    ours, hadoops = disk.permit(disk.ours, "a", bits), disk.permit(disk.hadoops, "b", bits)
    assert ours == hadoops
    assert ours & 0o1777 == bits


def test_a_mode_that_cannot_be_set_is_an_error(disk: Disk) -> None:
    with pytest.raises(Py4JJavaError, match="NoSuchFileException"):
        disk.permit(disk.ours, "gone", 0o600)


def test_a_file_is_written_and_read_with_its_checksum(disk: Disk) -> None:
    made = []
    for name, files in (("a", disk.ours), ("b", disk.hadoops)):
        out = files.create(disk.at(f"{name}/part"))
        out.write(bytearray(b"content"))
        out.close()
        made.append({path.name: (mode(path), path.read_bytes()) for path in (disk.place / name).iterdir()})
    assert made[0] == made[1]
    assert sorted(made[0]) == [".part.crc", "part"]
    (disk.place / "a/part").write_bytes(b"Content")
    with pytest.raises(Py4JJavaError, match="Checksum"):
        disk.ours.open(disk.at("a/part")).read()


def test_a_rename_over_an_existing_file_is_refused(disk: Disk) -> None:
    for name in ("a", "b"):
        (disk.place / name).write_text(name)
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        disk.rename("a", "b")
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        disk.rename("gone", "c")
    disk.rename("a", "c")
    assert {path.name: path.read_text() for path in disk.place.iterdir()} == {"b": "b", "c": "a"}


@pytest.mark.parametrize("name", ["file", "link", "dangling", "directory", "gone"])
def test_a_link_has_the_same_status_as_in_hadoop(disk: Disk, name: str) -> None:
    (disk.place / "file").touch()
    (disk.place / "directory").mkdir()
    (disk.place / "link").symlink_to(disk.place / "file")
    (disk.place / "dangling").symlink_to(disk.place / "gone")

    def told(files: Any, path: Any) -> tuple[bool, bool] | str:
        try:
            status = files.getRaw().getFileLinkStatus(path)
        except Py4JJavaError as error:
            return str(error.java_exception.getClass().getName())
        return bool(status.isSymlink()), bool(status.isDirectory())

    bare = jvm(disk.spark).org.apache.hadoop.fs.Path(str(disk.place / name))
    assert told(disk.ours, disk.at(name)) == told(disk.hadoops, disk.at(name))
    assert told(disk.ours, bare) == told(disk.hadoops, bare)
    links = (name in ("link", "dangling"), name == "directory")
    assert told(disk.ours, bare) == (links if name != "gone" else "java.io.FileNotFoundException")


@pytest.mark.parametrize("first", ["00", "03.json", "05", "_last_checkpoint", "zz"])
def test_a_delta_log_is_listed_as_by_delta(disk: Disk, first: str) -> None:
    log = disk.place / "_delta_log"
    log.mkdir()
    for name in ("04.json", "03.json", "03.crc", ".03.json.crc", ".02.crc.crc", "_last_checkpoint", "05:x.json", "ä b"):
        (log / name).write_text(name)
    (log / "_sidecars").mkdir()
    (log / "zz.json").symlink_to(log / "gone")
    java = jvm(disk.spark)
    stores = (getattr(java.oncelake, "DirectFileSystem$Log"), java.io.delta.storage.HDFSLogStore)

    def listed(store: Any) -> list[tuple[object, ...]]:
        found = store(disk.conf).listFrom(disk.at(f"_delta_log/{first}"), disk.conf)
        every: list[tuple[object, ...]] = []
        while found.hasNext():
            file = found.next()
            about = (file.getPath().toString(), file.getLen(), file.isDirectory(), file.getModificationTime())
            every.append(about)
        return every

    ours, deltas = map(listed, stores)
    assert ours
    assert ours == deltas


def test_a_missing_log_is_the_same_error_as_in_delta(disk: Disk) -> None:
    java = jvm(disk.spark)
    for store in (getattr(java.oncelake, "DirectFileSystem$Log"), java.io.delta.storage.HDFSLogStore):
        with pytest.raises(Py4JJavaError, match=r"FileNotFoundException.*does not exist"):
            store(disk.conf).listFrom(disk.at("_delta_log/00"), disk.conf)


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the children of a process are read from /proc of Linux"
)
def test_no_process_is_started_for_a_file(disk: Disk) -> None:
    def make_and_rename() -> None:
        disk.ours.create(disk.at("part"), True).close()
        disk.rename("part", "renamed")

    assert disk.children(lambda: disk.hadoops.create(disk.at("part"), True).close())
    assert not disk.children(make_and_rename)
