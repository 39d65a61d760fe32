"""`status` shows how old the newest line is that a stage has counted, however old its last batch is; without Spark."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import deltalake
import pyarrow
import pytest

from oncelake.observe.status import status_table
from tests.support.house import House
from tests.support.memory import MemoryFiles, at, commit, metadata, offsets

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Make a lake whose silver got an old line after a new one, and whose error_log has read only the first batch."""
    house = House.with_error_log(tmp_path)
    for batch, minutes in enumerate((5, 90)):
        rows = pyarrow.table({"log_time": [NOON - timedelta(minutes=minutes), NOON - timedelta(days=1)]})
        written = metadata(batch, "silver.access_log")
        properties = deltalake.CommitProperties(custom_metadata={"userMetadata": written.to_json()})
        path = house.lake / "silver/access_log"
        deltalake.write_deltalake(str(path), rows, mode="append", commit_properties=properties)
    return house


def gold(house: House, end: int) -> None:
    """Commit a batch of error_log that read silver below a version."""
    files, name = MemoryFiles(), "gold.error_log"
    written = metadata(0, name, stage=name, after=offsets(at(end, "silver-id")))
    commit(files, str(house.lake / "gold/error_log"), 0, written)
    for path, text in files.texts.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)


def newest(house: House) -> dict[str, str | None]:
    return {row.stage: row.newest_line for row in house.lakehouse().status()}


def test_the_newest_line_is_that_of_all_batches(house: House) -> None:
    assert newest(house) == {"bronze": None, "silver": "2026-01-31T11:55:00Z", "gold.error_log": None}


@pytest.mark.parametrize(("end", "expected"), [(0, None), (1, "2026-01-31T11:55:00Z"), (2, "2026-01-31T11:55:00Z")])
def test_a_gold_table_counts_only_what_it_has_read(house: House, end: int, expected: str | None) -> None:
    gold(house, end)
    assert newest(house)["gold.error_log"] == expected


def test_the_ages_of_the_newest_line_and_of_the_last_batch_are_apart(house: House) -> None:
    rows = house.lakehouse().status()
    silver = next(row for row in rows if row.stage == "silver")
    assert silver.newest_line_seconds == pytest.approx((datetime.now(UTC) - NOON).total_seconds() + 300, abs=60)
    assert silver.freshness_seconds == pytest.approx(0, abs=60)
    (titles, *_) = status_table(rows, None)
    assert [part for part in titles.plain.split("  ") if part][-2:] == ["newest line", "last batch"]
