"""Every measure whose value is computed from parts, in the whole chain: crashes, a rebuild, the proof, a database."""

import sqlite3
import statistics
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from tests.support.crashing import crashed
from tests.support.house import House, error_log_conf

pytestmark = pytest.mark.spark

HOUR = datetime(2017, 7, 30, 14, tzinfo=UTC)
NUMBER = "try_cast(message AS DECIMAL(14,3))"
MEASURES = {
    "lines": "count",
    "errors": "count where level = 'ERROR'",
    "error_rate": "rate where level = 'ERROR'",
    "mean": f"avg({NUMBER})",
}
# tables whose MERGE delta-rs makes, and Spark
GOLD = {
    "shares": {"every": "1 hour", "measures": MEASURES},
    "spreads": {"every": "1 hour", "measures": {"lines": "count", "spread": f"stddev({NUMBER})"}},
}
BATCHES = (
    ["14:00:00 ERROR 250", "14:09:59 INFO 1", "14:59:59 INFO -3", "no line"],
    ["14:00:00 INFO x", "14:30:00 ERROR 4000"],
)
SHOWN = {"lines": 5, "errors": 2, "error_rate": 0.4, "mean": 1062.0, "spread": statistics.stdev([250, 1, -3, 4000])}


@pytest.fixture
def house(tmp_path: Path) -> House:
    conf = tmp_path / "conf" / "local.yaml"
    conf.parent.mkdir()
    conf.write_text(yaml.safe_dump({**error_log_conf(), "gold": GOLD}))
    return House(tmp_path, conf)


def steps(name: str, batch: int) -> Iterator[str]:
    """Yield the files that a batch of a gold table writes, in order."""
    yield f"_checkpoints/gold/{name}/offsets/{batch}"
    yield f"gold/{name}/_delta_log/{batch + 1:020}.json"
    yield f"_checkpoints/gold/{name}/commits/{batch}"


def write(house: House, batch: int) -> None:
    house.write(f"{batch}.log", *(f"2017-07-30 {line}".encode() for line in BATCHES[batch]))


def shown(house: House, name: str) -> dict[str, Any]:
    (row,) = house.rows(f"gold/{name}")
    return {measure: row[measure] for measure in GOLD[name]["measures"]}


def test_a_crash_at_any_step_of_gold_counts_every_line_once(house: House, spark: SparkSession) -> None:
    house.sets += [f"serving.url=sqlite:///{house.root}/served.db", f"serving.tables=[{','.join(GOLD)}]"]
    house.sets += ["serving.mode=idempotent"]
    house.tell(spark, "serving", "init")
    for batch in range(len(BATCHES)):
        write(house, batch)
        for name in GOLD:
            for step in steps(name, batch):
                for before in (True, False):
                    with crashed(spark, step, before=before), pytest.raises((StageError, Py4JJavaError)):
                        house.run(spark)
        house.run(spark)
        assert house.doubts(spark) == []
    merged = {name: house.rows(f"gold/{name}") for name in GOLD}
    for name in GOLD:
        assert shown(house, name) == {key: SHOWN[key] for key in shown(house, name)}
        with sqlite3.connect(house.root / "served.db") as database:
            (served,) = database.execute(f"SELECT {', '.join(SHOWN)} FROM {name}").fetchall()
        assert served == tuple(SHOWN.values())
    house.rebuild(spark, "gold")
    assert {name: house.rows(f"gold/{name}") for name in GOLD} == merged
    counted = house.lakehouse().lines("gold.shares", HOUR)
    assert (counted.total, counted.counted) == (5, 5)
