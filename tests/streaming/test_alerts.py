"""A run sends the alerts of a real lake: for the right windows, once, whatever is late, replayed or proven."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from oncelake import ConfigError
from oncelake.engine.alerts import parse_condition
from oncelake.exactly_once.files import LocalFiles
from oncelake.lab.demo.server import free_port
from oncelake.observe.alerts.look import LakeLook
from tests.support.house import House, until
from tests.support.receivers import Web, web

pytestmark = pytest.mark.spark

BEFORE = "2017-01-01T00:00:00Z"
NINE = 1501423740000  # 2017-07-30T14:09:00Z


@pytest.fixture
def server() -> Iterator[Web]:
    with web() as found:
        yield found


def declare(house: House, **alerts: dict[str, Any]) -> None:
    """Add alerts to the configuration of a house."""
    values = yaml.safe_load(house.conf.read_text())
    house.conf.write_text(yaml.safe_dump({**values, "alerts": alerts}))


def hook(url: str, when: str, **more: Any) -> dict[str, Any]:
    return {"when": when, "to": {"kind": "webhook", "url": url}, **more}


def errors(minute: int, count: int) -> list[bytes]:
    return [f"2017-07-30 14:{minute:02}:08 ERROR {number}".encode() for number in range(count)]


def told(server: Web) -> list[tuple[str, str, str]]:
    """Return the messages in the order of arrival, each without its key."""
    return [(message["status"], message["window"].partition(" to ")[0], message["text"]) for message in server.got]


def test_a_run_alerts_for_each_window_past_the_limit_once(house: House, spark: SparkSession, server: Web) -> None:
    declare(house, spike=hook(server.url, "error_log.log_count > 2", since=BEFORE))
    house.write("a.log", *errors(9, 3), *errors(10, 2), *errors(11, 1))
    house.run(spark)
    (status,) = house.lakehouse(spark).alerts()
    assert told(server) == [
        ("alert", "2017-07-30T14:09:00Z", "log_count is 3"),
        ("end", "2017-07-30T14:09:00Z", "the window is over. It began with: log_count is 3"),
    ]
    assert (status.state, status.unsent, status.failed) == ("quiet", 0, "")
    assert status.version == house.versions()["gold/error_log"]
    assert {message["lake"] for message in server.got} == {str(house.lake)}

    house.write("late.log", *errors(10, 1))  # a late line raises an old window past the limit
    house.run(spark)
    assert [message[:2] for message in told(server)[2:]] == [
        ("alert", "2017-07-30T14:10:00Z"),
        ("end", "2017-07-30T14:10:00Z"),
    ]
    assert len({message["key"] for message in server.got}) == 2

    kept = b"".join(path.read_bytes() for path in house.lake.rglob("*") if path.is_file())
    assert b"secret-b7c2" not in kept


def test_a_lake_with_a_long_past_sends_nothing_at_first(house: House, spark: SparkSession, server: Web) -> None:
    house.write("a.log", *(line for minute in range(60) for line in errors(minute, 3)))
    house.run(spark)
    declare(
        house,
        spike=hook(server.url, "error_log.log_count > 2"),
        few=hook(server.url, "error_log.log_count < 9"),
        bad=hook(server.url, "refused > 0%"),
    )
    house.write("b.log", *errors(9, 3))
    house.run(spark)
    assert server.got == []


def test_a_receiver_that_is_away_neither_fails_a_run_nor_loses_a_message(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    declare(house, spike=hook(f"http://127.0.0.1:{port}/", "error_log.log_count > 2", since=BEFORE))
    house.write("a.log", *errors(9, 3))
    house.run(spark)
    assert house.errors().total() == 3
    assert [line for line in house.said if "spike" in line] == [
        "alerts: warning: spike: webhook receiver of spike: Connection refused; unsent: 2. "
        "Nothing is lost: it is tried again"
    ]

    def start(*_: object, **__: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr("oncelake.engine.open_lake.spark_session", start)
    with web(port) as server:  # a run that finds nothing new sends it without Spark
        assert house.lakehouse().run(once=True).batches == 0
        assert [message["status"] for message in server.got] == ["alert", "end"]


def test_other_conditions_are_read_from_the_lake(house: House, spark: SparkSession, server: Web) -> None:
    declare(
        house,
        stale=hook(server.url, "freshness of gold.error_log > 0 seconds"),
        behind=hook(server.url, "backlog of bronze > 1"),
        bad=hook(server.url, "refused > 20% in 1 second", since=BEFORE),
    )
    house.write("a.log", *errors(9, 3), b"broken", b"")
    house.run(spark)
    second = int(time.time())
    until(lambda: int(time.time()) > second)  # the next batch is in another second
    house.write("b.log", *errors(9, 1))
    house.write("c.log", *errors(9, 1))
    lake = house.lakehouse(spark)
    lake.alerts(send=True)
    texts = {message["alert"]: message["text"] for message in server.got if message["status"] == "alert"}
    assert texts["behind"] == "the backlog of bronze is 2 files"
    assert texts["stale"].startswith("the last commit of gold.error_log was ")
    house.run(spark)
    lake.alerts(send=True)
    texts |= {message["alert"]: message["text"] for message in server.got if message["status"] == "alert"}
    assert texts["bad"].removesuffix(" so far") == "40.0 % of 5 lines are refused"
    assert [message["status"] for message in server.got if message["alert"] == "behind"] == ["alert", "end"]


def test_refused_lines_are_told_of_by_the_run_that_refuses_them(house: House, spark: SparkSession, server: Web) -> None:
    declare(house, bad=hook(server.url, "refused > 20% in 1 day"))
    house.write("a.log", *errors(9, 3), b"broken", b"")
    house.run(spark)
    assert [message["text"] for message in server.got] == ["40.0 % of 5 lines are refused so far"]


def test_a_failed_proof_alerts_until_one_holds_and_a_rebuild_alerts_nothing_again(
    house: House, spark: SparkSession, server: Web
) -> None:
    spike = hook(server.url, "error_log.log_count > 2", since=BEFORE)
    declare(house, doubt=hook(server.url, "proof fails"), spike=spike)
    house.write("a.log", *errors(9, 3), b"2017-07-30 14:10:00 INFO two")
    house.run(spark)
    spark.sql(f"UPDATE delta.`{house.table('gold/error_log')}` SET log_count = 4")
    assert house.doubts(spark) != []
    lake = house.lakehouse(spark)
    lake.alerts(send=True)
    (message,) = [candidate for candidate in server.got if candidate["alert"] == "doubt"]
    assert message["status"] == "alert"
    assert "does not hold" in message["text"]
    house.rebuild(spark, "gold")  # the same windows in a table that is built again
    lake.alerts(send=True)
    assert house.doubts(spark) == []
    assert [entry["status"] for entry in server.got if entry["alert"] == "doubt"] == ["alert", "end"]
    assert len({entry["key"] for entry in server.got if entry["alert"] == "doubt"}) == 1
    assert [entry["status"] for entry in server.got if entry["alert"] == "spike"] == ["alert", "end"]
    assert lake.alerts()[1].version == house.versions()["gold/error_log"]


def test_a_group_and_the_number_of_others_are_named(house: House, spark: SparkSession) -> None:
    conf = yaml.safe_load(house.conf.read_text())
    conf["gold"]["by_level"] = {
        "every": "1 minute",
        "by": {"level": "level"},
        "measures": {"lines": "count", "last": "max(message)"},
    }
    conf["alerts"] = {"text": hook("http://127.0.0.1:9/", "by_level.last > 2")}
    house.conf.write_text(yaml.safe_dump(conf))
    house.write("a.log", *errors(9, 3), *errors(10, 1), *(b"2017-07-30 14:09:00 INFO x" for _ in range(5)))
    with pytest.raises(ConfigError, match=r"alerts.text.when: by_level.last is of type string; compare a measure that"):
        house.run(spark)
    house.conf.write_text(yaml.safe_dump({**conf, "alerts": {}}))
    house.run(spark)

    def texts(when: str, after_ms: int = 0, until_ms: int | None = None) -> list[str]:
        look = LakeLook(house.chain(spark), parse_condition(when), lambda: spark, LocalFiles())
        head = look.head()
        assert head is not None
        return [window.text for window in look.windows(head[1], after_ms, until_ms, 10)]

    assert texts("by_level.lines < 4", until_ms=NINE + 60_000) == ["lines is 3 for level=ERROR"]
    assert texts("by_level.lines < 4", after_ms=NINE + 60_000) == ["lines is 1 for level=ERROR"]
    assert texts("by_level.lines > 2") == ["lines is 5 for level=INFO, and of 1 other group"]
    assert texts("by_level.lines < 4") == ["lines is 3 for level=ERROR", "lines is 1 for level=ERROR"]
