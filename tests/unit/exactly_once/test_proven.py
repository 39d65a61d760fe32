"""The record of a proof is read as it was written, and an unreadable record is skipped."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from oncelake.cli.prove import since_when
from oncelake.common.errors import ConfigError
from oncelake.exactly_once.link import Uncompared
from oncelake.exactly_once.proven import KEPT, ProvenTable, read_record, write_record
from tests.support.memory import MemoryFiles

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
LOST = Uncompared(4, "4 offsets of an accepted loss: alog/0/6 to 9", lasting=True)
PROVEN = ProvenTable("id", 7, 6, "query", '{"logOffset":6}', 60, ("versions below 2 are gone",), (LOST,))


def test_a_record_is_read_as_it_was_written() -> None:
    files = MemoryFiles()
    path = write_record(files, "lake", {"bronze.access_log": PROVEN}, NOW)
    assert path == "lake/_proofs/20260131T120000.000000Z.json"
    assert read_record(files, "lake") == {"bronze.access_log": PROVEN}
    assert json.loads(files.texts[path])["at"] == "2026-01-31 12:00:00 UTC"


def test_the_newest_readable_record_counts() -> None:
    files = MemoryFiles()
    write_record(files, "lake", {"bronze.access_log": PROVEN}, NOW)
    for hours, text in enumerate(
        ("", "[]", '{"form":1}', '{"form":2,"tables":{}}', '{"form":1,"at":"","tables":{"x":{}}}')
    ):
        files.texts[f"lake/_proofs/20270131T12000{hours}.000000Z.json"] = text
    assert read_record(files, "lake") == {"bronze.access_log": PROVEN}
    assert read_record(files, "elsewhere") == {}


def test_a_record_of_an_earlier_version_counts_only_if_no_commits_were_gone() -> None:
    files = MemoryFiles()
    whole = {"table_id": "id", "version": 7, "batch_id": 6, "query_id": "query", "end": None, "rows": 60, "gaps": []}
    tables = {"silver.access_log": whole, "bronze.access_log": {**whole, "gaps": ["versions below 2 are gone"]}}
    files.texts["lake/_proofs/20260131T120000.000000Z.json"] = json.dumps({"form": 1, "at": "", "tables": tables})
    assert read_record(files, "lake") == {"silver.access_log": ProvenTable("id", 7, 6, "query", None, 60)}


def test_only_the_newest_records_are_kept() -> None:
    files = MemoryFiles()
    for hours in range(KEPT + 3):
        write_record(files, "lake", {}, NOW + timedelta(hours=hours))
    names = sorted(files.names("lake/_proofs"))
    assert len(names) == KEPT
    assert names[-1] == "20260201T000000.000000Z.json"


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-01-30", datetime(2026, 1, 30, tzinfo=UTC)),
        ("2026-01-30T08:15", datetime(2026, 1, 30, 8, 15, tzinfo=UTC)),
        ("2026-01-30T08:15:00+02:00", datetime(2026, 1, 30, 6, 15, tzinfo=UTC)),
        ("2 h", NOW - timedelta(hours=2)),
        ("90 minutes", NOW - timedelta(minutes=90)),
        ("7 d", NOW - timedelta(days=7)),
        ("24h", NOW - timedelta(days=1)),
    ],
)
def test_a_time_is_a_date_or_a_span_back_from_now(text: str, at: datetime) -> None:
    assert since_when(text, NOW) == at.timestamp() * 1000


@pytest.mark.parametrize("text", ["last week", "2h ago", "", "2027-01-01", "5 fortnights", "99999999999 d"])
def test_an_invalid_time_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(ConfigError, match="--since"):
        since_when(text, NOW)
