"""The log store on S3: of many commits under one name one wins, and a lost answer is settled by reading."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError
from oncelake.common.lake import Lake
from oncelake.common.spark import compiled
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.s3 import Places, check_lake, only_version
from oncelake.common.spark.session import build
from oncelake.common.spark.settings import SparkSettings
from oncelake.exactly_once.write import is_conflict
from tests.support.s3_house import variables
from tests.support.s3_server import BUCKET, Server
from tests.support.spark_handles import java_session

ROOT = f"s3://{BUCKET}/lake"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def spark(server: Server) -> Iterator[SparkSession]:
    if not compiled.is_here():
        compiled.write()
    with mock.patch.dict("os.environ", variables(server)):
        spark = build(SparkSettings(master="local[2]"), places=Places(ROOT, f"{ROOT}/_checkpoints"))
        yield spark
        spark.stop()


@pytest.fixture
def put(spark: SparkSession) -> Any:
    """Put a commit with a text; return True if it won its name."""
    conf = java_session(spark).sessionState().newHadoopConf()
    log_store = jvm(spark).oncelake.S3LogStore(conf)

    def put(name: str, *lines: str) -> bool:
        actions = jvm(spark).java.util.ArrayList()
        for line in lines:
            actions.add(line)
        try:
            log_store.write(jvm(spark).org.apache.hadoop.fs.Path(f"{ROOT}/{name}"), actions.iterator(), False, conf)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != "java.nio.file.FileAlreadyExistsException":
                raise
            return False
        return True

    return put


def test_of_many_commits_under_one_name_one_wins(put: Any, server: Server) -> None:
    names = [f"race/{number:020d}.json" for number in range(20)]
    jobs = [(name, writer) for name in names for writer in range(6)]
    with ThreadPoolExecutor(6) as pool:
        won = [*pool.map(lambda job: put(job[0], f"writer {job[1]}"), jobs)]
    winners = [job for job, has_won in zip(jobs, won, strict=True) if has_won]
    assert Counter(name for name, _ in winners) == dict.fromkeys(names, 1)
    for name, writer in winners:
        stored = server.get(f"lake/{name}")
        assert stored is not None
        assert stored.content == f"writer {writer}\n".encode()


@pytest.mark.parametrize("lost", [1, 2])
def test_a_commit_whose_answer_is_lost_has_won(put: Any, server: Server, lost: int) -> None:
    name, answers = f"lost-{lost}.json", [*range(lost)]
    with mock.patch.object(server, "loses", lambda key: key.endswith(name) and bool(answers and answers.pop() + 1)):
        assert put(name, "own", "lines")
    assert not answers
    assert not put(name, "other")


def test_of_many_plans_under_one_name_one_wins(spark: SparkSession, server: Server) -> None:
    path = jvm(spark).org.apache.hadoop.fs.Path(f"{ROOT}/_checkpoints/bronze/offsets/0")
    manager = jvm(spark).oncelake.S3Checkpoints(path.getParent(), java_session(spark).sessionState().newHadoopConf())

    def plan(writer: int) -> bool:
        stream = manager.createAtomic(path, False)
        stream.write(f"writer {writer}".encode())
        try:
            stream.close()
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != "org.apache.hadoop.fs.FileAlreadyExistsException":
                raise
            stream.cancel()
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        won = [*pool.map(plan, range(12))]
    stored = server.get("lake/_checkpoints/bronze/offsets/0")
    assert won.count(True) == 1
    assert stored is not None
    assert stored.content == f"writer {won.index(True)}".encode()
    replaced = manager.createAtomic(path, True)
    replaced.write(b"other")
    replaced.cancel()
    replaced.close()
    assert server.get("lake/_checkpoints/bronze/offsets/0") == stored


def test_a_store_that_refuses_the_second_put_is_taken(spark: SparkSession, server: Server) -> None:
    check_lake(spark, Lake(ROOT, ROOT))
    assert not [name for name in server.names("lake/") if "conditional-put" in name]


def test_a_store_that_ignores_the_condition_is_refused(spark: SparkSession, server: Server) -> None:
    with (
        mock.patch.object(server, "honours", False),
        pytest.raises(ConfigError, match=r"let a second file replace the first one .* If-None-Match"),
    ):
        check_lake(spark, Lake(ROOT, ROOT))
    assert not [name for name in server.names("lake/") if "conditional-put" in name]


def test_a_spark_with_another_log_store_is_refused(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf().set("spark.delta.logStore.s3.impl", "com.example.Log")
    with (
        mock.patch.object(type(spark.sparkContext), "getConf", return_value=conf),
        pytest.raises(ConfigError, match=r"com.example.Log, and two .*--conf spark.delta.logStore.s3.impl=oncelake"),
    ):
        check_lake(spark, Lake(ROOT, ROOT))


def test_a_local_lake_and_one_in_a_catalog_are_not_tried(spark: SparkSession, tmp_path: Path) -> None:
    with mock.patch.object(type(spark.sparkContext), "getConf", side_effect=AssertionError):
        check_lake(spark, Lake(str(tmp_path), str(tmp_path)))
        check_lake(spark, Lake(ROOT, ROOT, catalog="main"))


def test_a_batch_is_committed_only_after_the_version_that_was_looked_at(spark: SparkSession) -> None:
    at = f"{ROOT}/silver/access_log"
    rows = spark.range(3)
    rows.write.format("delta").save(at)
    for version in (1, 2):
        with only_version(rows, at, version):
            rows.write.format("delta").mode("append").save(at)
    with pytest.raises(Exception, match="VersionTakenError") as raised, only_version(rows, at, 2):
        rows.write.format("delta").mode("append").save(at)
    assert is_conflict(raised.value)
    assert spark.read.format("delta").load(at).count() == 9
    rows.write.format("delta").mode("append").save(at)
    assert spark.read.format("delta").load(at).count() == 12


def test_a_commit_is_read_once_and_again_when_it_is_another(spark: SparkSession, server: Server) -> None:
    conf = java_session(spark).sessionState().newHadoopConf()
    log_store = jvm(spark).oncelake.S3LogStore(conf)
    name = f"read/_delta_log/{1:020d}.json"

    def read() -> tuple[list[str], list[str]]:
        before = len(server.requests)
        lines = log_store.read(jvm(spark).org.apache.hadoop.fs.Path(f"{ROOT}/{name}"), conf)
        text = []
        while lines.hasNext():
            text.append(lines.next())
        lines.close()
        return text, [request.method for request in server.requests[before:]]

    server.put(f"lake/{name}", b"one\ntwo\n", {}, absent=True, tag=None)
    assert read() == (["one", "two"], ["HEAD", "GET"])
    assert read() == (["one", "two"], ["HEAD"])
    server.put(f"lake/{name}", b"three\n", {}, absent=False, tag=None)
    assert read() == (["three"], ["HEAD", "GET"])
