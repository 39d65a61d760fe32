"""A line above the bound, and NUL bytes before a line, are a row of quarantine each; every other line counts."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.house import House
from tests.support.lakes import BATCHES

pytestmark = pytest.mark.spark

BOUND = 2_000
LONG = b"2017-07-30 14:09:08 ERROR from a@b.example " + b"x" * 5_000
NULS = b"\0" * 5_000
ONE, TWO = BATCHES[0][:2]
KINDS = ["tail", "files"]


@pytest.fixture
def house(house: House, request: pytest.FixtureRequest) -> House:
    """Return a lake whose logs have a long line, and lines behind NUL bytes as `copytruncate` leaves them."""
    house.sets = [f"source.kind={request.param}", f"source.max_line={BOUND}"]
    house.write("cut.log", NULS + ONE, TWO, b"\0")
    house.write("long.log", ONE, LONG, TWO)
    packed = house.logs / "packed.log.gz"
    packed.write_bytes(gzip.compress(TWO + b"\n" + NULS + LONG))
    os.utime(packed, (1_700_000_000, 1_700_000_000))  # its last line has no end, and is read when it is quiet
    return house


def faults(house: House, spark: SparkSession) -> list[str]:
    links = house.lakehouse(spark).prove(deep=True, full=True).links
    return [f"{link.name}: {link.said}" for link in links if not link.holds]


def refused(house: House) -> list[tuple[str, str, bytes, int]]:
    """Return rule, file, value and bytes of the rows in quarantine."""
    entries = []
    for row in house.rows("silver/quarantine"):
        (reason,) = row["reasons"]
        value = bytes(row["value"])
        entries.append((reason["rule"], Path(row["file"]).name, value, int(row["headers"][0]["value"])))
    return sorted(entries)


REFUSED = [
    ("line_size", "long.log", LONG[:1024], len(LONG) + 1),
    ("line_size", "packed.log.gz", LONG[:1024], len(LONG) + 1),
    ("nul_bytes", "cut.log", b"\0", 2),
    ("nul_bytes", "cut.log", b"\0" * 1024, len(NULS)),
    ("nul_bytes", "packed.log.gz", b"\0" * 1024, len(NULS)),
]


@pytest.mark.parametrize("house", KINDS, indirect=True)
def test_every_line_counts_and_the_stand_ins_are_in_quarantine(house: House, spark: SparkSession) -> None:
    house.run(spark)
    assert house.size("silver/access_log") == 5
    assert refused(house) == REFUSED
    assert faults(house, spark) == []
    entries = [row["headers"][1:] for row in house.rows("silver/quarantine")]
    digests = {bytes(entry["value"]).decode() for group in entries for entry in group}
    assert digests == {hashlib.sha256(LONG).hexdigest()}


@pytest.mark.parametrize("house", KINDS, indirect=True)
def test_another_bound_changes_nothing_of_what_was_read(house: House, spark: SparkSession) -> None:
    house.run(spark)
    house.sets.append("source.max_line=1MiB")
    house.write("later.log", LONG)
    house.run(spark)
    assert (house.size("silver/access_log"), refused(house)) == (6, REFUSED)
    assert faults(house, spark) == []
    assert "0 of 5 lines moved" in house.tell(spark, "quarantine", "replay")
    assert (house.size("silver/access_log"), refused(house)) == (6, REFUSED)
    house.rebuild(spark, "bronze")
    assert house.size("silver/access_log") == 8
    assert faults(house, spark) == []


@pytest.mark.parametrize("house", KINDS, indirect=True)
def test_a_long_line_that_was_changed_behind_its_beginning_is_named(house: House, spark: SparkSession) -> None:
    path = house.logs / "long.log"
    house.write(path.name, ONE, LONG, *[TWO] * 40_000)  # of growing files, each run compares the last megabyte
    house.run(spark)
    stat = path.stat()
    path.write_bytes(path.read_bytes().replace(b"x" * 3_000, b"x" * 2_999 + b"y"))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert any("long.log" in fault for fault in faults(house, spark))


@pytest.mark.parametrize("house", KINDS, indirect=True)
def test_the_beginning_of_a_long_line_is_masked_and_what_it_stands_for_is_not(
    house: House, spark: SparkSession
) -> None:
    house.sets.append("source.mask={rules: [{find: email, action: drop}, {pattern: '[0-9a-f]{9,}', action: drop}]}")
    house.run(spark)
    masked = LONG[:1024].replace(b"a@b.example", b"")
    assert [row[2:] for row in refused(house) if row[0] == "line_size"] == [(masked, len(LONG) + 1)] * 2
    assert faults(house, spark) == []


@pytest.mark.parametrize("house", KINDS, indirect=True)
def test_a_record_of_several_lines_ends_before_a_stand_in(house: House, spark: SparkSession) -> None:
    (house.root / "records.yaml").write_text(
        "pattern: '^(?<time>\\S+ \\S+) (?<level>\\S+) (?<message>.*)$'\ntime: yyyy-MM-dd HH:mm:ss\n"
        "record: {starts: '^\\d{4}-'}\n"
    )
    house.sets.append(f"source.format={house.root / 'records.yaml'}")
    house.write("records.log", ONE + b"\n more", b"x" * 3_000, b" lost", TWO, NULS + ONE, b" more")
    house.run(spark)
    of_file = [row for row in house.rows("silver/quarantine") if row["file"].endswith("/records.log")]
    assert sorted(row["reasons"][0]["rule"] for row in of_file) == ["line_size", "nul_bytes", "record_start"]
    messages = [row["message"] for row in house.rows("silver/access_log") if row["file"].endswith("/records.log")]
    assert sorted(message.endswith("\n more") for message in messages) == [False, True, True]
    assert faults(house, spark) == []
