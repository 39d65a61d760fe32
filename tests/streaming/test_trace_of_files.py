"""A line of a file is traced without Spark where its format can be read so, with the lineage that Spark would find."""

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from oncelake.engine import open_lake
from oncelake.engine.runner import Run
from oncelake.observe.progress import Progress
from oncelake.observe.trace.line_again import LineAgain
from oncelake.observe.trace.lineage import At, Lineage
from oncelake.silver.parsing.format import format_names
from oncelake.silver.plain_reader import PlainReader
from tests.support.house import House, Recorder
from tests.support.places import FORMATS
from tests.support.plain_reading import examples_of
from tests.support.several import Several
from tests.support.suites import written

pytestmark = pytest.mark.spark

NAMES = format_names([FORMATS])
JUNK = "no line of any format"
# A format with all that silver adds to a line besides its parts.
OWN: dict[str, Any] = {
    "pattern": r"^(?<time>[A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d) (?<level>[A-Z]+) (?<size>\S+) (?<message>.*)$",
    "time": "MMM dd HH:mm:ss",
    "zone": "Europe/Paris",
    "strip_ansi": True,
    "columns": {"size": "int"},
    "record": {"starts": r"^[A-Z][a-z]{2} \d\d "},
}
OF_OWN = [
    "\x1b[31mNov 25 10:00:00\x1b[0m ERROR 7 red\n\tand \x1b[1mbold\x1b[0m",
    "Feb 28 10:00:00 INFO x of the last year\r",
    "Nov 25 10:00:01 INFO 1 a text\n2017-07-30 14:09:08 ERROR of another program",
]
GROWN = ["2017-07-30 14:09:08 ERROR of a growing file", "2017-07-30 14:09:09 INFO other"]
# When the files were written: a time without a year is before it.
WRITTEN = datetime(2019, 12, 1, tzinfo=UTC).timestamp()


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Several:
    """Read a file of each shipped format, of an own one, and a growing one: a line that is refused, examples, repeats.

    Repeats within an hour are dropped, and times that are later than today are accepted.
    """
    root = tmp_path_factory.mktemp("formats")
    (root / "own.yaml").write_text(yaml.safe_dump(OWN))
    lake = Several.at(root)
    formats = {**{name: name for name in NAMES}, "own": str(root / "own.yaml")}
    sources = {name: {"path": str(lake.logs / name), "format": log_format} for name, log_format in formats.items()}
    grown = {"path": str(lake.logs / "grown"), "kind": "tail"}
    for name, lines in {**{name: examples_of(name) for name in NAMES}, "own": OF_OWN, "grown": GROWN}.items():
        lake.write(f"{name}/a.log", *(line.encode() for line in (JUNK, *lines, *lines)))
        os.utime(lake.logs / name / "a.log", (WRITTEN, WRITTEN))
    lake.declare(**sources, grown=grown)
    lake.sets = ["silver.deduplicate.key=[hash:record]", "silver.deduplicate.within=1 hour", "silver.ahead=20000 days"]
    lake.run(spark)
    return lake


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if Spark is to start."""
    monkeypatch.setattr(open_lake, "spark_session", lambda *_, **__: pytest.fail("Spark is not needed"))


def records(lake: House, name: str) -> list[str]:
    """Return the records that bronze has of a source, as text."""
    return [bytes(row["value"]).decode() for row in lake.rows(f"bronze/{name}")]


def trace(lake: House, name: str, record: str, spark: SparkSession | None = None) -> Lineage:
    first = record.split("\n", maxsplit=1)[0].removesuffix("\r")
    return lake.lakehouse(spark).trace(f"{name}/a.log:{first}")


def silver_row(way: Lineage) -> Mapping[str, Any] | None:
    """Return silver's row of a line; None if it has none."""
    return next((step.row for step in way.steps if step.table == "silver.access_log"), None)


def second(way: Lineage) -> At:
    """Return where the line is after bronze."""
    return way.steps[1].at


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize("name", [*NAMES, "own", "grown"])
def test_a_line_of_a_file_is_traced_without_spark(lake: Several, name: str) -> None:
    ways = {record: trace(lake, name, record) for record in records(lake, name)}
    assert all(way.holds for way in ways.values())
    assert At.REFUSED in map(second, ways.values())
    silver = [row["message"] for row in lake.rows("silver/access_log") if row["source"] == name]
    assert silver
    assert sorted(row["message"] for row in map(silver_row, ways.values()) if row) == sorted(silver)


@pytest.mark.usefixtures("no_spark")
def test_a_repeat_and_a_record_of_several_lines_are_traced_without_spark(lake: Several) -> None:
    way = trace(lake, "grown", GROWN[0])
    assert [step.at for step in way.steps] == [At.THERE, At.DROPPED, At.THERE, At.COUNTED]
    record = next(record for record in records(lake, "java") if "\n" in record)
    way = trace(lake, "java", record)
    row = silver_row(way)
    assert row
    assert (way.line, row["message"].count("\n")) == (record, record.count("\n"))
    row = silver_row(trace(lake, "own", OF_OWN[0]))
    assert row
    assert (row["log_time"], row["message"], row["size"]) == ("2019-11-25T09:00:00.000000Z", "red\n\tand bold", 7)
    assert second(trace(lake, "own", OF_OWN[2])) is At.REFUSED


@pytest.mark.parametrize("name", [*NAMES, "own", "grown"])
def test_spark_traces_a_line_in_the_same_way(
    lake: Several, spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = {record: trace(lake, name, record, spark) for record in records(lake, name)}
    accepted = [record for record, way in ways.items() if silver_row(way)]
    monkeypatch.setattr(LineAgain, "without_spark", lambda _: None)
    assert trace(lake, name, accepted[-1], spark).to_dict() == ways[accepted[-1]].to_dict()


# --- what only Spark reads ---

EVENTS = {"json": {"time": "t", "level": "l", "message": "m"}, "time": "iso8601", "each": "$[*]"}
TWO_EVENTS = json.dumps([{"t": "2017-07-30T14:09:08Z", "l": "ERROR", "m": text} for text in ("one", "two")])
CLASS = {"pattern": r"^(?<time>\p{Digit}+) (?<message>.*)$", "time": "epoch_seconds", "default_level": "ERROR"}
ONLY_BY_SPARK = {"events": TWO_EVENTS, "digits": "1501423748 a text", "plain": "2017-07-30 14:09:08 ERROR \ufffd"}
PLAIN = "2017-07-30 14:10:08 ERROR some message"


@pytest.fixture(scope="module")
def odd(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Several:
    """Read lines that only Spark can read, and one of the default format."""
    root = tmp_path_factory.mktemp("odd")
    lake, formats = Several.at(root), {"events": EVENTS, "digits": CLASS}
    sources: dict[str, Mapping[str, Any]] = {"plain": {"path": str(lake.logs / "plain")}}
    for name, declared in formats.items():
        (root / f"{name}.yaml").write_text(yaml.safe_dump(declared))
        sources[name] = {"path": str(lake.logs / name), "format": str(root / f"{name}.yaml")}
        lake.write(f"{name}/a.log", ONLY_BY_SPARK[name].encode())
    lake.write("plain/a.log", b"2017-07-30 14:09:08 ERROR \xff", PLAIN.encode())
    lake.declare(**{name: dict(source) for name, source in sources.items()})
    lake.run(spark)
    return lake


@pytest.mark.parametrize(("name", "line"), [("events", TWO_EVENTS), ("digits", "1501423748 a text"), ("plain", None)])
def test_spark_reads_what_cannot_be_read_without_it(
    odd: Several, spark: SparkSession, name: str, line: str | None
) -> None:
    asked = f"{name}/a.log:{line or os.fsdecode(b'2017-07-30 14:09:08 ERROR ') + chr(0xDCFF)}"
    way = odd.lakehouse(spark).trace(asked)
    assert [step.at for step in way.steps] == [At.THERE, At.THERE, At.COUNTED]
    with pytest.MonkeyPatch.context() as context:
        context.setattr(open_lake, "spark_session", lambda *_, **__: pytest.fail("Spark is needed"))
        with pytest.raises(pytest.fail.Exception, match="Spark is needed"):
            odd.lakehouse().trace(asked)


@pytest.mark.usefixtures("no_spark")
def test_a_line_of_one_event_is_traced_without_spark_beside_lines_of_many(odd: Several) -> None:
    row = silver_row(trace(odd, "plain", PLAIN))
    assert row
    assert (row["message"], row["event_index"]) == ("some message", None)


def test_a_line_that_silver_lacks_as_it_was_read_is_read_by_spark(
    odd: Several, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = PlainReader.read
    monkeypatch.setattr(PlainReader, "read", lambda self, record: replace(read(self, record), message="another"))
    assert [step.at for step in trace(odd, "plain", PLAIN, spark).steps] == [At.THERE, At.THERE, At.COUNTED]


def test_a_line_that_a_later_rule_would_refuse_is_still_traced(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.write("a.log", PLAIN.encode())
    house.run(spark)
    rule = {"type": "expect_column_values_to_be_in_set", "kwargs": {"column": "level", "value_set": ["INFO"]}}
    directory = written(_made(house.root / "suites"), rule).parent
    house.sets = [*house.sets, f"quality.expectations={directory}"]
    house.write("b.log", PLAIN.encode())
    house.run(spark)
    lakehouse = house.lakehouse(spark)
    assert second(lakehouse.trace(f"b.log:{PLAIN}")) is At.REFUSED
    way = lakehouse.trace(f"a.log:{PLAIN}")
    assert [step.at for step in way.steps] == [At.THERE, At.THERE, At.COUNTED]
    monkeypatch.setattr(LineAgain, "without_spark", lambda _: None)
    assert lakehouse.trace(f"a.log:{PLAIN}").to_dict() == way.to_dict()


def test_a_line_that_silver_has_not_read_yet_needs_no_spark(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.write("a.log", PLAIN.encode())
    house.run(spark)
    house.write("b.log", PLAIN.encode(), JUNK.encode())
    chain = house.chain(spark)
    bronze = replace(chain, stages=chain.stages[:1])
    Run(bronze, spark, Progress(bronze, Recorder([])), threading.Event()).once()
    monkeypatch.setattr(open_lake, "spark_session", lambda *_, **__: pytest.fail("Spark is not needed"))
    for line in (PLAIN, JUNK):
        steps = house.lakehouse().trace(f"b.log:{line}").steps
        assert [step.at for step in steps] == [At.THERE, At.NOT_YET, At.NOT_YET]


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory
