"""Positions in a directory of complete files, as Spark's file source and Auto Loader write them.

Sources: org.apache.spark.sql.execution.streaming.FileStreamSourceOffset of Spark 4.0; Auto Loader's offsets as
Databricks writes them.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from oncelake.common.errors import StateError
from oncelake.exactly_once.positions import SourcePosition


@dataclass(frozen=True)
class FilesPosition(SourcePosition):
    """A position in a directory.

    Attributes:
        entry: the last entry of Spark's file list that was read; -1 before the first.
        beginning: the position before the first entry, as Spark spells it.
    """

    entry: int
    beginning: ClassVar[str] = '{"logOffset":-1}'

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """Return the position that Spark's JSON describes; None if it is not one of the file source."""
        entry = value.get("logOffset") if isinstance(value, dict) else None
        return None if entry is None or isinstance(entry, dict) else cls(int(entry))  # a topic can have this name

    def words(self, source: str) -> str:
        """Describe the entry."""
        return f"entry {self.entry} of the query's file list"

    def numbers(self) -> dict[str, int]:
        """Return the next entry of the file list."""
        return {"list": self.entry + 1}


@dataclass(frozen=True)
class AutoLoaderPosition(SourcePosition):
    """A position in a directory that Auto Loader reads.

    Attributes:
        file: the number of the last file that was read.
    """

    file: int

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """Return the position that the JSON of a checkpoint describes; None if it is not one of Auto Loader."""
        number = value.get("seqNum") if isinstance(value, dict) else None
        return None if number is None or isinstance(number, dict) else cls(int(number))

    def numbers(self) -> dict[str, int]:
        """Return the number of the next file."""
        return {"list": self.file + 1}


def listing_number(at: str) -> int:
    """Return the entry of Spark's file list that a position names.

    Raises:
        StateError: it is not a position in a directory.
    """
    position = FilesPosition.parse(at)
    if position is None:
        raise StateError(  # guard: listing-number-of-directory
            f"the source is a directory of complete files, but the last position is of another source: {at}. Set the "
            "source back to the one that was read before"
        )
    return position.entry
