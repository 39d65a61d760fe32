"""Draw a table whose columns give way, in a chosen order, where the terminal is narrow.

rich's own table wraps or shrinks every column instead, and none of its cells goes over several columns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.cells import cell_len
from rich.text import Text

RowT = TypeVar("RowT")
# What stands between two columns.
GAP = Text("  ")


@dataclass(frozen=True)
class Column(Generic[RowT]):
    """A column, by what stands in the cell of a row.

    Attributes:
        right: whether its cells stand to the right, as numbers do.
        style: a cell's style, by its row.
        most: the most cells that it takes before another column gives way.
    """

    title: str
    cell: Callable[[RowT], str]
    right: bool = True
    style: Callable[[RowT], str] = lambda _: ""
    most: int = 10_000

    def natural(self, rows: Sequence[RowT]) -> int:
        """Return how many cells it needs to be shown whole."""
        return max(map(cell_len, (self.title, *map(self.cell, rows))))

    def draw(self, row: RowT | None, width: int) -> Text:
        """Draw the cell of a row, or the title, as wide as the column is; what is too long is cut."""
        said = Text(self.title) if row is None else Text(self.cell(row), self.style(row))
        said.overflow = "ellipsis"
        said.align("right" if self.right else "left", width)
        return said


def fitting(
    columns: Sequence[Column[RowT]], rows: Sequence[RowT], give_way: Sequence[str], width: int | None
) -> dict[Column[RowT], int]:
    """Return the columns that fit, in their order, each with its width; one that has nothing to show is left out.

    Args:
        columns: all of them.
        rows: what is shown.
        give_way: the titles of those that may be missing, the first to go first.
        width: how many cells a line may have; None where no terminal is to show it, and every column is there.
    """
    first, *others = columns
    found = {
        each: min(each.natural(rows), each.most) for each in (first, *(o for o in others if any(map(o.cell, rows))))
    }
    for title in give_way:
        if width is None or total(found) <= width:
            break
        found = {each: cells for each, cells in found.items() if each.title != title}
    return found


def total(widths: Mapping[Column[RowT], int]) -> int:
    """Return the width of a line of columns, in cells."""
    return sum(widths.values()) + GAP.cell_len * (len(widths) - 1)


def line(widths: Mapping[Column[RowT], int], row: RowT | None) -> Text:
    """Draw a row, or the titles when it is None."""
    drawn = GAP.join(column.draw(row, width) for column, width in widths.items())
    drawn.rstrip()
    return drawn
