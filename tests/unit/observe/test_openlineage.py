"""OpenLineage's events say what a batch covers, by its rules, and no receiver stops a run."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import ValidationError
from openlineage.client.serde import Serde
from pydantic import SecretStr

from oncelake.common.errors import ConfigError
from oncelake.engine.chain import chain_of, named
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import configured
from oncelake.engine.settings import OpenLineageSettings
from oncelake.exactly_once.batch import CommittedBatch, Event, Notice
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.lab.demo.server import free_port
from oncelake.observe.openlineage import follow
from oncelake.observe.openlineage.datasets import DatasetName, Datasets, file_name, served_name
from oncelake.observe.openlineage.events import FACET, SCHEMA_URL, StageJob, committed, failed, run_id
from oncelake.observe.openlineage.follow import BatchEvents, LineageSender, check_installed
from oncelake.serving.settings import ServingSettings
from tests.support.house import until
from tests.support.openlineage import FACET_SCHEMA, must_be_valid

BEFORE, AFTER = '[null,{"reservoirId":"a","reservoirVersion":1}]', '[null,{"reservoirId":"a","reservoirVersion":3}]'
SILVER = DatasetName("file", "/lake/silver/access_log")
JOB = StageJob(
    "oncelake",
    "silver",
    [DatasetName("file", "/lake/bronze/access_log")],
    {"silver.access_log": SILVER, "silver.quarantine": DatasetName("file", "/lake/silver/quarantine")},
    frozenset({"silver.access_log", "silver.quarantine"}),
)


def commit(table: str, version: int, rows: int, **more: Any) -> ChainCommit:
    after = "\n".join(["v1", json.dumps({"batchTimestampMs": 1_796_000_000_000}), AFTER])
    metadata = CommitMetadata("silver", table, "q-1", 7, BEFORE, after, 100, "ab12", "run-1", **more)
    return ChainCommit(version, "WRITE", {}, {"numOutputRows": str(rows)}, 1_796_000_001_500, metadata)


def batch(*, replayed: bool = False) -> CommittedBatch:
    commits = {
        "silver.access_log": commit("silver.access_log", 9, 20, quality={"lines": 22, "rules": {"pattern": 2}}),
        "silver.quarantine": commit("silver.quarantine", 4, 2),
    }
    rows = {table: 0 if replayed else each.rows_changed for table, each in commits.items()}
    return CommittedBatch("silver", 7, rows, 0.5, replayed, query_id="q-1", position=AFTER, commits=commits)


def told(events: Sequence[Any]) -> list[dict[str, Any]]:
    """Return events as they are sent; both schemas must accept them."""
    sent = [json.loads(Serde.to_json(event)) for event in events]
    for event in sent:
        must_be_valid(event)
    return sent


def test_a_batch_is_a_run_with_its_exact_range() -> None:
    start, complete = told(committed(JOB, batch()))
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"] == run_id("q-1", 7)
    assert complete["job"]["namespace"] == "oncelake"
    assert complete["job"]["name"] == "silver"
    facet = complete["run"]["facets"][FACET]
    assert facet == start["run"]["facets"][FACET]
    assert facet.pop("_producer").startswith("urn:oncelake:")
    assert facet == {
        "_schemaURL": SCHEMA_URL,
        "stage": "silver",
        "queryId": "q-1",
        "batchId": 7,
        "before": BEFORE,  # with its null: an entry of a list means something
        "after": AFTER,
        "tables": {
            "silver.access_log": {"rows": 20, "lines": 20, "version": 9},
            "silver.quarantine": {"rows": 2, "lines": 2, "version": 4},
        },
        "refused": {"pattern": 2},
        "rules": "ab12",
    }
    assert [name["name"] for name in complete["inputs"]] == ["/lake/bronze/access_log"]
    output = complete["outputs"][0]
    assert output["facets"]["version"]["datasetVersion"] == "9"
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 20
    assert start["eventTime"] < complete["eventTime"]


def test_a_replayed_batch_is_told_in_the_same_words() -> None:
    assert told(committed(JOB, batch())) == told(committed(JOB, batch(replayed=True)))


def test_each_batch_of_each_query_has_a_run_of_its_own() -> None:
    assert len({run_id("q-1", 7), run_id("q-1", 8), run_id("q-2", 7), run_id("q-1", 7, "start-1")}) == 4
    assert run_id("q-1", 7) == "3814165a-7fe8-5a58-932d-5236d5f004a6"


def test_a_failed_attempt_is_another_run_than_the_batch() -> None:
    start, fail = told(failed(JOB, {"query": "q-1", "batch_id": 7}, "disk full", "start-1", 1_796_000_000_000))
    assert (start["eventType"], fail["eventType"]) == ("START", "FAIL")
    assert start["run"]["runId"] == fail["run"]["runId"] != run_id("q-1", 7)
    assert fail["run"]["facets"]["errorMessage"]["message"] == "disk full"
    assert fail["run"]["facets"][FACET]["batchId"] == 7


def test_a_stage_that_failed_before_its_first_batch_is_told_without_one() -> None:
    facet = told(failed(JOB, {}, "no such table", "start-1", 0))[1]["run"]["facets"][FACET]
    assert "batchId" not in facet
    assert facet["stage"] == "silver"


def test_a_served_table_has_no_version() -> None:
    served = replace(JOB, versioned=frozenset())
    complete = told(committed(served, batch()))[1]
    assert "version" not in complete["run"]["facets"][FACET]["tables"]["silver.access_log"]
    assert complete["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 20


@pytest.mark.parametrize(
    "wrong", [{"batchId": 1}, {"stage": None}, {"tables": {"t": {}}}, {"before": [1]}, {"tables": {"t": {"row": 1}}}]
)
def test_the_schema_refuses_a_facet_that_says_half(wrong: dict[str, Any]) -> None:
    event = told(committed(JOB, batch()))[1]
    event["run"]["facets"][FACET] |= wrong
    if "batchId" in wrong:
        del event["run"]["facets"][FACET]["queryId"]
    with pytest.raises(ValidationError):
        must_be_valid(event)


def test_the_shipped_schema_is_the_one_that_the_facet_names() -> None:
    assert f"{json.loads(FACET_SCHEMA.read_text())['$id']}#/$defs/BatchRunFacet" == SCHEMA_URL


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("/var/log/my app", "file", "/var/log/my app"),
        ("file:///var/log/x/", "file", "/var/log/x"),
        ("s3a://bucket/logs/x/", "s3://bucket", "logs/x"),
        ("gs://bucket/logs", "gs://bucket", "logs"),
        ("hdfs://node:8020/logs", "hdfs://node:8020", "/logs"),
        ("abfss://box@store.dfs.core.windows.net/logs", "abfss://box@store.dfs.core.windows.net", "/logs"),
    ],
)
def test_directories_are_named_by_openlineages_rules(path: str, namespace: str, name: str) -> None:
    assert file_name(path) == DatasetName(namespace, name)


@pytest.mark.parametrize(
    ("url", "namespace", "name"),
    [
        ("mysql://me:hush@db/shop", "mysql://db:3306", "shop.error_log"),
        ("mariadb+pymysql://me:hush@db:3307/shop", "mysql://db:3307", "shop.error_log"),
        ("postgresql+psycopg://me:hush@db/shop", "postgres://db:5432", "shop.public.error_log"),
        ("sqlite:////data/x.db", "sqlite:///data/x.db", "error_log"),
    ],
)
def test_served_tables_are_named_without_user_and_password(url: str, namespace: str, name: str) -> None:
    assert served_name(ServingSettings(url=SecretStr(url)), "error_log") == DatasetName(namespace, name)


def test_a_sink_of_ones_own_is_named_by_its_class() -> None:
    settings = ServingSettings(sink="shop.sinks:Redis")
    assert served_name(settings, "error_log") == DatasetName("sink://shop.sinks:Redis", "error_log")


def datasets(*sets: str) -> Datasets:
    return Datasets(chain_of(*configured(shipped_conf() / "local.yaml", ["lake.root=/lake", *sets])))


def test_a_stage_s_tables_and_its_source_are_datasets() -> None:
    names = datasets("source.path=/logs")
    stages = names.chain.stages
    assert names.inputs(named(stages, "bronze"), None) == [DatasetName("file", "/logs")]
    assert names.inputs(named(stages, "silver"), AFTER) == [DatasetName("file", "/lake/bronze/access_log")]
    assert names.outputs(named(stages, "silver"))["silver.access_log"] == SILVER


def test_topics_are_datasets_also_those_that_a_pattern_finds() -> None:
    sets = ("source.kind=kafka", "source.bootstrap_servers=one:9092,two:9092", "source.topic_pattern=app.*")
    names = datasets(*sets)
    position = '{"app-b":{"0":5},"app-a":{"0":1,"1":2}}'
    assert names.inputs(named(names.chain.stages, "bronze"), position) == [
        DatasetName("kafka://one:9092", "app-a"),
        DatasetName("kafka://one:9092", "app-b"),
    ]


def test_only_batches_and_failures_of_stages_are_told() -> None:
    events = BatchEvents(datasets("source.path=/logs").chain)
    assert [event["eventType"] for event in told(events(batch()))] == ["START", "COMPLETE"]
    assert events(Notice("silver", "waits")) == ()
    stopped = Notice("silver", "stopped", "warning", failure={"stage": "silver", "query": "q-1", "batch_id": 7})
    assert [event["eventType"] for event in told(events(stopped))] == ["START", "FAIL"]


@dataclass
class Receiver:
    """A receiver of events that may be away or refuse them."""

    error: Exception | None = None
    told: list[Any] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    closed: bool = False

    def emit(self, event: Any) -> None:
        if self.error is not None:
            raise self.error
        self.told.append(event)

    def close(self, seconds: float) -> None:
        self.closed = True

    def sender(self, later: float = 0.01) -> LineageSender:
        def events(event: Event) -> Sequence[Any]:
            return [event.batch_id]

        return LineageSender(events, self.warned.append, lambda: self, later)


def numbered(number: int) -> CommittedBatch:
    return CommittedBatch("silver", number, {}, 0.1)


def test_every_batch_is_sent_before_the_run_ends() -> None:
    receiver = Receiver()
    with receiver.sender().going_on() as sender:
        for number in range(100):
            sender.put(numbered(number))
        sender.put(Notice("silver", "waits"))
    assert receiver.told == [*range(100)]
    assert receiver.closed


def test_a_receiver_that_is_away_is_warned_of_once_and_gets_the_batches_later() -> None:
    receiver = Receiver(OSError("connection refused"))
    with receiver.sender().going_on() as sender:
        sender.put(numbered(1))
        sender.put(numbered(2))
        until(lambda: bool(receiver.warned), 5)
        time.sleep(0.1)
        receiver.error = None
        until(lambda: len(receiver.told) == 2, 5)
    assert receiver.warned == ["connection refused"]
    assert receiver.told == [1, 2]


@dataclass
class Response:
    status_code: int


@pytest.mark.parametrize(("status", "told"), [(422, [2]), (413, [2]), (401, []), (403, []), (429, []), (500, [])])
def test_an_event_that_is_refused_does_not_hold_up_the_next(status: int, told: list[int]) -> None:
    error = OSError("unprocessable")
    error.response = Response(status)  # type: ignore[attr-defined]

    class Refusing(Receiver):
        def emit(self, event: Any) -> None:
            if event == 1 and self.error is None:
                raise error
            super().emit(event)

    receiver = Refusing()
    sender = receiver.sender()
    sender.put(numbered(1))
    sender.put(numbered(2))
    sender.send()
    assert receiver.told == told, "what is not refused for good waits, and the next one behind it"
    assert sender.failed is (told == [])
    assert receiver.warned == ["unprocessable"]


def test_an_event_that_cannot_be_made_does_not_hold_up_the_next() -> None:
    receiver = Receiver()

    def events(event: Event) -> Sequence[Any]:
        if event.batch_id == 1:
            raise StopIteration
        return [event.batch_id]

    sender = LineageSender(events, receiver.warned.append, lambda: receiver)
    sender.put(numbered(1))
    sender.put(numbered(2))
    sender.send()
    assert receiver.told == [2]
    assert len(receiver.warned) == 1


def test_no_password_of_a_receivers_address_is_printed() -> None:
    receiver = Receiver(OSError("401 Client Error: for url: https://user:secret@catalog.example/api"))
    sender = receiver.sender()
    sender.put(numbered(1))
    sender.send()
    assert receiver.warned == ["401 Client Error: for url: https://catalog.example/api"]


def test_a_configuration_that_openlineage_refuses_is_a_warning() -> None:
    receiver = Receiver()

    def client() -> Any:
        raise ValueError("Failed to parse OpenLineage config.")

    sender = LineageSender(lambda _: [1], receiver.warned.append, client)
    sender.put(numbered(1))
    sender.send()
    assert receiver.warned == ["Failed to parse OpenLineage config"]


def test_openlineages_own_client_is_warned_of_once_however_often_it_tries(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    nobody = {"type": "http", "url": f"http://127.0.0.1:{free_port()}", "retry": {"total": 2, "backoff_factor": 0}}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(nobody))
    warned: list[str] = []
    sender = LineageSender(lambda _: committed(JOB, batch()), warned.append)
    sender.put(batch())
    sender.send()
    sender.send()
    assert len(warned) == 1
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


def test_a_run_of_days_without_a_receiver_keeps_a_bounded_number_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "MOST", 3)
    receiver = Receiver(OSError("away"))
    sender = receiver.sender()
    for number in range(10):
        sender.put(numbered(number))
    receiver.error = None
    sender.send()
    assert receiver.told == [7, 8, 9]


def test_without_the_library_a_run_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "find_spec", lambda _: None)
    check_installed(OpenLineageSettings())
    with pytest.raises(ConfigError, match=r"install oncelake\[openlineage\]"):
        check_installed(OpenLineageSettings(enabled=True))


def test_the_schema_ships_with_the_package() -> None:
    assert Path(FACET_SCHEMA).is_file()
