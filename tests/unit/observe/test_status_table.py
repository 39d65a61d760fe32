"""The table of `oncelake status` fits the terminal, and leaves nothing out if there is no terminal."""

from dataclasses import replace

import pytest

from oncelake.observe.status import StageStatus, quality_lines, status_sentence, status_table

BRONZE = StageStatus("bronze", "aligned", True, 7, {"bronze.access_log": 1_197_432}, 0, "files", 15.2, None, "", [])
SILVER = replace(
    BRONZE,
    stage="silver",
    rows={"silver.access_log": 1_197_029, "silver.quarantine": 403},
    backlog_unit="rows",
    seconds_behind=0.0,
)
LOST = replace(BRONZE, stage="serving.error_log", state="checkpoint lost", may_start=False, backlog=None)
ROWS = (BRONZE, SILVER, LOST)
TITLES = ("stage", "state", "batch", "rows", "quarantine", "backlog", "behind", "last_batch")


def titles(rows: tuple[StageStatus, ...], width: int | None) -> list[str]:
    return status_table(rows, width)[0].plain.replace("last batch", "last_batch").split()


@pytest.mark.parametrize("width", [80, 100, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for rows in (ROWS, (BRONZE, SILVER)):
        assert max(line.cell_len for line in status_table(rows, width)) <= width


def test_the_least_important_columns_are_dropped_first() -> None:
    assert tuple(titles(ROWS, None)) == TITLES
    assert set(TITLES) - set(titles((BRONZE, SILVER), 70)) == {"behind"}
    assert {"stage", "state", "rows", "backlog"} <= set(titles(ROWS, 1))


def test_a_terminal_of_80_columns_has_room_for_quarantine_and_both_ages() -> None:
    rows = [
        replace(BRONZE, rows={"bronze.access_log": 20_000}),
        replace(SILVER, rows={"silver.access_log": 20_000, "silver.quarantine": 60}, newest_line_seconds=20.0),
        replace(SILVER, stage="gold.log_volume", rows={"gold.log_volume": 479}, newest_line_seconds=3408 * 86_400.0),
    ]
    shown = status_table(rows, 80)[0].plain
    assert all(title in shown for title in ("quarantine", "newest line", "last batch"))


def test_each_number_is_in_its_column() -> None:
    assert [" ".join(line.plain.split()) for line in status_table(ROWS, None)[1:]] == [
        "bronze aligned 7 1,197,432 0 files 15 s ago",
        "silver aligned 7 1,197,029 403 0 rows 0 s 15 s ago",
        "serving.error_log checkpoint lost 7 1,197,432 ? 15 s ago",
    ]
    assert "quarantine" not in titles((BRONZE, LOST), None)
    repeats = replace(SILVER, rows={**SILVER.rows, "silver.duplicates": 12})
    assert titles((BRONZE, repeats), None)[4:6] == ["quarantine", "duplicates"]
    assert status_table((repeats,), None)[1].plain.split()[4:6] == ["403", "12"]
    assert status_table(ROWS, 120)[3].spans[0].style == "bold red"


def test_a_line_of_status_has_its_nouns_in_the_right_number() -> None:
    one = replace(BRONZE, batch_id=0, rows={"bronze.access_log": 1}, backlog=1)
    assert status_sentence(one) == "bronze: aligned: batch 0, committed 15 s ago, 1 row, backlog 1 file"
    assert status_sentence(SILVER) == (
        "silver: aligned: batch 7, committed 15 s ago, 1,197,029 + 403 quarantine rows, backlog 0 rows"
    )
    broken = replace(SILVER, quality={"batch_id": 7, "lines": 1, "rules": {"pattern": 1}, "warned": []})
    assert list(quality_lines([broken])) == ["silver: batch 7, 1 line, broke rules: pattern 1"]
