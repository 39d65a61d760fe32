"""The record of batches has the time of each commit, the age of its oldest line, and the backlog that it left."""

from pathlib import Path

import pytest

from oncelake.exactly_once.batch import CommittedBatch
from oncelake.exactly_once.commit import CommitKind
from oncelake.observe.record import record
from tests.support.house import House
from tests.support.timed_commits import put

BRONZE, SILVER, QUARANTINE, GOLD = "bronze/access_log", "silver/access_log", "silver/quarantine", "gold/error_log"


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Make three batches of bronze, a second apart; silver reads one, then two; gold reads what silver has."""
    house = House(tmp_path)
    for version in (1, 2, 3):
        put(house, BRONZE, version, 1000 * version + 200, planned=1000 * version)
    put(house, SILVER, 1, 2500, planned=1300, end=2)
    put(house, SILVER, 2, 4000, planned=3300, first=2, end=4)
    put(house, QUARANTINE, 1, 4001, batch=1, planned=3300, first=2, end=4)
    put(house, GOLD, 1, 5000, planned=4100, end=3)
    return house


def of(house: House, stage: str, look: int = 100) -> list[CommittedBatch]:
    return record(house.chain(), look)[stage]


def test_a_batch_is_as_old_as_its_oldest_line_when_it_is_committed(house: House) -> None:
    assert [batch.freshness for batch in of(house, "bronze")] == [0.2, 0.2, 0.2]
    assert [batch.freshness for batch in of(house, "silver")] == [1.5, 2.0]
    assert [batch.freshness for batch in of(house, "gold.error_log")] == [4.0]


def test_rows_committed_but_not_read_at_that_time_were_waiting(house: House) -> None:
    assert [batch.waiting for batch in of(house, "silver")] == [10, 0]  # the third version came later
    assert [batch.waiting for batch in of(house, "bronze")] == [None, None, None]


def test_a_stages_second_table_counts_with_its_batch(house: House) -> None:
    first, second = of(house, "silver")
    assert first.rows == {"silver.access_log": 10}
    assert second.rows == {"silver.access_log": 10, "silver.quarantine": 10}
    assert second.seconds == pytest.approx(0.7)
    assert second.rate == pytest.approx(20 / 0.7)


def test_a_recovery_is_not_a_batch_but_a_loss_is(house: House) -> None:
    put(house, SILVER, 3, 6000, batch=1, planned=3300, first=2, end=4, event=CommitKind.RECOVERY)
    put(house, SILVER, 4, 7000, batch=2, first=4, end=5, event=CommitKind.LOSS, lost=("version 4",))
    assert [(batch.batch_id, batch.lost) for batch in of(house, "silver")] == [
        (0, ()),
        (1, ()),
        (2, ("version 4",)),
    ]


def test_a_recovery_makes_no_line_older(house: House) -> None:
    put(house, BRONZE, 4, 6200, planned=6000)
    put(house, SILVER, 3, 6300, batch=1, planned=3300, first=2, end=4, event=CommitKind.RECOVERY)
    put(house, SILVER, 4, 7000, batch=2, planned=6500, first=4, end=5)
    put(house, GOLD, 2, 8000, planned=7100, first=3, end=5)
    assert of(house, "gold.error_log")[-1].freshness == 2.0


def test_a_table_without_the_chain_s_batches_has_none(tmp_path: Path) -> None:
    assert record(House(tmp_path).chain()) == {"bronze": [], "silver": [], "gold.error_log": [], "gold.log_volume": []}


def test_freshness_is_unknown_if_earlier_commits_were_not_read(house: House) -> None:
    assert [batch.freshness for batch in of(house, "silver", look=1)] == [None]


def test_freshness_is_unknown_if_earlier_commits_were_cleaned_up(house: House) -> None:
    for version in (1, 2):
        (house.lake / BRONZE / "_delta_log" / f"{version:020d}.json").unlink()
    assert [batch.freshness for batch in of(house, "silver")] == [None, None]
