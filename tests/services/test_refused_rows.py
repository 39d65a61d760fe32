"""A row with a value that a database cannot hold is refused by name, and the rest of the table goes on."""

from dataclasses import replace
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.errors import ConfigError, TargetError
from oncelake.common.lake import Table
from oncelake.gold.declaration import GoldTable
from oncelake.gold.transform import aggregate
from oncelake.serving.check import check_served, make
from oncelake.serving.patience import NONE
from oncelake.serving.rows import held
from oncelake.serving.served import Served
from oncelake.serving.settings import Mode
from oncelake.serving.sql import SqlSink
from oncelake.silver.schema import SILVER
from tests.support.house import House
from tests.support.serving import compare, database, metadata

pytestmark = [pytest.mark.database, pytest.mark.spark]

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


def silver(spark: SparkSession, batch: dict[str, list[str]]) -> DataFrame:
    rows = [("2026-01-01 10:00:01", level, text) for level, texts in batch.items() for text in texts]
    frame = spark.createDataFrame(rows, "log_time string, level string, message string")
    columns = {field.name: F.lit(None).cast(field.dataType).alias(field.name) for field in SILVER}
    columns |= {"log_time": F.col("log_time").cast("timestamp"), "level": F.col("level"), "message": F.col("message")}
    return frame.select(*(column.alias(name) for name, column in columns.items()))


def url_of(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> str:
    name = f"r{abs(hash(request.node.name)) % 10**12}"
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'served.db'}"
    server: Any = request.getfixturevalue(kind)
    url: str = server.make_database(name, rights="ALL") if kind == "mariadb" else server.make_database(name)
    return url


def served(url: str, mode: Mode = "idempotent") -> Served:
    follows = Table("gold", "odd") if mode == "idempotent" else Table("silver", "access_log")
    return Served(Table("serving", "odd"), DECLARED, mode, follows, SqlSink("odd", {"url": url, "mode": mode}))


def put(table: Served, gold: DataFrame, number: int) -> None:
    with held(gold, DECLARED, lambda: 1, table.sink) as rows:
        table.apply(rows, replace(metadata(number, number or None, number + 1), stage=table.stage), NONE, lambda: None)


@pytest.mark.parametrize("mode", ["idempotent", "transactional"])
@pytest.mark.parametrize("kind", ["sqlite", "mariadb", "postgres"])
def test_what_a_database_cannot_hold_is_refused_and_the_rest_goes_on(
    tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest, kind: str, mode: Mode
) -> None:
    table = served(url_of(request, tmp_path, kind), mode)
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


def stored(table: Served) -> list[tuple[Any, ...]]:
    with database(table).reading() as connection:
        return [tuple(row) for row in connection.exec_driver_sql("SELECT * FROM odd").all()]


def test_a_row_that_can_be_held_again_leaves_the_refused_ones(
    tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    table = served(url_of(request, tmp_path, "sqlite"))
    make(spark, [table])
    for number, text in enumerate(("NaN", "5")):
        gold = aggregate(silver(spark, {"x": [text]}), DECLARED)
        put(table, gold, number)
        assert compare(table, gold).said.startswith("0 rows" if text == "NaN" else "1 row, equal value by value")
    assert not compare(table, aggregate(silver(spark, {"x": ["NaN"]}), DECLARED)).holds


def test_a_run_can_stop_instead_and_names_the_row(
    tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    table = replace(served(url_of(request, tmp_path, "sqlite")), unheld="stop")
    make(spark, [table])
    said = r'the row \{.*"logger":"x"\} has top = NaN, which cannot be served: the database has no NaN; 1 such row'
    with pytest.raises(TargetError, match=said):
        put(table, aggregate(silver(spark, {"x": ["NaN"], "y": ["1"]}), DECLARED), 0)
    assert stored(table) == []


def test_a_table_of_an_older_version_asks_for_serving_init(
    tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    table = served(url_of(request, tmp_path, "sqlite"))
    make(spark, [table])
    database(table).transaction(lambda connection: connection.exec_driver_sql("DROP TABLE oncelake_refused"))
    check_served(spark, table)
    put(table, aggregate(silver(spark, {"x": ["1"]}), DECLARED), 0)
    with pytest.raises(ConfigError, match=r"has top = NaN.*no table oncelake_refused.*oncelake serving init"):
        put(table, aggregate(silver(spark, {"x": ["NaN"]}), DECLARED), 1)
    make(spark, [table])
    put(table, aggregate(silver(spark, {"x": ["NaN"]}), DECLARED), 1)
    assert stored(table) == []


def test_a_decimal_that_no_type_holds_is_refused_at_init(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    declared = GoldTable.model_validate(
        {"every": "1 hour", "measures": {"x": "max(try_cast(message as decimal(38,35)))"}}
    )
    table = replace(served(url_of(request, tmp_path, "mariadb")), declared=declared)
    with pytest.raises(ConfigError, match=r"x has type decimal\(38,35\), but mysql has at most 30 digits"):
        make(spark, [table])


def test_a_time_past_the_year_9999_stops_nothing_and_the_proof_says_it(house: House, spark: SparkSession) -> None:
    conf = yaml.safe_load(house.conf.read_text())
    last = f"max(case when message like 'far%' then {FAR} else log_time end)"
    conf["gold"]["error_log"]["measures"]["last"] = last
    house.conf = house.root / "conf.yaml"
    house.conf.write_text(yaml.safe_dump(conf))
    house.sets.append(f"serving.url=sqlite:///{house.root}/x.db")
    house.tell(spark, "serving", "init")
    house.write("0.log", b"2017-07-30 14:09:08 ERROR far away", b"2017-07-30 14:10:08 ERROR near")
    house.run(spark)
    house.rebuild(spark, "serving")
    assert house.doubts(spark) == []
    said = house.tell(spark, "prove")
    assert "1 row that the database cannot hold, in oncelake_refused" in " ".join(said.split())
    house.sets.append("serving.unheld=stop")
    with pytest.raises(Exception, match="which cannot be served"):
        house.rebuild(spark, "serving")
    assert any("has no batch of it" in doubt for doubt in house.doubts(spark))
    house.tell(spark, "prove", expect=1)


def test_times_before_the_first_year_of_a_database_are_refused(
    tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    table = served(url_of(request, tmp_path, "mariadb"))
    make(spark, [table])
    gold = aggregate(silver(spark, {"early": ["early"], "x": ["1"]}), DECLARED)
    put(table, gold, 0)
    assert [row[2] for row in stored(table)] == ["x"]
    assert compare(table, gold).holds
    assert stored(table)[0][1] == datetime(2026, 1, 1, 10)
