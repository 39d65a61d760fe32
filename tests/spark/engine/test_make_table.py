"""A table that delta-rs creates is the table that Spark creates; what delta-rs would make in another way is Spark's."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from oncelake.common.lake import BRONZE
from oncelake.engine import make_table
from oncelake.engine.chain import Chain, named
from oncelake.engine.make_table import make_tables
from tests.support.house import House

pytestmark = pytest.mark.spark


def created(directory: Path) -> dict[str, Any]:
    """Return the actions of version 0, without what differs in each table."""
    text = (directory / "_delta_log" / f"{0:020}.json").read_text()
    actions: dict[str, Any] = {name: value for line in text.splitlines() for name, value in json.loads(line).items()}
    schema = json.loads(actions["metaData"].pop("schemaString"))
    for key in ("id", "createdTime"):
        del actions["metaData"][key]
    filled = {key: value for key, value in actions["metaData"].items() if value is not None}
    return {"schema": schema, "metaData": filled, "protocol": actions["protocol"]}


def made(root: Path, spark: SparkSession, *, by_delta_rs: bool) -> tuple[Chain, Mapping[str, dict[str, Any]]]:
    house = House(root)
    chain = house.chain(spark)
    for stage in chain.stages:
        make_tables(spark, chain, stage, by_delta_rs=by_delta_rs)
    return chain, {name: created(house.table(name)) for name in house.tables}


def by(house: House, table: str) -> str:
    text = (house.table(table) / "_delta_log" / f"{0:020}.json").read_text()
    return "delta-rs" if "delta-rs" in text else "Spark"


def test_both_writers_create_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    _, by_spark = made(tmp_path / "spark", spark, by_delta_rs=False)
    _, by_delta_rs = made(tmp_path / "delta-rs", spark, by_delta_rs=True)
    assert by_delta_rs == by_spark
    assert by(House(tmp_path / "spark"), "silver/access_log") == "Spark"
    assert by(House(tmp_path / "delta-rs"), "silver/access_log") == "delta-rs"


def test_a_table_with_a_change_data_feed_is_made_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    house = House(tmp_path, sets=["serving.url=sqlite:///served.db", "serving.tables=[error_log]"])
    chain = house.chain(spark)
    for name in ("gold.error_log", "gold.log_volume"):
        make_tables(spark, chain, named(chain.stages, name), by_delta_rs=True)
    assert by(house, "gold/error_log") == "Spark"
    assert by(house, "gold/log_volume") == "delta-rs"


def test_defaults_for_new_tables_in_sparks_settings_are_kept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make_table, "NEW_TABLES", "spark.sql.session.timeZone")
    house = House(tmp_path)
    chain = house.chain(spark)
    make_tables(spark, chain, named(chain.stages, "bronze"), by_delta_rs=True)
    assert by(house, "bronze/access_log") == "Spark"


def test_what_a_killed_creation_left_behind_does_not_stop_the_next(spark: SparkSession, tmp_path: Path) -> None:
    house = House(tmp_path)
    log = house.table("bronze/access_log") / "_delta_log"
    log.mkdir(parents=True)
    (log / f".{0:020}.json.tmp").touch()
    (log / "_commit_half.json.tmp").touch()
    chain = house.chain(spark)
    make_tables(spark, chain, named(chain.stages, "bronze"), by_delta_rs=True)
    assert DeltaTable(house.table("bronze/access_log")).version() == 0
    assert spark.read.format("delta").load(chain.lake.at(BRONZE)).count() == 0


def test_a_table_that_another_process_creates_first_is_kept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path)
    chain = house.chain(spark)
    make_tables(spark, chain, named(chain.stages, "bronze"), by_delta_rs=True)
    before = house.table_id("bronze/access_log")
    monkeypatch.setattr("oncelake.exactly_once.delta_log.DeltaLog.newest", lambda _: None)
    make_tables(spark, chain, named(chain.stages, "bronze"), by_delta_rs=True)
    assert house.table_id("bronze/access_log") == before


def test_what_delta_rs_cannot_create_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    house = House(tmp_path)
    (house.lake / "bronze").mkdir(parents=True)
    (house.lake / "bronze" / "access_log").write_text("a file in the table's place")
    chain = house.chain(spark)
    with pytest.raises(AnalysisException):
        make_tables(spark, chain, named(chain.stages, "bronze"), by_delta_rs=True)
