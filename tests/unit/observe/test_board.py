"""The live board fits the terminal, whatever its size, its encoding and the names on it."""

import io
from collections.abc import Iterator

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live

from oncelake.observe.board import GIVE_WAY, Board, BoardEvent, Head, Row, sparkline, widths_in

NOW = 1_785_420_000.0  # 2026-07-30 14:00:00 UTC
HEAD = Head("oncelake run", ("/var/log/app", "/srv/lake"), ("312,000 lines", "since 13:58:00 UTC"))
FULL = Row(
    "bronze",
    batch_id=12,
    this_run=312_000,
    rows=1_312_000,
    rate=24_133.0,
    backlog=3,
    unit="files",
    committed=NOW - 4,
    freshness=1.44,
    history=(10.0, 0.0, 20.0),
)
NAMES = (
    "silver",
    "gold.errors_by_service_and_region_and_host",
    "gold.サービスごとのとても長い名前のエラー集計",
    "serving.\x1b[2J\x07evil\nname",
)
ROWS = [
    FULL,
    *(Row(**{**vars(FULL), "stage": name, "unit": "rows"}) for name in NAMES),
    Row("gold.new", note="waits"),
]
EVENTS = [BoardEvent(NOW - 60 + number, f"silver: batch {number}: {'long ' * 60}") for number in range(9)]


def lines(columns: int, height: int = 24, encoding: str = "utf-8", rows: list[Row] = ROWS) -> list[str]:
    return [line.plain for line in Board(HEAD, rows, EVENTS, lambda: NOW).lines(columns, height, encoding)]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
@pytest.mark.parametrize("columns", [1, 7, 20, 40, 60, 79, 80, 81, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(columns: int, encoding: str) -> None:
    for line in lines(columns, encoding=encoding):
        assert cell_len(line) <= columns, line
        assert line.isprintable()
        line.encode(encoding)


def test_the_main_columns_fit_in_80() -> None:
    header = lines(80)[2]
    assert header.split() == ["stage", "batch", "this", "run", "rows/s", "backlog", "age", "freshness", "trend"]
    bronze = lines(80)[3]
    assert bronze.split() == ["bronze", "12", "312,000", "24,133", "3", "files", "4", "s", "1.4", "s", "▄▁▇"]
    assert "in table" in lines(120)[2]


def test_columns_are_dropped_in_order() -> None:
    shown = [{column.title for column in widths_in(width, [FULL], NOW)} for width in range(100, 10, -1)]
    kept = [{"stage", *GIVE_WAY[count:]} - {"state"} for count in range(len(GIVE_WAY))]
    assert [column for number, column in enumerate(shown) if column not in shown[:number]] == kept


def test_a_long_name_is_truncated_and_drops_no_column() -> None:
    assert "gold.errors_by_se…" in "\n".join(lines(80))
    assert NAMES[1] in "\n".join(lines(120))
    short = [Row(**{**vars(FULL), "stage": "serving.error_log1"})]
    assert lines(80, rows=short)[2].split() == lines(80)[2].split()


@pytest.mark.parametrize("height", [1, 2, 3, 5, 23, 25, 30])
def test_twenty_stages_never_scroll_and_events_are_dropped_first(height: int) -> None:
    rows = [Row(**{**vars(FULL), "stage": f"gold.table_{number}"}) for number in range(20)]
    told = lines(80, height, rows=rows)
    assert len(told) <= height
    if height == 23:
        assert "gold.table_19" in told[-1]
    if height == 5:
        assert told[-1] == "… 18 more stages"
    assert any("silver: batch 8" in line for line in told) == (height >= 25)


def test_the_last_events_are_shown_with_their_times() -> None:
    told = lines(120)
    assert [line[:8] for line in told[-5:]] == ["13:59:04", "13:59:05", "13:59:06", "13:59:07", "13:59:08"]


def test_the_row_of_a_stage_shows_what_it_waits_for() -> None:
    rows = [FULL, Row("gold.new", note="waiting for silver.access_log")]
    assert "gold.new  waiting for silver.access_log" in lines(80, rows=rows)


def test_a_refusing_state_is_shown_even_if_all_else_is_dropped() -> None:
    rows = [Row(**{**vars(FULL), "state": "checkpoint lost", "may_start": False})]
    assert "checkpoint lost" in lines(30, rows=rows)[3]


def test_ages_increase_between_two_batches() -> None:
    times: Iterator[float] = iter([NOW, NOW + 1, NOW + 61])
    board = Board(HEAD, [FULL], [], lambda: next(times))
    ages = [" ".join(board.lines(80, 24)[3].plain.split()[-5:-3]) for _ in range(3)]
    assert ages == ["4 s", "5 s", "1 min"]


def test_a_sparkline_shows_the_last_values_against_the_highest_of_them() -> None:
    assert sparkline([0, 1, 2, 4]) == "▁▃▄▇"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""
    rows = [Row(**{**vars(FULL), "history": (100.0, *range(200))})]
    for columns in (80, 120):
        trend = lines(columns, rows=rows)[3].split()[-1]
        assert trend == sparkline(range(200)[-len(trend) :])
    assert lines(80, encoding="ascii")[3].split()[-1] == "-_#"


@pytest.mark.parametrize("color", [None, "truecolor"])
def test_a_live_display_draws_the_board_without_scrolling(color: str | None) -> None:
    rows = [Row(**{**vars(FULL), "stage": f"gold.table_{number}"}) for number in range(40)]
    screen = io.StringIO()
    console = Console(file=screen, width=80, height=24, force_terminal=True, color_system=color)  # type: ignore[arg-type]
    board = Board(HEAD, rows, EVENTS, lambda: NOW)
    with Live(board, console=console, auto_refresh=False, vertical_overflow="crop", transient=True) as live:
        live.refresh()
        frame = screen.getvalue()
    assert frame.count("\n") < 2 * 24
    assert ("\x1b[1m" in frame) == (color is not None)
    assert "gold.table_39" not in frame
