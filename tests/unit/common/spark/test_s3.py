"""A lake on S3: which libraries and settings Spark gets, and which Spark or store is refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from oncelake.common.errors import ConfigError
from oncelake.common.lake import Lake
from oncelake.common.spark import s3
from oncelake.common.spark.s3 import NOWHERE, Places, artifacts, check_two_drivers, class_path, conf
from oncelake.common.spark.versions import LINES

BUCKET = Places(("s3://bucket/lake", "/logs"), "s3://bucket/lake/_checkpoints")
SOURCE = Places(("/lake", "s3a://bucket/logs"), "/lake/_checkpoints")
LOG_STORE = "spark.delta.logStore.s3.impl"
VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION")


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "left_out", dict)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def session(log_store: str | None, answer: str = "") -> Any:
    """Return a session that commits with a log store, whose try of the store has an answer."""
    tries = SimpleNamespace(check=lambda *_: answer)
    return SimpleNamespace(
        sparkContext=SimpleNamespace(getConf=lambda: {LOG_STORE: log_store}),
        _jvm=SimpleNamespace(oncelake=SimpleNamespace(S3LogStore=tries)),
        _jsparkSession=SimpleNamespace(sessionState=lambda: SimpleNamespace(newHadoopConf=lambda: None)),
    )


def test_places_elsewhere_need_nothing() -> None:
    for places in (NOWHERE, Places(("/lake", "hdfs:///logs"), "/lake/_checkpoints")):
        assert class_path(places) == ""
        assert conf(places) == {}


def test_the_client_finds_what_amazons_programs_find(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "spark.hadoop.fs.s3a.endpoint.region" not in conf(BUCKET)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert conf(BUCKET)["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9"
    assert conf(BUCKET)["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert conf(BUCKET)["spark.hadoop.fs.s3a.endpoint.region"] == "us-east-1"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:8")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert conf(BUCKET)["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:8"
    assert conf(BUCKET)["spark.hadoop.fs.s3a.endpoint.region"] == "eu-central-1"


def test_no_secret_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "the token")
    assert "the " not in "".join(conf(BUCKET).values())


def test_checkpoints_are_written_in_s3s_way_only_there() -> None:
    manager = "spark.sql.streaming.checkpointFileManagerClass"
    assert manager in conf(BUCKET)
    assert manager not in conf(SOURCE)
    assert conf(SOURCE)[LOG_STORE] == "oncelake.S3LogStore"


@pytest.mark.parametrize("key", [LOG_STORE, "spark.delta.logStore.s3a.impl"])
def test_another_log_store_in_the_settings_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"spark.conf.{key} replaces the log store"):
        conf(BUCKET, {key: "io.delta.storage.S3SingleDriverLogStore"})


def test_without_the_compiled_class_a_lake_on_s3_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "left_out", lambda: {"S3LogStore": "it is not compiled"})
    with pytest.raises(ConfigError, match=r"missing: S3LogStore \(it is not compiled\); run: python -m"):
        conf(BUCKET)


@pytest.mark.parametrize("line", ["4.1", "4.2"])
def test_the_libraries_belong_to_the_hadoop_of_spark(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "installed", lambda: LINES[line])
    names = [name for _, name, _ in artifacts()]
    assert len(names) == len({*names})
    assert {"hadoop-aws", "s3", "sts"} <= {*names}
    assert "bundle" not in names


def test_a_spark_that_cannot_put_a_commit_if_its_name_is_free_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "installed", lambda: LINES["4.0"])
    with pytest.raises(ConfigError, match=r"needs Spark 4.1 or 4.2, and this is 4.0: .*Install a newer PySpark"):
        class_path(BUCKET)


@pytest.mark.parametrize("log_store", [None, "io.delta.storage.S3SingleDriverLogStore"])
def test_a_session_with_another_log_store_is_refused(log_store: str | None) -> None:
    with pytest.raises(ConfigError, match=f"two drivers would overwrite .*--conf {LOG_STORE}=oncelake.S3LogStore"):
        check_two_drivers(session(log_store), Lake("s3://bucket/lake", "/checkpoints"))


def test_a_store_that_ignores_the_condition_of_a_put_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"lake.root s3://bucket/lake: .*, as it let both in. Use a store"):
        check_two_drivers(session("oncelake.S3LogStore", "it let both in"), Lake("s3://bucket/lake", "/checkpoints"))


@pytest.mark.parametrize("log_store", ["oncelake.S3LogStore", "io.delta.storage.S3DynamoDBLogStore"])
def test_a_session_whose_log_store_keeps_drivers_apart_is_taken(log_store: str) -> None:
    check_two_drivers(session(log_store), Lake("s3://bucket/lake", "/checkpoints"))


def test_a_catalog_and_databricks_commit_in_their_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    check_two_drivers(session(None), Lake("s3://bucket/lake", "/checkpoints", catalog="main"))
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.0")
    check_two_drivers(session(None), Lake("s3://bucket/lake", "/checkpoints"))
