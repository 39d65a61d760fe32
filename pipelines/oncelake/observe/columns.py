"""Text tables that drop columns in a fixed order on a narrow terminal.

rich's own table wraps or shrinks every column instead, and its cells cannot span columns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.cells import cell_len
from rich.text import Text

RowT = TypeVar("RowT")
# The space between two columns.
GAP = Text("  ")


@dataclass(frozen=True)
class Column(Generic[RowT]):
    """A column: its title, and a function that returns a row's text.

    Attributes:
        right: True to align right, as for numbers.
        style: returns the style of a row's cell.
        most: the maximum width in cells; longer text is cut before a column is dropped.
    """

    title: str
    cell: Callable[[RowT], str]
    right: bool = True
    style: Callable[[RowT], str] = lambda _: ""
    most: int = 10_000

    def natural(self, rows: Sequence[RowT]) -> int:
        """Return the width in cells that shows every text uncut."""
        return max(map(cell_len, (self.title, *map(self.cell, rows))))

    def draw(self, row: RowT | None, width: int) -> Text:
        """Draw a row's cell, or the title if the row is None, `width` cells wide; longer text is cut."""
        text = Text(self.title) if row is None else Text(self.cell(row), self.style(row))
        text.overflow = "ellipsis"
        text.align("right" if self.right else "left", width)
        return text


def fitting(
    columns: Sequence[Column[RowT]], rows: Sequence[RowT], give_way: Sequence[str], width: int | None
) -> dict[Column[RowT], int]:
    """Return the columns that fit, in order, with their widths; columns without any text are skipped.

    Args:
        columns: all columns.
        rows: the rows to show.
        give_way: the titles of the columns that may be dropped, in the order of dropping.
        width: the maximum line width in cells; None to keep every column, for output that is not a terminal.
    """
    first, *others = columns
    widths = {
        column: min(column.natural(rows), column.most)
        for column in (first, *(other for other in others if any(map(other.cell, rows))))
    }
    for title in give_way:
        if width is None or total(widths) <= width:
            break
        widths = {column: cells for column, cells in widths.items() if column.title != title}
    return widths


def total(widths: Mapping[Column[RowT], int]) -> int:
    """Return the width of a line in cells."""
    return sum(widths.values()) + GAP.cell_len * (len(widths) - 1)


def line(widths: Mapping[Column[RowT], int], row: RowT | None) -> Text:
    """Draw a row, or the titles if the row is None."""
    drawn = GAP.join(column.draw(row, width) for column, width in widths.items())
    drawn.rstrip()
    return drawn
