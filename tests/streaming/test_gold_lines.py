"""From a row of gold to the lines that it counts, without Spark where the declaration is plain."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from oncelake.common import table_rows
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.engine import open_lake
from oncelake.observe.gold_lines import GoldLines, line_texts
from tests.support.house import House, error_log_conf

pytestmark = pytest.mark.spark

AT = datetime(2026, 1, 2, 8, 5, 59, 999_999, tzinfo=UTC)
LINES = {
    "a.log": ["08:04:59 ERROR before", "08:05:00 ERROR disk full", "08:05:59 ERROR disk full", "08:06:00 ERROR after"],
    "b.log": ["08:05:30 INFO fine", "08:05:31 ERROR \x1b[31mred", "no line"],
}
GOLD = {
    "error_log": {"where": "level = 'ERROR'", "every": "1 minute", "measures": {"log_count": "count"}},
    "volume": {"every": "1 minute", "by": {"level": "level"}, "measures": {"lines": "count", "last": "max(log_time)"}},
    "spark": {
        "where": "level LIKE 'E%'",
        "every": "1 minute",
        "by": {"level": "lower(level)", "size": "length(message)"},
        "measures": {"last": "max(log_time)"},
    },
}


@pytest.fixture(scope="module")
def house(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    root = tmp_path_factory.mktemp("lines")
    conf = root / "conf" / "local.yaml"
    conf.parent.mkdir()
    conf.write_text(yaml.safe_dump({**error_log_conf(), "gold": GOLD}))
    house = House(root, conf)
    for name, lines in LINES.items():
        house.write(name, *(f"2026-01-02 {line}".encode() for line in lines))
    house.run(spark)
    return house


def messages(counted: GoldLines) -> list[tuple[str, str]]:
    return [(line["file"].rsplit("/", 1)[-1], line["message"]) for line in counted.lines]


def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_lake, "spark_session", lambda *_, **__: pytest.fail("Spark is not needed"))


ERRORS = [("a.log", "disk full"), ("b.log", "\x1b[31mred"), ("a.log", "disk full")]


def test_a_row_of_a_plain_table_has_its_lines_without_spark(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)
    counted = house.lakehouse().lines("gold.error_log", AT)
    assert messages(counted) == ERRORS
    assert (counted.total, counted.counted) == (3, 3)
    assert counted.rows == [{"log_time": "2026-01-02T08:05:00.000000Z", "log_count": 3}]
    assert [line["log_time"][11:19] for line in counted.lines] == ["08:05:00", "08:05:31", "08:05:59"]
    cut = house.lakehouse().lines("gold.volume", AT, {"level": "ERROR"}, limit=1)
    assert (messages(cut), cut.total) == (ERRORS[:1], 3)
    assert list(line_texts(cut))[-1] == "3 lines, 2 of them not shown; to show more: --limit"
    assert house.lakehouse().lines("gold.volume", AT).total == 4


def test_spark_finds_the_same_lines_where_it_must(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = house.lakehouse(spark).lines("gold.spark", AT, {"size": "9"})
    assert (messages(counted), counted.total, counted.counted) == ([ERRORS[0], ERRORS[2]], 2, None)
    assert [row["size"] for row in counted.rows] == [9]
    plain = house.lakehouse(spark).lines("gold.error_log", AT).to_dict()
    monkeypatch.setattr(
        table_rows, "find_spec", lambda name: None if name == "duckdb" else name
    )  # as if DuckDB were not installed
    assert house.lakehouse(spark).lines("gold.error_log", AT).to_dict() == plain


def test_lines_that_gold_has_not_read_yet_are_left_out(house: House, spark: SparkSession, tmp_path: Path) -> None:
    later = House(tmp_path, house.conf)
    later.write("a.log", b"2026-01-02 08:05:00 ERROR first")
    later.run(spark)
    position = later.table("gold/error_log") / "_delta_log"
    kept = {path.name for path in position.iterdir()}
    later.write("b.log", b"2026-01-02 08:05:01 ERROR second")
    later.run(spark)
    for path in position.iterdir():  # as if gold had been killed before its second batch
        path.unlink() if path.name not in kept else None
    counted = later.lakehouse().lines("gold.error_log", AT)
    assert (messages(counted), counted.counted) == ([("a.log", "first")], 1)


def test_a_row_that_counts_other_lines_than_silver_has_is_named(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    without_spark(monkeypatch)
    counted = house.lakehouse().lines("gold.error_log", AT)
    texts = list(line_texts(replace(counted, counted=5)))
    assert texts[-2] == "gold counts 5, and silver has 3; to find out why: oncelake prove"
    assert not any("gold counts" in text for text in line_texts(counted))
    assert all(character.isprintable() for text in texts for character in text)


@pytest.mark.parametrize(
    ("table", "keys", "error", "said"),
    [
        (
            "gold.none",
            {},
            ConfigError,
            "there is no gold table 'gold.none'; the tables are gold.error_log, gold.spark, gold",
        ),
        ("volume", {}, ConfigError, "there is no gold table 'volume'; the tables are gold.error_log, gold.spark, gold"),
        ("gold.volume", {"kind": "x"}, ConfigError, "gold.volume has no key 'kind'; its keys are level"),
        ("gold.error_log", {"level": "x"}, ConfigError, "gold.error_log has no key 'level'; it has none"),
        ("gold.volume", {"level": None}, OncelakeError, "level = no value; it has level = 'ERROR', level = 'INFO'"),
    ],
)
def test_what_is_not_there_is_named(
    house: House, table: str, keys: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        house.lakehouse().lines(table, AT, keys)


def test_a_window_without_lines_and_a_time_without_a_zone_are_refused(house: House) -> None:
    with pytest.raises(OncelakeError, match="the nearest with rows begin at 2026-01-02T08:04:00Z"):
        house.lakehouse().lines("gold.error_log", datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(ConfigError, match="has no time zone"):
        house.lakehouse().lines("gold.error_log", datetime(2020, 1, 1))


def test_the_command_prints_the_row_and_its_lines(house: House, spark: SparkSession) -> None:
    arguments = ("lines", "gold.volume", "--at", "2026-01-02T08:05", "--key", "level=ERROR")
    printed = house.tell(spark, *arguments).splitlines()
    assert printed[0].startswith(
        "gold.volume: log_time 2026-01-02T08:05:00Z, level ERROR, last 2026-01-02T08:05:59Z, lines 3"
    )
    assert printed[1] == "a.log: 2026-01-02T08:05:00Z ERROR disk full"
    assert printed[-1] == "3 lines"
    assert json.loads(house.tell(spark, *arguments, "--json"))["total"] == 3
