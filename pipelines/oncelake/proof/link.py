"""This is where one step of a proof says what it found."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Link:
    """One link between a source and the last table.

    Attributes:
        name: what was followed, as `silver.access_log → gold.error_log`.
        table: the table that it is about.
        holds: whether it does.
        said: in one line what was counted; where it does not hold, which rows or ranges.
        notes: what is worth saying and breaks nothing.
    """

    name: str
    table: str
    holds: bool
    said: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Give the link for JSON."""
        return asdict(self)
