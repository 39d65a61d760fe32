"""The chain up to a real database: the served table equals gold after losses, restores and tampering."""

import shutil
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest
import yaml
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.errors import ConfigError, OncelakeError, StageError, StateError, TargetError
from oncelake.common.lake import Table
from oncelake.gold.declaration import GoldTable
from oncelake.gold.transform import aggregate
from oncelake.lab.demo.made_log import write_log
from oncelake.observe.status import stage_status
from oncelake.serving.patience import NONE
from oncelake.serving.rows import computed_rows
from oncelake.serving.served import Served
from oncelake.serving.settings import Mode
from oncelake.serving.sql import SqlSink
from oncelake.serving.table_setup import check_served, make
from oncelake.silver.schema import SILVER
from tests.support.house import House
from tests.support.mariadb import MariaDB
from tests.support.postgres import PostgreSQL
from tests.support.serving import compare, metadata
from tests.support.serving_house import STAGE, ServingHouse, lines, modes, more

pytestmark = [pytest.mark.database, pytest.mark.spark]


def replay(house: House) -> None:
    """Remove Spark's record that the last served batch is done, as a kill after the database's commit would."""
    commits = house.checkpoint(STAGE) / "commits"
    newest = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    newest.unlink()
    (commits / f".{newest.name}.crc").unlink()


@modes("transactional", "idempotent")
def test_the_served_table_is_gold_after_every_run_and_replay(place: ServingHouse, spark: SparkSession) -> None:
    house = place.house
    write_log(house.logs, 300)
    for number in range(2):
        house.run(spark)
        place.must_be(lines(house))
        before = place.position()
        replay(house)
        reports = [report for report in house.run(spark) if report.stage == STAGE]
        assert [report.replayed for report in reports] == [True]
        assert place.position() == before
        assert house.run(spark) == []
        more(house, number)
    house.run(spark)
    place.must_be(lines(house))
    assert house.doubts(spark) == []


@modes("idempotent", "transactional")
def test_a_lost_checkpoint_is_recovered_from_the_position(place: ServingHouse, spark: SparkSession) -> None:
    house = place.house
    write_log(house.logs, 100)
    house.run(spark)
    more(house, 0)
    house.run(spark)
    shutil.rmtree(house.checkpoint(STAGE))
    with pytest.raises(StateError, match=rf"checkpoint lost.*oncelake recover {STAGE}"):
        house.run(spark)
    assert house.recover(spark)[STAGE].refused is None
    more(house, 1)
    house.run(spark)
    place.must_be(lines(house))
    assert house.doubts(spark) == []


@modes("transactional", "idempotent")
def test_a_restored_backup_continues_from_its_position(place: ServingHouse, spark: SparkSession) -> None:
    house = place.house
    write_log(house.logs, 100)
    house.run(spark)
    place.backup()
    for number in range(3):
        more(house, number)
        house.run(spark)
    place.restore()
    with pytest.raises(StateError, match=rf"checkpoint ahead.*oncelake recover {STAGE}"):
        house.run(spark)
    assert house.recover(spark, STAGE)[STAGE].refused is None
    house.run(spark)
    place.must_be(lines(house))
    assert house.doubts(spark) == []


@pytest.mark.parametrize(
    ("place", "step"),
    [
        ("idempotent", -1),
        ("transactional", 1),
        pytest.param("idempotent", 1, marks=pytest.mark.long),
        pytest.param("transactional", -1, marks=pytest.mark.long),
    ],
    indirect=["place"],
)
def test_a_position_moved_by_hand_is_refused_with_both_ranges(
    place: ServingHouse, spark: SparkSession, step: int
) -> None:
    house = place.house
    write_log(house.logs, 100)
    house.run(spark)
    more(house, 0)
    house.run(spark)
    _, end = place.position()
    version = int(str(end).split('"reservoirVersion":')[1].split(",")[0])
    moved = str(end).replace(f'"reservoirVersion":{version}', f'"reservoirVersion":{version + step}')
    place.server.sql(f"UPDATE oncelake_position SET to_position = '{moved}'", place.name)
    before = place.errors()
    more(house, 1)
    with pytest.raises(StateError) as error:
        house.run(spark)
    assert str(end) in str(error.value)
    assert moved in str(error.value)
    assert place.errors() == before
    doubts = house.doubts(spark)
    assert any("serving.error_log" in doubt for doubt in doubts), doubts


@modes("idempotent", "transactional")
def test_the_proof_detects_a_value_changed_by_hand(place: ServingHouse, spark: SparkSession) -> None:
    house = place.house
    write_log(house.logs, 300)
    house.run(spark)
    first, last = min(house.errors()), max(house.errors())
    place.server.sql("UPDATE error_log SET log_count = 777 ORDER BY log_time LIMIT 1", place.name)
    place.server.sql("INSERT INTO error_log VALUES ('2031-01-01', 1)", place.name)
    place.server.sql(f"DELETE FROM error_log WHERE log_time = '{last:%Y-%m-%d %H:%M}'", place.name)
    (doubt,) = house.doubts(spark)
    assert f"{first:%Y-%m-%d %H:%M}:00: log_count is 777" in doubt
    assert f"{last:%Y-%m-%d %H:%M}:00: is missing in mysql" in doubt
    assert "2031-01-01 00:00:00: is in mysql" in doubt


@modes("transactional", "idempotent")
def test_a_rebuild_empties_and_serves_again(place: ServingHouse, spark: SparkSession) -> None:
    house = place.house
    write_log(house.logs, 100)
    house.run(spark)
    place.server.sql("UPDATE error_log SET log_count = 777", place.name)
    with pytest.raises(TargetError, match="a rebuild needs DELETE too"):
        house.rebuild(spark, "serving")
    place.may(delete=True)
    house.rebuild(spark, "serving")
    place.must_be(lines(house))
    house.rebuild(spark, "gold.error_log")
    place.must_be(lines(house))
    more(house, 1)
    house.run(spark)
    place.must_be(lines(house))
    assert house.doubts(spark) == []


@modes("transactional", "idempotent")
def test_the_lake_continues_while_the_server_is_down(place: ServingHouse, spark: SparkSession) -> None:
    house = place.house
    house.sets.append("serving.wait=1 second")
    write_log(house.logs, 100)
    place.server.stop()
    try:
        with pytest.raises(
            StageError, match=r"serving\.error_log stopped in batch 0: mysql .* is unavailable \(waited 1 s\)"
        ):
            house.run(spark)
        house.must_be(lines(house))
        state = house.chain(spark).states()[-1]
        assert stage_status(state).state == "target away"
        more(house, 0)
        with pytest.raises(StageError):
            house.run(spark)
        house.must_be(lines(house))
    finally:
        place.server.start()
    house.run(spark)
    place.must_be(lines(house))
    assert house.doubts(spark) == []


@modes("idempotent", "transactional")
def test_rows_and_seconds_behind_are_reported(place: ServingHouse, spark: SparkSession) -> None:
    house = place.house
    house.sets.append("serving.wait=0 seconds")
    write_log(house.logs, 100)
    house.run(spark)
    row = stage_status(house.chain(spark).states()[-1])
    assert (row.backlog, row.seconds_behind, row.state) == (0, 0.0, "aligned")
    place.may(write=False)
    more(house, 0)
    with pytest.raises(OncelakeError, match="needs SELECT, INSERT and UPDATE"):
        house.run(spark)
    row = stage_status(house.chain(spark).states()[-1])
    assert (row.backlog or 0) > 0
    assert (row.seconds_behind or 0) > 0
    place.may(write=True)
    house.run(spark)
    place.must_be(lines(house))


@modes("idempotent", "transactional")
def test_another_mode_is_refused_until_the_stage_is_rebuilt(place: ServingHouse, spark: SparkSession) -> None:
    house = place.house
    write_log(house.logs, 100)
    house.run(spark)
    other = "transactional" if place.mode == "idempotent" else "idempotent"
    house.sets.append(f"serving.mode={other}")
    with pytest.raises(StateError, match=rf"source replaced.*oncelake rebuild {STAGE}"):
        house.run(spark)
    place.may(delete=True)
    house.rebuild(spark, STAGE)
    more(house, 0)
    house.run(spark)
    place.must_be(lines(house))
    assert house.doubts(spark) == []


KEYS = {"level": "level", "text": "nullif(message, '')", "half": "cast(length(message) as double) / 2"}
MEASURES = {
    "n": "count",
    "last": "max(log_time)",
    "long": "max(length(message))",
    "total": "sum(length(message))",
    "cents": "sum(cast(length(message) as decimal(10,2)) / 4)",
    "least": "min(if(length(message) > 10, cast('NaN' as double), length(message) / 3))",
}
# measures that a database shows, and cannot merge
SHOWN_FROM_PARTS = {
    "share": "rate where length(message) < 5",
    "mean": "avg(length(message))",
    "spread": "stddev(length(message))",
    "most": "percentile(length(message), 0.95)",
}
TEXTS = ["a", "A", "a ", "é", "🔌 text", "", "x" * 5000, "quote ' \" \\ % %s :x", "\x00nul", "tab\t"]


def silver_rows(spark: SparkSession, number: int) -> DataFrame:
    """Return rows of silver, with the same texts in every batch, in one hour that is shared and one that is not."""
    hours = [f"2017-07-30 1{hour}:0{n % 10}:08.123456" for n in range(10) for hour in (0, number)]
    rows = [(at, "ERROR", text) for at in hours for text in TEXTS]
    frame = spark.createDataFrame(rows, "log_time string, level string, message string")
    columns = {field.name: F.lit(None).cast(field.dataType).alias(field.name) for field in SILVER}
    columns |= {"log_time": F.col("log_time").cast("timestamp"), "level": F.col("level"), "message": F.col("message")}
    return frame.select(*(column.alias(name) for name, column in columns.items()))


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *(("mariadb", "transactional"), ("postgres", "idempotent"), ("sqlite", "idempotent")),
        pytest.param("mariadb", "idempotent", marks=pytest.mark.long),
        pytest.param("postgres", "transactional", marks=pytest.mark.long),
        pytest.param("sqlite", "transactional", marks=pytest.mark.long),
    ],
)
def test_unusual_keys_and_every_kind_of_measure_are_served(
    tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest, kind: str, mode: Mode
) -> None:
    server: MariaDB | PostgreSQL | None = None if kind == "sqlite" else request.getfixturevalue(kind)
    name = f"o{abs(hash(request.node.name)) % 10**12}"
    url = f"sqlite:///{tmp_path / 'served.db'}"
    if isinstance(server, PostgreSQL):
        url = server.make_database(name)
    elif server is not None:
        url = server.make_database(name, rights="ALL")
    measures = dict(MEASURES)
    if mode == "idempotent":
        measures |= {"words": "approx_distinct(message)", "first": "min(message)", **SHOWN_FROM_PARTS}
    declared = GoldTable.model_validate({"every": "1 hour", "by": KEYS, "measures": measures})
    served = Served(
        Table("serving", "odd"), declared, mode, Table("gold", "odd"), SqlSink("odd", {"url": url, "mode": mode})
    )
    make(spark, [served])
    check_served(spark, served)
    silver = [silver_rows(spark, number) for number in range(3)]
    for number, batch in enumerate(silver):
        all_rows = reduce(DataFrame.unionByName, silver[: number + 1])
        gold = aggregate(batch if mode == "transactional" else all_rows, declared)
        with computed_rows(gold, declared, lambda: 1, served.sink) as rows:
            batch_note = replace(metadata(number, number or None, number + 1), stage=served.stage)
            served.apply(rows, batch_note, NONE, lambda: None)
        link = compare(served, aggregate(all_rows, declared))
        assert link.holds, link.said
        refused = (
            ["\x00nul"] if kind == "postgres" else [text for text in TEXTS if len(text) > 10]
        )  # their least is NaN
        held_texts = len(TEXTS) - len(refused)
        assert link.said.startswith(f"{held_texts * (number + 1)} rows")
        assert [part.count for part in link.uncompared] == [len(refused) * (number + 1)]


def test_tables_that_cannot_be_served_are_refused_by_name(place: ServingHouse, spark: SparkSession) -> None:
    house = place.house
    conf = yaml.safe_load(house.conf.read_text())
    conf["gold"]["odd"] = {"every": "1 day", "measures": {"parts": "max(split(message, ' '))"}}
    house.conf = house.root / "conf.yaml"
    house.conf.write_text(yaml.safe_dump(conf))
    house.sets.append("serving.tables=[odd]")
    served = house.chain(spark).stages[-1].served
    assert served is not None
    with pytest.raises(ConfigError, match="which no database column can hold"):
        check_served(spark, served)


@pytest.mark.parametrize(
    "measure", ["approx_distinct(message)", "max(message)", "avg(offset)", "rate where true", "percentile(offset, 0.5)"]
)
def test_measures_that_a_database_cannot_combine_are_refused(house: House, spark: SparkSession, measure: str) -> None:
    conf = yaml.safe_load(house.conf.read_text())
    conf["gold"]["odd"] = {"every": "1 day", "measures": {"odd": measure}}
    house.conf = house.root / "conf.yaml"
    house.conf.write_text(yaml.safe_dump(conf))
    house.sets += [f"serving.url=sqlite:///{house.root}/x.db", "serving.tables=[odd]", "serving.mode=transactional"]
    served = house.chain(spark).stages[-1].served
    assert served is not None
    with pytest.raises(ConfigError, match=r"Use serving\.mode idempotent"):
        check_served(spark, served)


@modes("transactional", "idempotent")
def test_the_password_is_nowhere(place: ServingHouse, spark: SparkSession, tmp_path: Path) -> None:
    house = place.house
    write_log(house.logs, 50)
    house.run(spark)
    said: list[str] = []
    house.sets.append("serving.wait=1 second")
    for change in ({"canary-word": "canary-wrong"}, {f"/{place.name}": "/canary"}, {f"{place.server.port}": "1"}):
        more(house, len(said))
        (old, new), *_ = change.items()
        house.sets[-3] = f"serving.url={place.url.replace(old, new)}"
        with pytest.raises(OncelakeError) as error:
            house.run(spark)
        said.append(str(error.value))
        said.append(repr(house.chain(spark)) + repr(stage_status(house.chain(spark).states()[-1])))
    assert "canary-w" not in " ".join(said)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert b"canary-w" not in path.read_bytes(), path
