"""If two processes commit one version of a table on a local disk, one wins and the other gets an error."""

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError

from oncelake.common.spark import compiled, direct_file_system
from oncelake.common.spark.launch import launch
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles

pytestmark = pytest.mark.spark

VERSIONS = 5_000
# The versions that a JVM tries to commit while delta-rs commits as well.
COMMITS = 150
ROWS = pyarrow.table({"key": [1]})
ONCE = CommitProperties(max_commit_retries=0)
JVM_COMMIT = '{"commitInfo":{"timestamp":1,"operation":"OPTIMIZE"}}'
# `Race` writes every version as fast as it can, and says of each whether it was won. `Killed` gets no further than the
# link, `Linkless` is on a disk without hard links.
JAVA = """
package oncelake;

import io.delta.storage.LogStore;
import java.io.File;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

public class Race {
  public static String run(LogStore store, Configuration conf, String log, String who, int versions) throws Exception {
    StringBuilder won = new StringBuilder();
    for (int version = 0; version < versions; version++) {
      Path path = new Path(log, String.format("%020d.json", new Object[] {Integer.valueOf(version)}));
      try {
        Iterator lines = Arrays.asList(new Object[] {who, who}).iterator();
        store.write(path, lines, Boolean.FALSE, conf);
        won.append('1');
      } catch (FileAlreadyExistsException taken) {
        won.append('0');
      }
    }
    return won.toString();
  }

  public static boolean commit(LogStore store, Configuration conf, String path, String line) throws Exception {
    try {
      store.write(new Path(path), Arrays.asList(new Object[] {line}).iterator(), Boolean.FALSE, conf);
      return true;
    } catch (FileAlreadyExistsException taken) {
      return false;
    }
  }

  public static class Killed extends DirectFileSystem.Log {
    public Killed(Configuration conf) {
      super(conf);
    }

    protected void link(File name, File there) throws IOException {
      super.link(name, there);
      throw new Error("killed");
    }
  }

  public static class Linkless extends DirectFileSystem.Log {
    public Linkless(Configuration conf) {
      super(conf);
    }

    protected void link(File name, File there) throws IOException {
      if (there.getParentFile().getName().startsWith("u")) {
        throw new UnsupportedOperationException();
      }
      throw new FileSystemException(name.toString(), there.toString(), "Operation not permitted");
    }
  }
}
"""


class Writer:
    """A JVM with Delta's log store, and no Spark."""

    def __init__(self) -> None:
        self._gateway = launch({compiled.CLASS_PATH: compiled.class_path()})
        self.java: Any = self._gateway.jvm
        self.conf = self.java.org.apache.hadoop.conf.Configuration()
        for key, value in direct_file_system.conf().items():
            self.conf.set(key.removeprefix("spark.hadoop."), value)

    def store(self, kind: str) -> Any:
        """Create a log store by the last part of its class name."""
        compiler = self.java.org.codehaus.janino.SimpleCompiler()
        compiler.cook("Race.java", self.java.java.io.StringReader(JAVA))
        self.java.Thread.currentThread().setContextClassLoader(compiler.getClassLoader())
        package, _, name = kind.rpartition(".")
        return getattr(getattr(self.java, package), name)(self.conf)

    def race(self, log: Path, who: str, start: Barrier, kind: str = "oncelake.DirectFileSystem$Log") -> str:
        """Write every version as soon as the other process is ready too; return a 1 for each version won, else a 0."""
        store = self.store(kind)
        start.wait(timeout=60)
        return str(self.java.oncelake.Race.run(store, self.conf, str(log), who, VERSIONS))

    def end(self) -> None:
        self._gateway.shutdown()
        self._gateway.proc.stdin.close()
        self._gateway.proc.wait()


@pytest.fixture(scope="module")
def two() -> Iterator[tuple[Writer, Writer]]:
    with ExitStack() as ending:
        both = []
        for _ in range(2):
            both.append(Writer())
            ending.callback(both[-1].end)
        yield both[0], both[1]


def test_each_version_is_won_by_exactly_one_of_two_processes(two: tuple[Writer, Writer], tmp_path: Path) -> None:
    log, start = tmp_path / "_delta_log", Barrier(2)
    log.mkdir()
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(each.race, log, who, start) for each, who in zip(two, "ab", strict=True)]
        first, second = (each.result() for each in done)
    twice = [version for version in range(VERSIONS) if first[version] == second[version]]
    assert not twice, f"{len(twice)} of {VERSIONS} versions were won by both or by none, the first is {twice[0]}"
    assert min(first.count("1"), second.count("1")) > VERSIONS // 100, "one was ahead of the other; there was no race"
    files = LocalFiles()
    for version, won in enumerate(first):
        who = "a" if won == "1" else "b"
        assert (log / f"{version:020d}.json").read_text() == f"{who}\n{who}\n"
        assert files.is_sound(str(log / f"{version:020d}.json"))
    assert {path.name.strip(".").split(".", 1)[1] for path in log.iterdir()} <= {"json", "json.crc"}
    assert DeltaLog(files, str(tmp_path)).versions() == list(range(VERSIONS))


def test_each_version_is_won_by_exactly_one_of_delta_rs_and_a_jvm(two: tuple[Writer, Writer], tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), schema=ROWS.schema)
    start = Barrier(2)

    def by_jvm() -> list[int]:
        store = two[0].store("oncelake.DirectFileSystem$Log")
        won: list[int] = []
        start.wait(timeout=60)
        for turn in range(1, COMMITS):
            version = len(list((tmp_path / "_delta_log").glob("*.json")))
            name = str(tmp_path / "_delta_log" / f"{version:020d}.json")
            if two[0].java.oncelake.Race.commit(store, two[0].conf, name, JVM_COMMIT):
                won.append(version)
            time.sleep(random.Random(turn).uniform(0, 0.06))
        return won

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(by_jvm)
        start.wait(timeout=60)
        won: list[int] = []
        while not done.done():
            with suppress(DeltaError):  # the version is taken, or commits came in while the log was listed
                table = DeltaTable(str(tmp_path))
                write_deltalake(table, ROWS, mode="append", commit_properties=ONCE)
                won.append(table.version())
        theirs = done.result()
    assert not set(won) & set(theirs)
    assert sorted([*won, *theirs]) == list(range(1, len(won) + len(theirs) + 1))
    assert min(len(won), len(theirs)) > 0, "one was ahead of the other; there was no race"
    for version in theirs:
        assert (tmp_path / "_delta_log" / f"{version:020d}.json").read_text() == f"{JVM_COMMIT}\n"
    assert DeltaTable(str(tmp_path)).to_pyarrow_table().num_rows == len(won)


FIRST = "00000000000000000000.json"


def write(writer: Writer, store: Any, log: Path, line: str) -> str:
    """Write the first commit, and return the class of the error, if any."""
    lines = writer.java.java.util.ArrayList()
    lines.add(line)
    try:
        store.write(writer.java.org.apache.hadoop.fs.Path(str(log / FIRST)), lines.iterator(), False, writer.conf)
    except Py4JJavaError as error:
        return str(error.java_exception.getClass().getName())
    return ""


def test_a_kill_after_the_link_leaves_a_whole_commit(two: tuple[Writer, Writer], tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f".{FIRST}.crc").write_bytes(b"crc\0 of a commit that somebody removed")
    assert write(two[0], two[0].store("oncelake.Race$Killed"), log, "commit") == "java.lang.Error"
    assert (log / FIRST).read_text() == "commit\n"
    assert LocalFiles().is_sound(str(log / FIRST))


def test_the_leftover_of_a_kill_before_the_link_is_never_listed(two: tuple[Writer, Writer], tmp_path: Path) -> None:
    log, writer = tmp_path / "_delta_log", two[0]
    log.mkdir()
    (log / f".{FIRST}.1b2c.tmp").write_text("half a com")
    store = writer.store("oncelake.DirectFileSystem$Log")
    assert not write(writer, store, log, "commit")
    found = store.listFrom(writer.java.org.apache.hadoop.fs.Path(str(log / "0")), writer.conf)
    listed = []
    while found.hasNext():
        listed.append(found.next().getPath().getName())
    commit_log = DeltaLog(LocalFiles(), str(tmp_path))
    assert (listed, commit_log.versions(), commit_log.whole_names()) == ([FIRST], [0], [FIRST])


@pytest.mark.parametrize("place", ["unsupported", "not permitted"])
def test_without_hard_links_a_commit_is_written_as_by_hadoop(
    two: tuple[Writer, Writer], tmp_path: Path, place: str
) -> None:
    writer, log = two[0], tmp_path / place
    log.mkdir()
    store = writer.store("oncelake.Race$Linkless")
    assert not write(writer, store, log, "commit")
    assert write(writer, store, log, "another") == "java.nio.file.FileAlreadyExistsException"
    assert (log / FIRST).read_text() == "commit\n"
    assert {path.name for path in log.iterdir()} == {FIRST, f".{FIRST}.crc"}
    assert LocalFiles().is_sound(str(log / FIRST))
