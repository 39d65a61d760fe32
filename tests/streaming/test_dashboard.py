"""Every query of the Databricks dashboard works, and its answers equal the tables."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from oncelake.engine.configuration import load
from tests.support.bundle.dashboard import content, queries, wanted
from tests.support.bundle.resolve import Bundle, resolve
from tests.support.house import House
from tests.support.lakes import LINES, Filled
from tests.support.places import ROOT

pytestmark = pytest.mark.spark

GIVEN = {
    "catalog": "spark_catalog",
    "warehouse_id": "0123456789abcdef",
    "source": "{path: /logs}",
    "service_principal": "6f1c4f4e-5a44-4a8e-a6a5-0d9a86d0a000",
    "operators": "log-operators",
    "readers": "log-readers",
}


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return resolve(ROOT, "prod", GIVEN)


@pytest.fixture(scope="module")
def dashboard(bundle: Bundle) -> dict[str, Any]:
    """Return the dashboard's file, as deployed in prod."""
    (declared,) = bundle.config["resources"]["dashboards"].values()
    assert declared["dataset_catalog"] == "spark_catalog"
    return content(bundle, declared)


@pytest.fixture(scope="module")
def lake(bundle: Bundle, filled: Filled, spark: SparkSession) -> Iterator[House]:
    """Copy the filled lake into the schemas that prod has on Databricks."""
    house = filled.again(spark)
    schemas = {layer: declaration["name"] for layer, declaration in bundle.config["resources"]["schemas"].items()}
    for layer, schema in schemas.items():
        spark.sql(f"CREATE DATABASE `{schema}`")
        for path in (house.lake / layer).glob("*"):  # no audit has made quality
            spark.sql(f"CREATE TABLE `{schema}`.`{path.name}` USING delta LOCATION '{path}'")
    yield house
    for schema in schemas.values():
        spark.sql(f"DROP DATABASE `{schema}` CASCADE")


def test_every_field_of_every_widget_is_answered(dashboard: dict[str, Any], lake: House, spark: SparkSession) -> None:
    del lake
    asked = queries(dashboard)
    for dataset, expression in wanted(dashboard):
        assert spark.sql(f"SELECT {expression} FROM ({asked[dataset]})").count() > 0, (dataset, expression)
    assert {dataset for dataset, _ in wanted(dashboard)} == set(asked)


def test_the_shown_figures_equal_the_tables(dashboard: dict[str, Any], lake: House, spark: SparkSession) -> None:
    answer = lake.must_be(LINES)
    rows = {name: [row.asDict() for row in spark.sql(sql).collect()] for name, sql in queries(dashboard).items()}
    (balance,) = rows["balance"]
    assert balance == {"bronze": answer.lines, "silver": answer.parsed, "quarantine": answer.broken, "on_the_way": 0}
    assert {row["name"]: row["lines"] for row in rows["rows"]} == {
        "bronze.access_log": answer.lines,
        "silver.access_log": answer.parsed,
        "silver.quarantine": answer.broken,
        "gold.error_log": sum(answer.errors.values()),
        "gold.log_volume": answer.parsed,
    }
    assert sum(row["lines"] for row in rows["quarantined"]) == answer.broken
    assert sum(row["lines"] for row in rows["reasons"]) >= answer.broken
    (newest,) = rows["freshness"]
    assert newest["last_log_time"] == max(row["log_time"] for row in lake.rows("silver/access_log")).replace(
        tzinfo=None
    )
    assert 0 <= newest["minutes_since"] < 60
    last = max(answer.errors)
    assert {row["log_time"].timestamp(): row["errors"] for row in rows["errors"]} == {
        minute.timestamp(): count for minute, count in answer.errors.items() if (last - minute).total_seconds() < 86400
    }


def test_a_misspelt_column_or_table_is_detected(dashboard: dict[str, Any], lake: House, spark: SparkSession) -> None:
    del lake
    for right, wrong in (("log_count", "log_cuont"), ("error_log", "eror_log"), ("max(", "maxx(")):
        with pytest.raises(AnalysisException):
            spark.sql(queries(dashboard)["errors"].replace(right, wrong))


def test_the_queried_gold_tables_are_declared_on_databricks(bundle: Bundle, dashboard: dict[str, Any]) -> None:
    schema = bundle.config["resources"]["schemas"]["gold"]["name"]
    sql = " ".join(queries(dashboard).values())
    asked = {part.split()[0].rstrip(")") for part in sql.split(f"`{schema}`.")[1:]}
    for target in ("dev", "prod"):
        assert asked == load(ROOT / "conf" / f"{target}.yaml").gold.keys()
