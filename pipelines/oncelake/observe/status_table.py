"""This is where the stages' status is drawn as a table for people, no wider than their terminal."""

from collections.abc import Callable, Mapping, Sequence

from rich.cells import cell_len
from rich.text import Text

from oncelake.common.wording import age, ago
from oncelake.observe.backlog import backlog_words
from oncelake.observe.columns import GAP, Column, total
from oncelake.observe.status import StageStatus

# Columns give way in this order where the terminal is narrow.
GIVE_WAY = ("behind", "quarantine", "committed")


def status_table(rows: Sequence[StageStatus], width: int | None) -> list[Text]:
    """Give the table's lines.

    Args:
        rows: the stages.
        width: how many cells a line may have; None where no terminal is to show it, and every column is there.
    """
    columns = [column for column in (_column(title, rows) for title in _CELLS) if any(column.cells.values())]
    for title in GIVE_WAY:
        if width is None or total(columns) <= width:
            break
        columns = [column for column in columns if column.title != title]
    return [Text(GAP.join(column.pad(column.title) for column in columns)), *(_line(row, columns) for row in rows)]


def _column(title: str, rows: Sequence[StageStatus]) -> Column:
    cells = {row.stage: _CELLS[title](row) for row in rows}
    return Column(title, cells, max(map(cell_len, (title, *cells.values()))), title not in ("stage", "state"))


def _line(row: StageStatus, columns: Sequence[Column]) -> Text:
    line = Text()
    for column in columns:
        line.append(GAP if line else "")
        alarming = column.title == "state" and not row.may_start
        line.append(column.pad(column.cells[row.stage]), "bold red" if alarming else "")
    return line


def _beside(row: StageStatus) -> str:
    """Give the rows of the tables that a stage writes beside its first."""
    return " + ".join(f"{count:,}" for count in list(row.rows.values())[1:])


_CELLS: Mapping[str, Callable[[StageStatus], str]] = {
    "stage": lambda row: row.stage,
    "state": lambda row: row.state,
    "batch": lambda row: "-" if row.batch_id is None else str(row.batch_id),
    "rows": lambda row: f"{next(iter(row.rows.values())):,}",
    "quarantine": _beside,
    "backlog": lambda row: backlog_words(row.backlog, row.backlog_unit),
    "behind": lambda row: "" if row.seconds_behind is None else age(row.seconds_behind),
    "committed": lambda row: "-" if row.freshness_seconds is None else ago(row.freshness_seconds),
}
