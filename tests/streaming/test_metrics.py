"""The metrics endpoint of a run agrees with the tables while it runs, and leaves nothing behind."""

import re
import threading
import urllib.request

import pytest
from pyspark.sql import SparkSession

from oncelake.lab.demo.server import free_port
from oncelake.observe import measure
from tests.support.house import House, until
from tests.support.spark_handles import query_listeners

pytestmark = pytest.mark.spark

LINES = [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:00 INFO two", b"broken", b""]


def figures(port: int, *, there: bool = True) -> dict[str, float]:
    """Return the endpoint's figures by name and attributes; none if it has not started yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
    except OSError:
        if there:
            raise
        return {}
    return {name: float(value) for name, value in re.findall(r"^(oncelake_\S+) (\S+)$", text, re.MULTILINE)}


def rows_of(house: House) -> dict[str, float]:
    """Return the row counts of the append-only tables, under the endpoint's names."""
    at = {"bronze.access_log": "bronze", "silver.access_log": "silver", "silver.quarantine": "silver"}
    return {
        f'oncelake_rows_total{{stage="{stage}",table="{table}"}}': float(house.size(table.replace(".", "/")))
        for table, stage in at.items()
    }


def batches(port: int, stage: str) -> float:
    """Return how many batches of a stage were written."""
    return figures(port).get(f'oncelake_batches_total{{outcome="written",stage="{stage}"}}', 0)


def test_the_endpoint_agrees_with_the_tables_during_a_run(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "LOOK", 0.2)
    port = free_port()
    house.sets = [f"metrics.port={port}"]
    house.write("a.log", *LINES)
    stopping = threading.Event()
    listeners = len(query_listeners(spark))
    thread = threading.Thread(target=house.lakehouse(spark).run, kwargs={"stopping": stopping})
    thread.start()
    try:
        until(lambda: "oncelake_rows_total" in str(figures(port, there=False)))
        until(lambda: batches(port, "gold.error_log") > 0)
        house.write("b.log", *LINES)
        for stage in ("silver", "gold.error_log"):
            until(lambda stage=stage: batches(port, stage) > 1)  # type: ignore[misc]
        until(lambda: figures(port)['oncelake_backlog{stage="gold.error_log",unit="rows"}'] == 0)
        metrics = figures(port)
    finally:
        stopping.set()
        thread.join(120)
    house.must_be(LINES * 2)
    assert {name: value for name, value in metrics.items() if name in rows_of(house)} == rows_of(house)
    assert metrics['oncelake_quarantined_total{rule="blank"}'] == 2
    for stage in house.stages:
        assert metrics[f'oncelake_stage_up{{stage="{stage}"}}'] == 1
        assert metrics[f'oncelake_batch_duration_seconds_count{{outcome="written",stage="{stage}"}}'] >= 1
        assert metrics[f'oncelake_phase_time_seconds_total{{phase="addBatch",stage="{stage}"}}'] > 0
        assert 0 <= metrics[f'oncelake_freshness_seconds{{stage="{stage}"}}'] < 60
    assert metrics['oncelake_backlog{stage="bronze",unit="files"}'] == 0
    assert not any("other" in name for name in metrics)
    with pytest.raises(OSError, match="refused"):
        figures(port)
    assert len(query_listeners(spark)) == listeners
    assert not any(running.name == "measure" for running in threading.enumerate())
