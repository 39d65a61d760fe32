"""A run and a proof say how many lines the records have, and a run says that times cannot be right."""

import os
from datetime import UTC, datetime

import pytest
from pyspark.sql import SparkSession

from oncelake.common.lake import BRONZE
from tests.support.house import House
from tests.support.writers import each_writer

pytestmark = pytest.mark.spark


@each_writer
def test_a_run_and_a_proof_say_records_and_lines(house: House, spark: SparkSession, small_batch: str) -> None:
    house.sets += [f"run.small_batch={small_batch}", "source.format=java"]
    first, trace = b"2026-11-25 10:00:01,500 ERROR [h] c.A - one", b"\tat c.A.b(A.java:1)"
    house.write("a.log", first, trace, trace, first)
    reports = [report for report in house.run(spark) if report.stage == "bronze"]
    assert [(report.rows[str(BRONZE)], report.lines) for report in reports] == [(2, 4)]
    assert str(house.lakehouse(spark).prove().claim) == "2 records of 4 lines, every one exactly once"
    house.write("b.log", first, trace)
    assert "bronze: batch 1, 1 record of 2 lines, " in house.tell(spark, "run", "--once")
    for full in (False, True):
        proof = house.lakehouse(spark).prove(full=full)
        assert (proof.lines, proof.in_records) == (3, 6)
        assert str(proof.claim) == "3 records of 6 lines, every one exactly once"


@each_writer
def test_a_run_warns_once_of_lines_that_are_later_than_their_file(
    house: House, spark: SparkSession, small_batch: str
) -> None:
    house.sets += [f"run.small_batch={small_batch}"]
    written = datetime(2017, 7, 30, 5, 9, 8, tzinfo=UTC).timestamp()
    for name in ("a.log", "b.log"):
        house.write(name, b"2017-07-30 14:09:08 ERROR one", b"broken")
        os.utime(house.logs / name, (written, written))
        said = [warning for report in house.run(spark) for warning in report.warned]
        assert said == [
            "1 line is later than the file or record that brought it, by up to 9 h; is source.zone the zone of the "
            "machine that wrote them?"
        ]
    house.write("c.log", b"2017-07-30 14:09:08 ERROR one")
    assert [warning for report in house.run(spark) for warning in report.warned] == []
