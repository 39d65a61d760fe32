"""Files of every kind are read completely and once; a broken file stops its stage with a way out."""

import bz2
import gzip
import os
import random
import threading
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, LockedError, StageError
from oncelake.engine import preflight as preflights
from oncelake.engine.preflight import preflight
from oncelake.engine.runner import Run
from oncelake.observe.progress import Progress
from tests.support.house import House, Recorder
from tests.support.packed import damaged_bz2

pytestmark = pytest.mark.spark

GOOD = b"2017-07-30 14:09:08 ERROR some message"


def test_files_of_any_directory_compression_age_and_line_end_are_read(house: House, spark: SparkSession) -> None:
    house.write("a.log", GOOD, GOOD + b"\r", b"\r", b"  ")
    house.write("date=2017-07-30/hour=14/b [1]{x}*.log", GOOD)
    (house.logs / "c.log.gz").write_bytes(gzip.compress(GOOD + b"\n" + GOOD))
    (house.logs / "empty.log").touch()
    (house.logs / "newline.log").write_bytes(b"\n")
    (house.logs / "no newline.log").write_bytes(GOOD)
    (house.logs / "_ignored.log").write_bytes(GOOD)
    big = GOOD + b" " + b"x" * 10_000_000
    house.write("big.log", big, b"y" * 10_000_000)
    house.run(spark)
    lines = [GOOD, GOOD + b"\r", b"\r", b"  ", GOOD, GOOD, GOOD, b"", GOOD, big, b"y" * 10_000_000]
    house.must_be(lines)
    assert sorted(row["value"] for row in house.rows("bronze/access_log")) == sorted(lines)
    house.write("old.log", GOOD)
    os.utime(house.logs / "old.log", (1_000_000_000, 1_000_000_000))
    house.run(spark)
    house.must_be([*lines, GOOD])


def test_a_line_that_cannot_be_decoded_gives_null_and_all_others_count(house: House, spark: SparkSession) -> None:
    declared = "{every: 1 day, by: {text: url_decode(message)}, measures: {n: count}}"
    house.sets.append(f"gold.decoded={declared}")
    house.write("a.log", *(b"2017-07-30 14:09:08 ERROR " + text for text in (b"a%20b", b"100%zz", b"a%20b", b"%")))
    preflight(spark, house.chain(spark))
    house.run(spark)
    assert Counter({row["text"]: row["n"] for row in house.rows("gold/decoded")}) == {"a b": 2, None: 2}


def test_an_expression_that_throws_is_refused_even_for_an_existing_table(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = "{every: 1 day, by: {text: unbase64(message)}, measures: {n: count}}"
    house.sets.append(f"gold.decoded={declared}")
    house.write("a.log", GOOD.replace(b"some message", b"YQ=="))
    chain = house.chain(spark)
    with pytest.raises(ConfigError, match=r"in unbase64; write try_to_binary\(x, 'base64'\)$"):
        preflight(spark, chain)
    with monkeypatch.context() as earlier:  # a version without the check built the table
        earlier.setattr(preflights, "check_gold", lambda *_: None)
        house.run(spark)
    with pytest.raises(ConfigError, match=r"try_to_binary\(x, 'base64'\); .* declare the new table under another name"):
        preflight(spark, chain)


def test_noise_of_every_kind_is_counted_or_quarantined(house: House, spark: SparkSession) -> None:
    chance = random.Random(1)
    drawn = [bytes(chance.choices(range(256), k=chance.randrange(60))).replace(b"\n", b" ") for _ in range(300)]
    noise = [line.lstrip(b"\0") for line in drawn]  # NUL bytes before a line are a row of their own: test_stand_ins.py
    cut = [GOOD[: chance.randrange(len(GOOD))] for _ in range(100)]
    swapped = [bytes(chance.sample(GOOD, len(GOOD))) for _ in range(100)]
    odd = [
        b"2017-02-30 14:09:08 ERROR no such day",
        b"2017-07-30 24:00:00 ERROR no such hour",
        b"2017-07-30 23:59:60 ERROR no such second",
        b"1969-12-31 23:59:59 ERROR before the epoch",
        b"1970-01-01 00:00:00 ERROR at the epoch",
        b"9999-12-31 23:59:59 ERROR far ahead",
        b"0000-00-00 00:00:00 ERROR zero",
        b"2017-07-30T14:09:08 ERROR another shape",
        b"2017-7-30 4:9:8 ERROR another shape",
        b" 2017-07-30 14:09:08 ERROR indented",
        b"2017-07-30 14:09:08  ERROR two spaces",
        b"2017-07-30 14:09:08 WARNING no known level",
        b"2017-07-30 14:09:08 eRRoR mixed case",
        "２０１７-07-30 14:09:08 ERROR wide digits".encode(),
        b"2017-07-30 14:09:08 ERROR \xe2\x80\xa8 line separator \xc2\x85 next line \x0b\x0c\x1c",
        b"2017-07-30 14:09:08 ERROR",
        b"2017-07-30 14:09:08 ERROR ",
    ]
    lines = [*noise, *cut, *swapped, *odd]
    chance.shuffle(lines)
    house.write("noise.log", *lines)
    house.run(spark)
    house.must_be(lines)


def run_until_taken_over(house: House, spark: SparkSession) -> None:
    """Run on a lake that another process takes over as soon as no query is active any more."""
    seen = False

    def fence() -> None:
        nonlocal seen
        active = bool(spark.streams.active)
        if seen and not active:
            raise LockedError("taken over")
        seen |= active

    chain = house.chain(spark)
    Run(chain, spark, Progress(chain, Recorder([])), threading.Event(), fence).once()


def test_a_damaged_file_is_named_and_the_run_continues_after_its_repair(house: House, spark: SparkSession) -> None:
    whole = bz2.compress(b"\n".join([GOOD] * 20_000))
    broken = house.logs / "broken.log.bz2"
    broken.write_bytes(damaged_bz2())
    with pytest.raises(
        StageError, match=r"bronze stopped in batch 0: .*broken\.log\.bz2.*replace it with a complete one"
    ):
        house.run(spark)
    assert house.size("bronze/access_log") == 0
    with pytest.raises(LockedError, match="taken over"):
        run_until_taken_over(house, spark)
    broken.write_bytes(whole)
    house.run(spark)
    house.must_be([GOOD] * 20_000)


def test_small_batches_read_all_files(house: House, spark: SparkSession) -> None:
    house.sets = ["source.max_bytes_per_batch=50", "run.max_bytes_per_batch=2000"]
    for number in range(4):
        house.write(f"{number}.log", GOOD, b"broken")
    reports = house.run(spark)
    assert [report.batch_id for report in reports if report.stage == "bronze"] == [0, 1, 2, 3]
    assert max(report.batch_id for report in reports if report.stage == "gold.error_log") > 0
    house.must_be([GOOD, b"broken"] * 4)


def test_a_lake_whose_path_delta_rs_misreads_is_written_and_no_other(house: House, spark: SparkSession) -> None:
    names = ("aAb", "a%41b", "a[b]^|")
    for number, name in enumerate(names):
        house.sets = [f"lake.root={house.root / name}"]
        house.write(f"{number}.log", GOOD)
        house.run(spark)
    bronze = [spark.read.format("delta").load(f"{house.root / name}/bronze/access_log") for name in names]
    assert [rows.count() for rows in bronze] == [1, 2, 3]
    assert house.doubts(spark) == []


@pytest.mark.parametrize(
    ("name", "line", "level"),
    [
        ("log4j", b"2015-07-29 17:41:44,747 - INFO  [main:Cls@774] - text", "INFO"),
        ("apache_error", b"[Sun Dec 04 04:47:44 2005] [error] text", "ERROR"),
        ("syslog", b"<11>Oct 11 22:14:15 host app[1]: text", "ERROR"),
        ("json", b'{"time": "2017-07-30T14:09:08Z", "level": "error", "message": "text"}', "ERROR"),
    ],
)
def test_another_format_is_one_setting(house: House, spark: SparkSession, name: str, line: bytes, level: str) -> None:
    house.sets = [f"source.format={name}"]
    house.write("a.log", line, b"broken")
    house.run(spark)
    (row,) = house.rows("silver/access_log")
    assert (row["level"], row["message"]) == (level, "text")
    assert house.size("silver/quarantine") == 1


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (["source.path=/none"], r"source\.path /none: nothing exists at this path"),
        (["source.path=nonsense://x/y"], r"source\.path nonsense://x/y: Spark cannot read it"),
        (["gold.error_log.where=levl = 'ERROR'"], r"gold\.error_log\.where: .*levl"),
    ],
)
def test_a_setting_that_spark_refuses_is_an_error_before_the_start(
    house: House, spark: SparkSession, sets: list[str], expected: str
) -> None:
    house.sets = sets
    with pytest.raises(ConfigError, match=expected):
        preflight(spark, house.chain(spark))
    assert not house.lake.exists()


def test_a_directory_whose_name_is_a_pattern_is_read_with_backslashes(
    house: House, spark: SparkSession, tmp_path: Path
) -> None:
    logs = tmp_path / "app[1]"
    logs.mkdir()
    (logs / "a.log").write_bytes(b"2017-07-30 14:09:08 ERROR one\n")
    house.sets = [f"source.path={logs}"]
    with pytest.raises(
        ConfigError, match=r"app\[1\]: it is read as a pattern, which matches nothing, and a directory has"
    ):
        preflight(spark, house.chain(spark))
    house.sets = [f"source.path={tmp_path}/app\\[1\\]"]
    house.run(spark)
    assert house.size("silver/access_log") == 1
    assert house.doubts(spark) == []


def test_a_pattern_that_java_refuses_is_an_error(house: House, spark: SparkSession, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("pattern: '^(?<time>x{2,1}) (?<level>a) (?<message>.*)$'\ntime: yyyy\n")
    house.sets = [f"source.format={broken}"]
    with pytest.raises(ConfigError, match="pattern"):
        preflight(spark, house.chain(spark))
