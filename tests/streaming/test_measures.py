"""Measures that are shown from parts, and windows of a zone, in the whole chain: crashes, a rebuild, the proof."""

import math
import sqlite3
import statistics
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from oncelake.lab.demo.made_log import lines_of, write_late_and_broken, write_log
from tests.support.crashing import crashed
from tests.support.house import House, error_log_conf
from tests.support.writers import each_writer

pytestmark = pytest.mark.spark

NUMBER = "try_cast(message AS DECIMAL(14,3))"
# a table whose MERGE delta-rs makes, and one whose MERGE Spark makes
GOLD = {
    "shares": {
        "every": "1 hour",
        "measures": {
            "lines": "count",
            "errors": "count where level = 'ERROR'",
            "error_rate": "rate where level = 'ERROR'",
            "mean": f"avg({NUMBER})",
        },
    },
    "spreads": {
        "every": "1 day",
        "zone": "Europe/Berlin",
        "measures": {
            "lines": "count",
            "spread": f"stddev({NUMBER})",
            "half": f"percentile({NUMBER}, 0.5)",
            "last": "last(message)",
        },
    },
}
BATCHES = (
    ["14:00:00 ERROR 250", "14:09:59 INFO 1", "14:59:59 INFO -3", "no line"],
    ["14:00:00 INFO x", "14:30:00 ERROR 4000"],
)
SHOWN = {
    "lines": 5,
    "errors": 2,
    "error_rate": 0.4,
    "mean": 1062.0,
    "spread": statistics.stdev([250, 1, -3, 4000]),
    "last": "-3",
    "half": 2 / (math.exp(0.0199) + 1),  # what is shown for 1
}


def steps(name: str, batch: int) -> Iterator[tuple[str, bool]]:
    """Yield the steps of a batch of a gold table, and whether it crashes before or after each."""
    yield f"_checkpoints/gold/{name}/offsets/{batch}", False
    yield f"gold/{name}/_delta_log/{batch + 1:020}.json", True
    yield f"gold/{name}/_delta_log/{batch + 1:020}.json", False


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", GOLD)
def test_a_crash_at_any_step_of_gold_counts_every_line_once(tmp_path: Path, spark: SparkSession, name: str) -> None:
    conf = tmp_path / "conf" / "local.yaml"
    conf.parent.mkdir()
    conf.write_text(yaml.safe_dump({**error_log_conf(), "gold": {name: GOLD[name]}}))
    house = House(tmp_path, conf)
    house.sets += [f"serving.url=sqlite:///{house.root}/served.db", f"serving.tables=[{name}]"]
    house.tell(spark, "serving", "init")
    for batch, lines in enumerate(BATCHES):
        house.write(f"{batch}.log", *(f"2017-07-30 {line}".encode() for line in lines))
        for step, before in steps(name, batch):
            with crashed(spark, step, before=before), pytest.raises((StageError, Py4JJavaError)):
                house.run(spark)
        house.run(spark)
    assert house.doubts(spark) == []
    (merged,) = house.rows(f"gold/{name}")
    expected = {measure: SHOWN[measure] for measure in GOLD[name]["measures"]}
    assert {measure: merged[measure] for measure in expected} == pytest.approx(expected, rel=1e-14)
    with sqlite3.connect(house.root / "served.db") as database:
        (served,) = database.execute(f"SELECT {', '.join(expected)} FROM {name}").fetchall()
    assert served == tuple(merged[measure] for measure in expected)
    counted = house.lakehouse().lines(f"gold.{name}", datetime(2017, 7, 30, 14, 30, tzinfo=UTC))
    assert (counted.total, counted.counted) == (5, 5)
    house.rebuild(spark, "gold")
    assert house.rows(f"gold/{name}") == [merged]


@each_writer
def test_large_batches_with_the_same_windows_and_keys_add_up(
    tmp_path: Path, spark: SparkSession, small_batch: str
) -> None:
    house = House(tmp_path, sets=[f"run.small_batch={small_batch}"])
    for batch in range(3):
        write_log(house.logs / f"{batch}", 600)
        write_late_and_broken(house.logs / f"late-{batch}", late=60, broken=3, seed=batch)
        house.run(spark)
    house.must_be([line for directory in house.logs.iterdir() for line in lines_of(directory)])
    assert not house.doubts(spark)
