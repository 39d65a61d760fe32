"""The product's rule of which files are listed and read is the same as Spark's."""

import os
import random
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.common.lake import place_of
from oncelake.common.spark.jvm import jvm
from oncelake.sources.directory.census import CensusInputs, Fault, take
from oncelake.sources.directory.listing import Problem, listing
from oncelake.sources.files.census import pattern_names
from oncelake.sources.files.kind import ANY_AGE
from tests.support.spark_handles import hadoop_conf, java_session

pytestmark = pytest.mark.spark

NOTHING_KNOWN = CensusInputs({}, 0, 0, {}, may_start=True, may_read=lambda _: True)

NAMES = (
    b"a.log", b"b.log", b".a", b"_a", b"_a=1", b".a=1", b"_metadata", b"_metadata.log", b"_common_metadata",
    b"_metadatax", b"x._COPYING_", b"_metadata._COPYING_", b"_spark_metadata", b"date=2017", b"_date=2017",
    b"a b;c#d?e%f", b"+", b"[x]", b"{y}", b"*", "é".encode(), "\u2028".encode(), b"\n", b"\\", b"caf\xe9", b"~",
)  # fmt: skip


def spark_lists(spark: SparkSession, path: str) -> set[tuple[str, int, int]]:
    """List files as the file source does: by an InMemoryFileIndex over the path's pattern."""
    java = jvm(spark)
    where = java.org.apache.hadoop.fs.Path(path)
    helper = java.org.apache.spark.deploy.SparkHadoopUtil.get()
    roots = helper.globPathIfNecessary(where.getFileSystem(hadoop_conf(spark)), where)
    options = getattr(getattr(java.scala.collection.immutable, "Map$"), "MODULE$").empty()
    options = options.updated("recursiveFileLookup", "true")
    schema = java.scala.Option.apply(java.org.apache.spark.sql.types.StructType())
    sources = java.org.apache.spark.sql.execution.datasources
    no_cache, none = getattr(getattr(sources, "NoopCache$"), "MODULE$"), java.scala.Option.empty()
    index = sources.InMemoryFileIndex(java_session(spark), roots, options, schema, no_cache, none, none)
    found = index.allFiles()
    return {
        (place_of(each.getPath().toUri().toString()), each.getLen(), each.getModificationTime())
        for each in map(found.apply, range(found.size()))
    }


def tree(root: Path, rng: random.Random) -> None:
    where = [os.fsencode(root)]
    for _ in range(25):
        path = os.path.join(rng.choice(where), rng.choice(NAMES))  # noqa: PTH118
        if os.path.lexists(path):
            continue
        kind = rng.random()
        if kind < 0.3:
            os.mkdir(path)  # noqa: PTH102
            where.append(path)
        elif kind < 0.4:
            os.symlink(rng.choice([b"nowhere", b"a.log", rng.choice(where)]), path)  # noqa: PTH211 - bytes
        else:
            with open(path, "wb") as file:  # noqa: PTH123
                file.write(b"x\n" * rng.randint(0, 2))
            at = rng.choice([-10_000_000, 0, 1_400_000_000, 7_258_118_400])
            os.utime(path, (at, at))


@pytest.mark.parametrize("seed", range(12))
def test_files_are_listed_as_by_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    root = tmp_path / "logs"
    root.mkdir()
    tree(root, rng)
    for link in [each.path for each in listing(str(root)) if each.problem is Problem.LOOP]:
        os.unlink(os.fsencode(link))  # noqa: PTH108 - Spark lists these to the depth that the system allows
    ours = [each for each in listing(str(root)) if each.problem in (None, Problem.COLON)]
    theirs = spark_lists(spark, str(root))
    visible = {(file.path, file.size, file.modified) for file in ours if not file.hidden}
    summaries = ("_metadata", "_common_metadata")
    listed_only = {file for file in theirs if os.path.basename(file[0]).startswith(summaries)}  # noqa: PTH119
    assert theirs - listed_only == visible
    # Spark opens files that are neither hidden nor empty
    read = spark.read.format("text").option("recursiveFileLookup", "true").load(str(root))
    opened = {place_of(row[0]) for row in read.select("_metadata.file_path").distinct().collect()}
    assert opened == {path for path, size, _ in visible if size}


@pytest.mark.parametrize(
    "pattern",
    [
        *("*", "b*", "{a,b1}.log", "{b/c,.h}", "[^b]*.log", "b[0-9].log", "*/c", "?.log", "b\\*"),
        *("caf?.log", "caf[éè].log", "caf[^x].log", "{,_old}", "{.,_old}", "{a,b1.log}", "\\{a\\}", "{b/c,b1.log}"),
        *("{a.log,{b,_old}/*}", "[a-b].log", "{}", "nothing*", "{a\\,b,b1.log}"),
    ],
)
def test_patterns_are_read_as_by_spark(spark: SparkSession, tmp_path: Path, pattern: str) -> None:
    for name in (
        "a.log",
        "b/a.log",
        "b/c/a.log",
        "b1.log",
        ".h/x.log",
        ".h.log",
        "b*/z.log",
        "café.log",
        "_old/o.log",
        "{a}",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("x\n")
    path = f"{tmp_path}/{pattern}"
    found = take(listing(path, named=pattern_names(spark, path)), NOTHING_KNOWN)
    ours = {each.path for each in found.waiting}
    assert found.faults == []
    assert ours == {path for path, *_ in spark_lists(spark, f"{tmp_path}/{pattern}")}


def test_a_pattern_that_hadoop_cannot_list_is_named(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a", "x:y"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.log").write_text("x\n")
    for pattern in ("*", "a*"):
        path = f"{tmp_path}/{pattern}"
        found = take(listing(path, named=pattern_names(spark, path)), NOTHING_KNOWN)
        assert [(Path(fault.path).name, fault.fault) for fault in found.faults] == [("x:y", Fault.COLON)]


def test_no_date_of_a_file_hides_other_files(spark: SparkSession, tmp_path: Path) -> None:
    """For Spark, a file dated far ahead makes all others look old."""
    logs = tmp_path / "logs"
    logs.mkdir()
    read: list[str] = []

    def run() -> None:
        lines = spark.readStream.format("text").option("maxFileAge", ANY_AGE).load(str(logs))
        query = (
            lines.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .foreachBatch(lambda frame, _: read.extend(row["value"] for row in frame.collect()))
        ).start()
        query.awaitTermination()

    (logs / "ahead.log").write_text("ahead\n")
    os.utime(logs / "ahead.log", (7_258_118_400, 7_258_118_400))
    run()
    for name, at in (("now.log", 1_800_000_000), ("zero.log", 0), ("before.log", -1_000_000_000)):
        (logs / name).write_text(f"{name}\n")
        os.utime(logs / name, (at, at))
    run()
    assert sorted(read) == ["ahead", "before.log", "now.log", "zero.log"]
    shutil.rmtree(logs)
