"""Rows of gold with values that databases cannot hold, and the course of serving them."""

import json
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.lake import Table
from oncelake.gold.declaration import GoldTable
from oncelake.gold.transform import aggregate
from oncelake.serving.patience import NONE
from oncelake.serving.rows import computed_rows
from oncelake.serving.served import Served
from oncelake.serving.settings import Mode
from oncelake.serving.sql import SqlSink
from oncelake.serving.table_setup import check_served, make
from oncelake.silver.schema import SILVER
from tests.support.serving import compare, database, metadata

FAR, EARLY = "timestampadd(YEAR, 8000, log_time)", "timestampadd(YEAR, -1500, log_time)"
MEASURES = {
    "n": "count",
    "top": "max(try_cast(message as double))",
    "low": "min(try_cast(message as double))",
    "cents": "max(try_cast(message as decimal(10,3)))",
    "last": f"max(case message when 'far' then {FAR} when 'early' then {EARLY} else log_time end)",
    "day": f"max(cast(case message when 'far' then {FAR} else log_time end as date))",
}
DECLARED = GoldTable.model_validate({"every": "1 hour", "by": {"logger": "level"}, "measures": MEASURES})
# each group with its messages per batch; the third batch has values that can be held again
BATCHES: list[dict[str, list[str]]] = [
    {"plain": ["9.5"], "nan": ["7"], "inf": ["1"], "zero": ["0.0", "-0.0"], "far": ["1"], "early": ["1"]},
    {"plain": ["10.5"], "nan": ["NaN"], "inf": ["-Infinity"], "far": ["far"], "early": ["early"], "nul\0": ["1"]},
    {"plain": ["9.75", "-900719925474.993"], "nan": ["3"], "zero": ["-0.0"], "far": ["2"], "a": ["1"], "a ": ["2"]},
]
REFUSED = {
    "sqlite": {"nan": "the database has no NaN", "far": "it is not within the years 0001 to 9999"},
    "postgres": {"far": "it is not within the years 0001 to 9999", "nul\0": "U+0000"},
    "mariadb": {
        "nan": "the database has no NaN",
        "inf": "the database has no infinity",
        "far": "it is not within the years 1000 to 9999",
    },
}


# A sum of 29 digits holds ten of the largest lines; one of 37 digits holds a billion.
FEW_DIGITS = 29
SUMS = GoldTable.model_validate(
    {
        "every": "1 hour",
        "by": {"logger": "level"},
        "measures": {"total": "sum(try_cast(message as decimal(28,3)))", "n": "count"},
    }
)
LARGEST = "9" * 25 + ".999"
# `grows` leaves the range in the second batch and would be in it again with the third, `burst` in one batch
SUM_BATCHES: list[dict[str, list[str]]] = [
    {"plain": ["0.5"], "grows": [LARGEST] * 9},
    {"plain": ["0.25"], "grows": [LARGEST] * 2, "burst": [LARGEST] * 11, "down": [f"-{LARGEST}"] * 10},
    {"plain": ["0.125"], "grows": [f"-{LARGEST}"] * 9, "burst": ["1"], "down": ["-0.01"]},
]
SUMS_REFUSED = [set(), {"grows", "burst"}, {"grows", "burst", "down"}]


def silver(spark: SparkSession, batch: dict[str, list[str]]) -> DataFrame:
    rows = [("2026-01-01 10:00:01", level, text) for level, texts in batch.items() for text in texts]
    frame = spark.createDataFrame(rows, "log_time string, level string, message string")
    columns = {field.name: F.lit(None).cast(field.dataType).alias(field.name) for field in SILVER}
    columns |= {"log_time": F.col("log_time").cast("timestamp"), "level": F.col("level"), "message": F.col("message")}
    return frame.select(*(column.alias(name) for name, column in columns.items()))


def served(url: str, mode: Mode = "idempotent") -> Served:
    follows = Table("gold", "odd") if mode == "idempotent" else Table("silver", "access_log")
    return Served(Table("serving", "odd"), DECLARED, mode, follows, SqlSink("odd", {"url": url, "mode": mode}))


def put(table: Served, gold: DataFrame, number: int) -> None:
    with computed_rows(gold, table.declared, lambda: 1, table.sink) as rows:
        table.apply(rows, replace(metadata(number, number or None, number + 1), stage=table.stage), NONE, lambda: None)


def stored(table: Served) -> list[tuple[Any, ...]]:
    with database(table).reading() as connection:
        return [tuple(row) for row in connection.exec_driver_sql("SELECT * FROM odd").all()]


def must_refuse(spark: SparkSession, url: str, kind: str, mode: Mode) -> None:
    """Serve three batches, and compare what is refused with what the database cannot hold."""
    table = served(url, mode)
    make(spark, [table])
    check_served(spark, table)
    batches = [silver(spark, each) for each in BATCHES]
    for number, batch in enumerate(batches):
        whole = aggregate(reduce(DataFrame.unionByName, batches[: number + 1]), DECLARED)
        put(table, aggregate(batch, DECLARED) if mode == "transactional" else whole, number)
        link = compare(table, whole)
        assert link.holds, link.said
        if number:
            refused = database(table).snapshot(
                lambda connection: connection.exec_driver_sql("SELECT row_values, reason FROM oncelake_refused").all()
            )
            found = {
                name: reason for name in ("nan", "inf", "far", "nul") for row, reason in refused if f'"{name}' in row
            }
            wanted = {name.strip("\0"): reason for name, reason in REFUSED[kind].items()}
            if kind == "sqlite" and mode == "transactional":
                wanted["inf"] = "the database has no infinity"
            assert found.keys() >= wanted.keys(), found
            assert all(wanted[name] in found[name] for name in wanted)
            (part,) = link.uncompared
            assert part.count == len(refused)
            assert "in oncelake_refused" in link.said
    rows = {row[2]: row for row in stored(table)}
    assert str(rows["plain"][6]) == "10.500"
    assert not rows.keys() & set(REFUSED[kind])
    if kind == "postgres":
        assert str(rows["nan"][4]) == "nan"
    table.empty()
    assert stored(table) == []
    assert not compare(table, whole).holds


def must_refuse_sums(spark: SparkSession, url: str) -> None:
    """Serve three batches of which some sums leave their range; the caller makes FEW_DIGITS of them."""
    table = replace(served(url, "transactional"), declared=SUMS)
    make(spark, [table])
    check_served(spark, table)
    batches = [silver(spark, each) for each in SUM_BATCHES]
    for number, (batch, wanted) in enumerate(zip(batches, SUMS_REFUSED, strict=True)):
        put(table, aggregate(batch, SUMS, wide=True), number)
        refused = database(table).snapshot(
            lambda connection: connection.exec_driver_sql("SELECT row_values, reason FROM oncelake_refused").all()
        )
        assert {json.loads(row)["logger"] for row, _ in refused} == wanted
        assert {json.loads(row)["log_time"] for row, _ in refused} <= {"2026-01-01T10:00:00.000Z"}
        assert {reason for _, reason in refused} <= {"it is not within the range of decimal(29,3)"}
        link = compare(table, aggregate(reduce(DataFrame.unionByName, batches[: number + 1]), SUMS, wide=True))
        assert link.holds, link.said
        assert sum(part.count for part in link.uncompared) == len(wanted)
    assert {row[2]: str(row[3]) for row in stored(table)} == {"plain": "0.875"}
