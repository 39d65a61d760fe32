"""A format gets typed columns while its lake lives: every line still counts once, and gold measures the new columns."""

import json
from decimal import Decimal
from typing import Any

import pytest
import yaml
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, StageError
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from tests.support.crashing import crashed
from tests.support.house import House, until
from tests.support.writers import each_writer

pytestmark = pytest.mark.spark

JSON = {"time": "time", "level": "level", "message": "message"}
TYPED: dict[str, Any] = {
    "status": "int",
    "user_id": "string from $.user.id",
    "latency_ms": {"type": "double", "misfit": "quarantine"},
    "price": "decimal(10,2)",
}
BY_STATUS: dict[str, Any] = {
    "every": "1 day",
    "where": "status >= 400",
    "by": {"status": "status", "user_id": "user_id"},
    "measures": {"lines": "count", "slowest": "max(latency_ms)", "total": "sum(price)"},
}
OLD: list[dict[str, Any]] = [{"status": 200, "user": {"id": "ann"}, "latency_ms": 1.5, "price": 1}, {"status": 500}]
NEW: list[dict[str, Any]] = [
    {"status": 500, "user": {"id": "bob"}, "latency_ms": 2.5, "price": 12345678.91},
    {"status": "500", "user": {"id": "bob"}, "latency_ms": 7, "price": "0.09"},
    {"status": "500.5", "user": {"id": "bob"}, "latency_ms": 3, "price": 0.001},
    {"status": 404, "latency_ms": "slow"},
    {"status": None},
]


def declare(house: House, columns: dict[str, Any] | None, *, gold: bool = False) -> None:
    """Write the format with some columns, and a gold table that measures them."""
    path = house.root / "typed.yaml"
    declared = {"json": JSON, "time": "iso8601", **({"columns": columns} if columns else {})}
    path.write_text(yaml.safe_dump(declared, sort_keys=False))
    kept = [setting for setting in house.sets if not setting.startswith(("source.format", "gold.by_status"))]
    house.sets = [*kept, f"source.format={path}", *([f"gold.by_status={json.dumps(BY_STATUS)}"] if gold else [])]


def lines(*values: dict[str, Any]) -> list[bytes]:
    return [json.dumps({"time": "2017-07-30T14:09:08Z", "level": "ERROR", **value}).encode() for value in values]


def silver_values(house: House, *names: str) -> list[tuple[Any, ...]]:
    rows = house.rows("silver/access_log")
    return sorted((tuple(row[name] for name in names) for row in rows), key=str)


def quality(house: House) -> dict[str, Any]:
    """Return what the last commit to quarantine records about its batch."""
    metadata = DeltaLog(LocalFiles(), str(house.table("silver/quarantine"))).state().metadata
    assert metadata is not None
    return dict(metadata.quality)


def proven(house: House, spark: SparkSession) -> None:
    assert house.doubts(spark) == []
    assert [str(link) for link in house.lakehouse(spark).prove(full=True).links if not link.holds] == []


NONE = (None,) * 4
TYPED_ROWS = sorted(
    [
        *(NONE, NONE, NONE),
        (500, "bob", 2.5, Decimal("12345678.91")),
        (500, "bob", 7.0, Decimal("0.09")),
        (None, "bob", 3.0, None),
    ],
    key=str,
)


@each_writer
def test_columns_are_added_to_a_running_lake(house: House, spark: SparkSession, small_batch: str) -> None:
    house.sets += [f"run.small_batch={small_batch}"]
    declare(house, None)
    house.write("old.log", *lines(*OLD))
    house.run(spark)

    declare(house, TYPED, gold=True)
    house.write("new.log", *lines(*NEW))
    (report,) = [batch for batch in house.run(spark) if batch.stage == "silver"]
    assert dict(report.refused) == {"column_status": 1, "column_price": 1, "column_latency_ms": 1}
    assert quality(house)["rules"] == report.refused

    assert silver_values(house, *TYPED) == TYPED_ROWS
    (status_row,) = house.rows("gold/by_status")
    assert [status_row[name] for name in ("status", "user_id", "lines", "slowest", "total")] == [
        *(500, "bob", 2, 7.0, Decimal("12345679.00")),
    ]
    assert sum(house.errors().values()) == 6
    comments = {
        field.name: field.metadata
        for field in spark.read.format("delta").load(str(house.table("silver/access_log"))).schema
    }
    assert comments["user_id"] == {"comment": "$.user.id of the line, by the log format"}
    proven(house, spark)

    assert house.run(spark) == []
    house.write("more.log", *lines(NEW[0]))
    reports = house.run(spark)
    assert [batch.stage for batch in reports] == ["bronze", "silver", "gold.error_log", "gold.by_status"]
    assert [row["lines"] for row in house.rows("gold/by_status")] == [3]
    proven(house, spark)


def test_gold_can_measure_a_new_column_though_no_line_is_new(house: House, spark: SparkSession) -> None:
    declare(house, None)
    house.write("old.log", *lines(*OLD))
    house.run(spark)
    declare(house, TYPED, gold=True)
    house.run(spark)
    assert house.rows("gold/by_status") == []
    assert silver_values(house, *TYPED) == [NONE, NONE]
    proven(house, spark)
    house.rebuild(spark, "silver")
    assert [row["status"] for row in house.rows("gold/by_status")] == [500]
    proven(house, spark)


@pytest.mark.long  # the crashes below add columns in several runs
def test_a_continuous_run_goes_on_with_new_columns(house: House, spark: SparkSession) -> None:
    declare(house, None)
    house.write("old.log", *lines(*OLD))
    house.run(spark)
    declare(house, TYPED, gold=True)
    process = house.start("run")
    try:
        house.write("new.log", *lines(*NEW))
        until(lambda: (house.table("gold/by_status") / "_delta_log").exists() and bool(house.rows("gold/by_status")))
        until(lambda: sum(house.errors().values()) == 6)
    finally:
        process.terminate()
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert [row["lines"] for row in house.rows("gold/by_status")] == [2]
    proven(house, spark)


def test_columns_in_another_order_keep_the_local_writer(house: House, spark: SparkSession) -> None:
    declare(house, {"status": "int"})
    house.write("old.log", *lines(NEW[0]))
    house.run(spark)
    declare(house, {"user_id": "string from $.user.id", "status": "int"})
    house.write("new.log", *lines(NEW[1]))
    house.run(spark)
    declare(house, {"price": "decimal(10,2)"})
    house.write("last.log", *lines(NEW[1]))
    house.run(spark)
    rows = silver_values(house, "status", "user_id", "price")
    assert rows == sorted([(500, None, None), (500, "bob", None), (None, None, Decimal("0.09"))], key=str)
    for commit in sorted((house.table("silver/access_log") / "_delta_log").glob("*.json")):
        text = commit.read_text()
        assert "ADD COLUMNS" in text or '"engineInfo":"delta-rs' in text
    proven(house, spark)


def test_another_type_needs_another_name_or_a_rebuild(house: House, spark: SparkSession) -> None:
    declare(house, {"status": "int"})
    house.write("a.log", *lines(*NEW[:3]))
    house.run(spark)
    before = house.versions()

    declare(house, {"Status": "int"})
    with pytest.raises(ConfigError, match="has the column status of type int"):
        house.run(spark)
    declare(house, {"status": "decimal(5,1)"})
    with pytest.raises(ConfigError, match=r"Declare it under another name.*oncelake rebuild silver"):
        house.run(spark)
    assert house.versions() == before

    declare(house, {"exact_status": "decimal(5,1) from status"})
    house.run(spark)
    declare(house, {"status": "decimal(5,1)"})
    house.rebuild(spark, "silver")
    assert [row[0] for row in silver_values(house, "status")] == [Decimal("500.0"), Decimal("500.0"), Decimal("500.5")]
    assert "exact_status" not in house.rows("silver/access_log")[0]
    proven(house, spark)


def test_a_replay_of_quarantine_fills_the_columns(house: House, spark: SparkSession) -> None:
    declare(house, {"status": {"type": "int", "misfit": "quarantine"}})
    house.write("a.log", *lines(*NEW[:3]))
    house.run(spark)
    assert house.size("silver/quarantine") == 1
    declare(house, {"status": "int", "exact": "decimal(5,1) from status"})
    house.tell(spark, "quarantine", "replay")
    house.run(spark)
    assert silver_values(house, "status", "exact") == sorted(
        [(500, None), (500, None), (None, Decimal("500.5"))], key=str
    )
    assert house.size("silver/quarantine") == 0
    proven(house, spark)


def test_a_half_written_batch_keeps_its_columns(house: House, spark: SparkSession) -> None:
    """Silver has the batch, quarantine does not: with other columns the batch would have other misfits."""
    declare(house, {"status": "int"})
    house.write("a.log", *lines(*NEW[:3]))
    house.run(spark)
    house.write("b.log", *lines(*NEW[:3]))
    third = f"silver/quarantine/_delta_log/{2:020}.json"
    with crashed(spark, third, before=True), pytest.raises((StageError, Py4JJavaError)):
        house.run(spark)
    declare(house, {"status": "int", "price": "decimal(10,2)"})
    with pytest.raises(StageError, match="Put the old values back"):
        house.run(spark)
    declare(house, {"status": "int"})
    house.run(spark)
    declare(house, {"status": "int", "price": "decimal(10,2)"})
    house.write("c.log", *lines(NEW[0]))
    house.run(spark)
    assert [row["price"] for row in house.rows("silver/access_log")].count(None) == 6
    proven(house, spark)


STEPS = {
    "silver": [f"silver/access_log/_delta_log/{2:020}.json", "_checkpoints/silver/offsets/1"],
    "both": [f"silver/access_log/_delta_log/{3:020}.json", f"silver/quarantine/_delta_log/{1:020}.json"],
    "gold": ["_checkpoints/silver/commits/1", "_checkpoints/gold/error_log/offsets/1"],
    "after": [f"gold/error_log/_delta_log/{2:020}.json", "_checkpoints/gold/error_log/commits/1"],
}


@pytest.mark.timeout(900)
# the crash matrix of a whole run has both writers
@each_writer
def test_a_crash_while_columns_are_added_loses_nothing(house: House, spark: SparkSession, small_batch: str) -> None:
    house.sets += [f"run.small_batch={small_batch}"]
    house.sets += [f"serving.url=sqlite:///{house.root}/served.db", "serving.tables=[error_log]"]
    house.sets += ["serving.mode=transactional"]
    house.tell(spark, "serving", "init")
    declare(house, None)
    house.write("old.log", *lines(*OLD))
    house.run(spark)

    declare(house, TYPED, gold=True)
    house.write("new.log", *lines(*NEW))
    for step in (step for steps in STEPS.values() for step in steps):
        for before in (True, False):
            with crashed(spark, step, before=before), pytest.raises((StageError, Py4JJavaError)):
                house.run(spark)
    house.run(spark)
    assert silver_values(house, *TYPED) == TYPED_ROWS
    assert [row["lines"] for row in house.rows("gold/by_status")] == [2]
    assert sum(house.errors().values()) == 6
    proven(house, spark)
