"""Stack traces: each record counts once with all of its lines, whatever is wrong with it goes to quarantine whole."""

import os
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.exactly_once.census import Fault
from oncelake.observe.trace.way import At
from tests.support.house import House

pytestmark = pytest.mark.spark

FORMAT = r"""
pattern: '^(?<time>\S+ \S+) (?<level>[A-Z]+) +\[(?<thread>[^\]]*)\] (?<message>.*)$'
time: yyyy-MM-dd HH:mm:ss,SSS
record: {starts: '^\d{4}-\d\d-\d\d ', max_lines: 8}
"""
FAILED = (
    "2026-11-25 10:00:01,500 ERROR [http-1] request failed\njava.io.IOException: é\n\n\tat c.e.Api.get(Api.java:10)\r\n"
)
SLOW = "2026-11-25 10:00:02,000 WARN [main] slow\n\tbecause\x1e"
GOOD = ["2026-11-25 10:00:00,000 INFO [main] started", FAILED, SLOW]
HEADLESS = "\tat the.end.of.Another(File.java:1)\n... 3 more"
DEEP = "2026-11-25 10:00:03,000 ERROR [a] deep" + "\n\tat x" * 20


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Make a lake whose log format puts several lines together."""
    house = House.with_error_log(tmp_path)
    (tmp_path / "app.yaml").write_text(FORMAT)
    house.sets = [f"source.format={tmp_path / 'app.yaml'}"]
    return house


def write(house: House, name: str, *records: str) -> None:
    house.write(name, *(record.encode() for record in records))


def test_every_line_of_a_record_is_kept_counted_once_and_proven(house: House, spark: SparkSession) -> None:
    write(house, "a.log", HEADLESS, *GOOD, DEEP, "2026-11-25 10:00:04,000 ERROR [a] last")
    house.run(spark)
    messages = {row["message"]: row["fields"] for row in house.rows("silver/access_log")}
    wanted = [record.split("] ", 1)[1] for record in [*GOOD, "2026-11-25 10:00:04,000 ERROR [a] last"]]
    assert [*messages] == [text.removesuffix("\r") for text in wanted]
    refused = Counter(row["reasons"][0]["rule"] for row in house.rows("silver/quarantine"))
    assert refused == {"record_start": 2, "record_size": 2}, "21 lines with a bound of 8 are 9, 9 and 3"
    kept = "\n".join(bytes(row["value"]).decode() for row in house.rows("bronze/access_log"))
    assert f"{kept}\n" == (house.logs / "a.log").read_bytes().decode()
    assert sum(house.errors().values()) == 2
    proof = house.lakehouse(spark).prove(deep=True)
    assert proof.holds, [link.said for link in proof.links if not link.holds]
    write(house, "b.log", *GOOD)
    house.run(spark)
    assert (sum(house.errors().values()), house.size("bronze/access_log")) == (3, 11)


def test_a_changed_line_within_a_record_is_named_and_a_rebuild_reads_it(house: House, spark: SparkSession) -> None:
    write(house, "a.log", *GOOD)
    house.run(spark)
    assert house.doubts(spark) == []
    path = house.logs / "a.log"
    then = path.stat()
    path.write_bytes(path.read_bytes().replace(b"Api.java:10", b"Api.java:11"))
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))
    faults = [link.said for link in house.lakehouse(spark).prove(deep=True).links if not link.holds]
    assert len(faults) == 1
    assert (
        "a.log was changed after it was read: bronze has 8 lines of it, it now has 8, with other content" in faults[0]
    )
    house.rebuild(spark, "bronze", accept_loss=True)
    assert house.doubts(spark) == []
    assert "Api.java:11" in house.rows("silver/access_log")[1]["message"]


def test_a_file_that_grew_by_the_rest_of_its_record_is_named(house: House, spark: SparkSession) -> None:
    write(house, "a.log", *GOOD)
    house.run(spark)
    with (house.logs / "a.log").open("a") as file:
        file.write("\tat one.more(Line.java:1)\n")
    with house.lakehouse(spark).census() as (census, _):
        assert [each.fault for each in census.faults] == [Fault.GREW]


def test_a_record_is_traced_by_its_first_line(house: House, spark: SparkSession) -> None:
    write(house, "a.log", *GOOD, HEADLESS, DEEP)
    house.run(spark)
    lake = house.lakehouse(spark)
    steps = lake.trace("a.log:" + FAILED.split("\n", maxsplit=1)[0]).steps
    assert [step.at for step in steps] == [At.THERE, At.THERE, At.COUNTED]
    samples = {each for reason in lake.quarantined()[1] if reason.rule == "record_size" for each in reason.samples}
    first = "a.log:" + DEEP.split("\n", maxsplit=1)[0]
    assert first in samples
    assert lake.trace(first).steps[-1].at is At.REFUSED


def test_a_changed_start_applies_to_what_is_read_from_then_on(house: House, spark: SparkSession) -> None:
    write(house, "a.log", *GOOD)
    house.run(spark)
    (house.root / "app.yaml").write_text(FORMAT.replace(r"'^\d{4}-\d\d-\d\d '", "^2026"))
    write(house, "b.log", *GOOD)
    house.run(spark)
    assert house.size("silver/access_log") == 6
    assert house.lakehouse(spark).prove(deep=True).holds
