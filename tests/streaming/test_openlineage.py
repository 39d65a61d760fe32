"""Each batch of a run is an event of OpenLineage with its exact range, and a receiver that is away stops nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.common.errors import StageError
from oncelake.common.lake import Table
from oncelake.lab.demo.server import free_port
from oncelake.observe.openlineage.events import FACET
from tests.support.house import House
from tests.support.openlineage import must_be_valid

pytestmark = pytest.mark.spark

LINES = [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:00 INFO two", b"broken", b""]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """Return a lake that serves a table and sends its events to a file."""
    made = House.with_error_log(tmp_path)
    made.sets = ["openlineage.enabled=true", f"serving.url=sqlite:///{tmp_path}/served.db"]
    assert CliRunner().invoke(app, ["serving", "init", *made.options]).exit_code == 0
    transport = {"type": "file", "log_file_path": str(tmp_path / "events.jsonl"), "append": True}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(transport))
    return made


def events(house: House) -> list[dict[str, Any]]:
    """Return the events that were sent; both schemas must accept each."""
    file = house.root / "events.jsonl"
    sent = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for event in sent:
        must_be_valid(event)
    return sent


def facets(house: House, stage: str) -> list[dict[str, Any]]:
    return [
        event["run"]["facets"][FACET]
        for event in events(house)
        if event["job"]["name"] == stage and event["eventType"] == "COMPLETE"
    ]


def test_the_ranges_of_the_events_are_those_of_the_commits_and_a_replay_repeats_them(
    house: House, spark: SparkSession
) -> None:
    stages = (*house.stages, "serving.error_log")
    for name in ("a.log", "b.log"):
        house.write(name, *LINES)
        house.run(spark)
    for stage in stages:
        first, second = facets(house, stage)
        assert (first["batchId"], second["batchId"]) == (0, 1)
        assert second["before"] == first["after"]
    for event in events(house):
        assert event["eventType"] in ("START", "COMPLETE")
    for stage, table in (("bronze", "bronze.access_log"), ("silver", "silver.access_log"), ("gold.error_log",) * 2):
        log = house.chain(spark).commit_log(Table.named(table))
        commits = {commit.version: commit for commit, _ in log.newest_first()}
        for facet in facets(house, stage):
            written = facet["tables"][table]
            commit = commits[written["version"]]
            assert commit.metadata is not None
            assert (commit.metadata.before, commit.metadata.end) == (facet.get("before"), facet["after"])
            assert commit.rows_changed == written["rows"]
    sent = events(house)
    for stage in house.stages:  # as if the process had been killed between the commits and Spark's own record
        for name in ("1", ".1.crc"):
            (house.checkpoint(stage) / "commits" / name).unlink(missing_ok=True)
    assert all(batch.replayed for batch in house.run(spark) if batch.stage in house.stages)
    again = events(house)[len(sent) :]
    assert len(again) == 2 * len(house.stages)
    assert all(event in sent for event in again)


def test_a_receiver_that_is_away_stops_no_batch(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    nobody = {"type": "http", "url": f"http://127.0.0.1:{free_port()}", "retry": {"total": 0}}
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT", json.dumps(nobody))
    house.write("a.log", *LINES)
    house.run(spark)
    house.must_be(LINES)
    warned = [text for text in house.said if "events could not be sent, which does not affect the tables" in text]
    assert len(warned) == 1


def test_a_stage_that_stops_is_told_as_a_failed_run(house: House, spark: SparkSession) -> None:
    house.sets.append("quality.gate.quarantined.fail=0.1")
    house.write("a.log", *LINES)
    with pytest.raises(StageError):
        house.run(spark)
    fail = events(house)[-1]
    assert (fail["eventType"], fail["job"]["name"]) == ("FAIL", "silver")
    assert "quarantine" in fail["run"]["facets"]["errorMessage"]["message"]
    assert fail["run"]["facets"][FACET]["batchId"] == 0
