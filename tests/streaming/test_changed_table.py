"""A table that people altered goes on, or the next start refuses it by name, and what the error says helps."""

import re

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, OncelakeError, StateError
from tests.support.alterations import COMPATIBLE, REFUSED, TABLES, Alteration
from tests.support.house import House
from tests.support.lakes import Filled

MORE = (b"2017-07-30 14:09:08 ERROR more", b"nothing of a time")


def altered(house: House, table: str, statement: str, spark: SparkSession, version: int = 0) -> None:
    """Run a statement on a table as somebody would."""
    name, column = f"delta.`{house.table(table)}`", TABLES[table]
    value = "0" if column == "log_count" else "X'00'" if table == "bronze/access_log" else "'x'"
    time = "ingested_at" if column == "value" else "log_time"
    spark.sql(statement.format(table=name, column=column, version=version, value=value, time=time))


@pytest.mark.parametrize("table", TABLES)
def test_what_only_adds_to_a_table_goes_on(filled: Filled, spark: SparkSession, table: str) -> None:
    check = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(check, "false")
    house = filled.again(spark)
    try:
        for statement in COMPATIBLE:
            altered(house, table, statement, spark)
            if statement.startswith("ALTER TABLE {table} ADD"):
                house.write(f"{COMPATIBLE.index(statement)}.log", MORE[0])
                house.run(spark)
    finally:
        spark.conf.unset(check)
    house.write("more.log", *MORE)
    house.run(spark)
    assert house.doubts(spark) == []


CASES = [(case, table) for case in REFUSED for table in case.tables]


@pytest.mark.parametrize(("case", "table"), CASES, ids=[f"{table} {case.statements[-1][:40]}" for case, table in CASES])
def test_what_stops_a_stage_is_refused_by_name_and_the_way_out_leads_on(
    filled: Filled, spark: SparkSession, case: Alteration, table: str
) -> None:
    house = filled.again(spark)
    for statement in case.statements:
        altered(house, table, statement, spark)
    house.write("more.log", *MORE)
    with pytest.raises((ConfigError, StateError)) as found:
        house.run(spark)
    said = str(found.value)
    assert case.said.format(column=TABLES[table]) in said
    assert "start again" not in said
    if case.undone:
        name = f"delta.`{house.table(table)}`"
        version = re.search(r"TO VERSION AS OF (\d+)", said)
        undone = case.undone.format(table=name, column=TABLES[table], version=version[1] if version else "")
        assert undone in said
        altered(house, table, case.undone, spark, int(version[1]) if version else 0)
    for stage in case.rebuilds:
        with pytest.raises(OncelakeError) as refused:
            house.run(spark)
        assert f"oncelake rebuild {stage}" in str(refused.value)
        house.rebuild(spark, stage)
    house.run(spark)
    assert house.doubts(spark) == []
