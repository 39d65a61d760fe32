"""A lake on S3: which libraries and settings Spark gets, and which Spark or store is refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.lake import Lake
from oncelake.common.spark import s3
from oncelake.common.spark.s3 import NOWHERE, Places, artifacts, check_lake, class_path, conf
from oncelake.common.spark.versions import LINES

CHECKPOINTS = "s3://bucket/lake/_checkpoints"
BUCKET = Places("s3://bucket/lake", CHECKPOINTS, ["/logs"])
SOURCE = Places("/lake", "/lake/_checkpoints", ["/logs", "s3a://bucket/logs"])
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
LAKE = Lake("s3://bucket/lake", "/checkpoints")
LOG_STORE = "spark.delta.logStore.s3.impl"
VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION")


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "left_out", dict)
    monkeypatch.setattr(s3, "has_class", lambda *_: True)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def session(log_store: str | None, manager: str | None = None, answer: bool | Exception = True) -> Any:
    """Return a session that commits with a log store, whose try of the store has an answer."""

    def refuses_second(*_: object) -> bool:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(
        conf=SimpleNamespace(get=lambda *_: manager),
        sparkContext=SimpleNamespace(getConf=lambda: {LOG_STORE: log_store}),
        _jvm=SimpleNamespace(oncelake=SimpleNamespace(S3LogStore=SimpleNamespace(refusesSecond=refuses_second))),
        _jsparkSession=SimpleNamespace(sessionState=lambda: SimpleNamespace(newHadoopConf=lambda: None)),
    )


def test_places_elsewhere_need_nothing() -> None:
    for places in (NOWHERE, Places("/lake", "/lake/_checkpoints", ["hdfs:///logs"])):
        assert class_path(places) == ""
        assert conf(places, {}) == {}


def test_the_client_finds_what_amazons_programs_find(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "spark.hadoop.fs.s3a.endpoint.region" not in conf(BUCKET, {})
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert conf(BUCKET, {})["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9"
    assert conf(BUCKET, {})["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert conf(BUCKET, {})["spark.hadoop.fs.s3a.endpoint.region"] == "us-east-1"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:8")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    assert conf(BUCKET, {})["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:8"
    assert conf(BUCKET, {})["spark.hadoop.fs.s3a.endpoint.region"] == "eu-central-1"


def test_no_secret_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "the secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "the token")
    assert "the " not in "".join(conf(BUCKET, {}).values())


def test_checkpoints_and_tables_are_written_in_s3s_way_only_there() -> None:
    assert conf(BUCKET, {})[MANAGER] == "oncelake.S3Checkpoints"
    assert conf(BUCKET, {})[LOG_STORE] == "oncelake.S3LogStore"
    assert {MANAGER, LOG_STORE} & conf(SOURCE, {}).keys() == set()
    assert LOG_STORE not in conf(Places("/lake", CHECKPOINTS), {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (LOG_STORE, "io.delta.storage.S3SingleDriverLogStore"),
        ("spark.delta.logStore.s3a.impl", "com.example.Log"),
        (MANAGER, "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"),
    ],
)
def test_a_setting_that_replaces_our_classes_is_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"spark.conf.{key} is {value}, .*; remove that setting"):
        conf(BUCKET, {key: value})
    assert conf(SOURCE, {key: value})


def test_deltas_log_store_on_dynamodb_is_taken() -> None:
    assert conf(BUCKET, {LOG_STORE: "io.delta.storage.S3DynamoDBLogStore"})


def test_without_the_compiled_classes_a_lake_on_s3_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "left_out", lambda: {"S3LogStore": "it is not compiled"})
    with pytest.raises(ConfigError, match=r"missing: S3LogStore \(it is not compiled\); run: python -m"):
        conf(BUCKET, {})


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
        conf(BUCKET, {})
    assert class_path(SOURCE) == "", "such a Spark reads from S3 with libraries of the user's own"
    assert conf(SOURCE, {})


@pytest.mark.parametrize("log_store", [None, "io.delta.storage.S3SingleDriverLogStore"])
def test_a_session_with_another_log_store_is_refused(log_store: str | None) -> None:
    with pytest.raises(ConfigError, match=f"two drivers would overwrite .*--conf {LOG_STORE}=oncelake.S3LogStore"):
        check_lake(session(log_store), LAKE)


def test_a_session_whose_checkpoints_are_written_in_another_way_is_refused() -> None:
    lake = Lake("s3://bucket/lake", CHECKPOINTS)
    with pytest.raises(ConfigError, match=f"with {MANAGER}: unset, .*--conf {MANAGER}=oncelake.S3Checkpoints"):
        check_lake(session("oncelake.S3LogStore"), lake)
    check_lake(session("oncelake.S3LogStore", "oncelake.S3Checkpoints"), lake)


def test_a_session_without_the_class_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "has_class", lambda *_: False)
    with pytest.raises(ConfigError, match="does not have that class: give it the jar"):
        check_lake(session("oncelake.S3LogStore"), LAKE)


def test_a_store_that_ignores_the_condition_of_a_put_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"s3://bucket/lake: .*let a second file replace the first one .*Use a store"):
        check_lake(session("oncelake.S3LogStore", answer=False), LAKE)


def test_a_store_on_which_nothing_can_be_put_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3, "cause_of", str)
    monkeypatch.setattr(s3, "Py4JJavaError", OSError)
    with pytest.raises(OncelakeError, match=r"nothing can be put below s3://bucket/lake: AccessDenied. Check the"):
        check_lake(session("oncelake.S3LogStore", answer=OSError("AccessDenied")), LAKE)


@pytest.mark.parametrize("log_store", ["oncelake.S3LogStore", "io.delta.storage.S3DynamoDBLogStore"])
def test_a_session_whose_log_store_keeps_drivers_apart_is_taken(log_store: str) -> None:
    check_lake(session(log_store), LAKE)


def test_a_catalog_a_local_lake_and_databricks_commit_in_their_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    check_lake(session(None), Lake("/lake", CHECKPOINTS))
    check_lake(session(None), Lake("s3://bucket/lake", "/checkpoints", catalog="main"))
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.0")
    check_lake(session(None), LAKE)
