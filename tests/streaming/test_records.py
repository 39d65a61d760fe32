"""Stack traces: each record counts once with all of its lines, whatever is wrong with it goes to quarantine whole."""

import os
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.observe.trace.lineage import At
from oncelake.sources.directory.census import Fault
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


LAST = "2026-11-25 10:00:04,000 ERROR [a] last"


@pytest.fixture(scope="module")
def house(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> House:
    """Make a lake whose log format puts several lines together; it has read one file."""
    house = House.with_error_log(tmp_path_factory.mktemp("records"))
    (house.root / "app.yaml").write_text(FORMAT)
    house.sets = [f"source.format={house.root / 'app.yaml'}"]
    write(house, "a.log", HEADLESS, *GOOD, DEEP, LAST)
    house.run(spark)
    return house


def write(house: House, name: str, *records: str) -> None:
    house.write(name, *(record.encode() for record in records))


def test_every_line_of_a_record_is_kept_and_counted_once(house: House) -> None:
    messages = [row["message"] for row in house.rows("silver/access_log")]
    assert messages == [record.split("] ", 1)[1].removesuffix("\r") for record in [*GOOD, LAST]]
    refused = Counter(row["reasons"][0]["rule"] for row in house.rows("silver/quarantine"))
    assert refused == {"record_start": 2, "record_size": 2}, "21 lines with a bound of 8 are 9, 9 and 3"
    kept = "\n".join(bytes(row["value"]).decode() for row in house.rows("bronze/access_log"))
    assert f"{kept}\n" == (house.logs / "a.log").read_bytes().decode()
    assert sum(house.errors().values()) == 2


def test_a_record_is_traced_by_its_first_line(house: House, spark: SparkSession) -> None:
    lake = house.lakehouse(spark)
    steps = lake.trace("a.log:" + FAILED.split("\n", maxsplit=1)[0]).steps
    assert [step.at for step in steps] == [At.THERE, At.THERE, At.COUNTED]
    samples = {sample for reason in lake.quarantined()[1] if reason.rule == "record_size" for sample in reason.samples}
    first = "a.log:" + DEEP.split("\n", maxsplit=1)[0]
    assert first in samples
    assert lake.trace(first).steps[-1].at is At.REFUSED


def test_the_proof_compares_lines_whatever_the_start_was_and_names_a_changed_one(
    house: House, spark: SparkSession
) -> None:
    (house.root / "app.yaml").write_text(FORMAT.replace(r"'^\d{4}-\d\d-\d\d '", "^2026"))
    write(house, "b.log", *GOOD)
    house.run(spark)
    assert (sum(house.errors().values()), house.size("bronze/access_log")) == (3, 11)
    assert [link.said for link in house.lakehouse(spark).prove(deep=True).links if not link.holds] == []
    path = house.logs / "b.log"
    then = path.stat()
    path.write_bytes(path.read_bytes().replace(b"Api.java:10", b"Api.java:11"))
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))
    (fault,) = [link.said for link in house.lakehouse(spark).prove(deep=True).links if not link.holds]
    assert "b.log was changed after it was read: bronze has 8 lines of it, it now has 8, with other content" in fault
    house.rebuild(spark, "bronze", accept_loss=True)
    assert house.doubts(spark) == []
    assert sum("Api.java:11" in row["message"] for row in house.rows("silver/access_log")) == 1


def test_a_file_that_grew_by_the_rest_of_its_record_is_named(house: House, spark: SparkSession) -> None:
    with (house.logs / "a.log").open("a") as file:
        file.write("\tat one.more(Line.java:1)\n")
    with house.lakehouse(spark).census() as (census, _):
        assert [fault.fault for fault in census.faults] == [Fault.GREW]


def test_a_replay_says_that_merged_records_are_read_again_by_a_rebuild(tmp_path: Path, spark: SparkSession) -> None:
    house = House.with_error_log(tmp_path)
    declared = house.root / "app.yaml"
    declared.write_text(FORMAT)
    house.sets = [f"source.format={declared}"]
    write(house, "a.log", *GOOD, DEEP, LAST)
    house.run(spark)
    assert "put their lines together" not in house.tell(spark, "quarantine", "replay", "--dry-run")
    declared.write_text(FORMAT.replace("max_lines: 8", "max_lines: 50"))
    said = " ".join(house.tell(spark, "quarantine", "replay").split())
    assert "2 rows of these: bronze.access_log put their lines together, or masked them, by other rules" in said
    assert "oncelake rebuild bronze" in said
    house.rebuild(spark, "bronze")
    assert house.rows("silver/quarantine") == []
    assert sum(house.errors().values()) == 3
    assert house.lakehouse(spark).replay().made_otherwise == {}
