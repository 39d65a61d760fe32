"""Maintenance moves rows and changes none: same answer, same proof, and a replayed batch is still a no-op."""

import threading

import pytest
from pyspark.sql import SparkSession

from oncelake.common.lake import BRONZE, QUARANTINE, SILVER
from oncelake.engine.maintain import MaintenanceResult, maintain
from tests.support.house import House, events
from tests.support.lakes import LINES, MORE, Filled, forget_commits


@pytest.fixture
def ran(filled: Filled, spark: SparkSession) -> House:
    """Restore the filled lake as it was after its last batch."""
    return filled.again(spark)


def tidy(house: House, spark: SparkSession) -> dict[str, MaintenanceResult]:
    return {result.table: result for result in maintain(house.chain(spark), spark)}


def must_skip(house: House, spark: SparkSession) -> None:
    """Check that another maintenance skips each table, because it has no new batch."""
    before = house.versions()
    assert {result.skipped for result in tidy(house, spark).values()} == {"no batch since the last maintenance"}
    assert house.versions() == before


@pytest.mark.spark
def test_small_files_are_compacted_and_every_line_counts_once(ran: House, spark: SparkSession) -> None:
    done = tidy(ran, spark)
    assert [(done[str(table)].compacted, done[str(table)].made) for table in (BRONZE, SILVER)] == [(3, 1), (3, 1)]
    must_skip(ran, spark)
    ran.must_be(LINES)
    assert ran.doubts(spark) == []
    forget_commits(ran, "silver")
    first, *others = ran.run(spark)
    assert (first.stage, first.replayed) == ("silver", True)
    assert not any(rows for other in others for rows in other.rows.values())  # the position moves over the compaction
    ran.must_be(LINES)
    ran.write("more.log", *MORE)
    ran.run(spark)
    ran.must_be([*LINES, *MORE])
    assert ran.doubts(spark) == []


@pytest.mark.spark
def test_a_lake_without_tables_says_so(house: House, spark: SparkSession) -> None:
    assert {result.skipped for result in maintain(house.chain(spark), spark)} == {"there is no table yet"}


@pytest.mark.spark
def test_maintenance_during_a_continuous_run_changes_no_answer(ran: House, spark: SparkSession) -> None:
    ran.write("more.log", *MORE)
    done: list[dict[str, MaintenanceResult]] = []
    beside = threading.Thread(target=lambda: done.append(tidy(ran, spark)))
    beside.start()
    ran.run(spark)
    beside.join()
    assert len(done) == 1
    ran.must_be([*LINES, *MORE])
    assert ran.doubts(spark) == []


@pytest.mark.spark
def test_the_command_reports_what_it_did(house: House, spark: SparkSession) -> None:
    house.write("a.log", *LINES)
    house.run(spark)
    said = house.tell(spark, "maintain")
    assert f"{QUARANTINE}: no small files" in said
    (told,) = events(house.tell(spark, "maintain", "--json"))
    assert [table["table"] for table in told["tables"]][:3] == [str(BRONZE), str(SILVER), str(QUARANTINE)]
