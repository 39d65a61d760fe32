"""Sources whose lines are masked, get a column by own code, and are dropped by silver if they repeat another."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.chaos.bronze import rows_of
from tests.chaos.directory import Listing
from tests.chaos.growing import Logs
from tests.chaos.operations import Place
from tests.chaos.world import Directory, record_format
from tests.support.house import House
from tests.support.masking import pseudonym

_KEY_VARIABLE, _KEY = "CHAOS_MASK_KEY", "chaos-mask-key-0123456789"
_RULES = (
    r"{name: number, pattern: '\.(\d+)', group: 1, action: hash, length: 8}",
    r"{name: braces, pattern: '\{\}', action: replace, text: '<braces>'}",
)
# The number of a line's file is its time in seconds, so all lines are within one window.
FORMAT = r"""
pattern: '^L(?<time>\d+)(?<message>[. ].*)$'
time: epoch_seconds
default_level: INFO
"""
# A byte order mark before a line within a file is no part of it.
_PARSED = re.compile(rb"(\xef\xbb\xbf)?L\d+[. ].*", re.DOTALL)


# A module of its own: the product loads the whole package of changed code again, which must not be that of the tests.
_OWN_CODE = """
from pyspark.sql import functions as F


def with_length(rows):
    return rows.withColumn("length", F.length("message"))
"""


@dataclass
class Ruled(Directory):
    """A directory whose lines are known by what the rules leave of them."""

    layers: tuple[str, ...] = ("bronze", "silver")

    @property
    def sets(self) -> list[str]:
        """Return the settings of the rules."""
        return [*super().sets, *_sets(self.place)]

    def house(self, directory: Path) -> House:
        """Return a lake with the rules."""
        return _house(directory, self.sets)

    def look(self) -> Listing:
        """Return the files with their lines as the rules leave them."""
        listing = super().look()
        masked_files = {
            path: replace(content, lines=content.lines and tuple(map(masked, content.lines)))
            for path, content in listing.files.items()
        }
        return replace(listing, files=masked_files)

    def wrong(self, table: Path, *, whole: bool) -> Iterable[str]:
        """Yield what is wrong with silver's tables after a run that ended well."""
        return _wrong(table) if whole else ()


@dataclass
class RuledLogs(Logs):
    """Growing files. Their lines are known as they were written.

    Attributes:
        originals: each line that was there, by what the rules leave of it.
    """

    layers: tuple[str, ...] = ("bronze", "silver")
    originals: dict[bytes, bytes] = field(default_factory=dict)

    @property
    def sets(self) -> list[str]:
        """Return the settings of the rules."""
        return [*super().sets, *_sets(self.place)]

    def house(self, directory: Path) -> House:
        """Return a lake with the rules."""
        return _house(directory, self.sets)

    def look(self) -> Listing:
        """Return the lines, and keep them; a log that lost its last bytes is not compared with its masked lines."""
        listing = super().look()
        self.originals |= {masked(line): line for line in (*listing.files, *self.begun)}
        cut = [name for name in self.crashed if Path(os.fsdecode(self.place.root + b"/" + name)).exists()]
        return replace(listing, strange=(*listing.strange, *cut))

    def values(self, table: Path) -> Iterator[bytes]:
        """Yield what bronze holds as it was written."""
        yield from (self.originals.get(value, value) for value in super().values(table))

    def wrong(self, table: Path, *, whole: bool) -> Iterator[str]:
        """Yield what is wrong with the rows of bronze, and with silver's tables after a run that ended well."""
        yield from super().wrong(table, whole=whole)
        yield from _wrong(table) if whole else ()


def _house(directory: Path, sets: list[str]) -> House:
    """Return a lake with the own code beside its configuration."""
    house = House.with_error_log(directory)
    house.sets = sets
    (house.conf.parent / "chaos_code.py").write_text(_OWN_CODE)
    return house


def _sets(place: Place) -> list[str]:
    os.environ[_KEY_VARIABLE] = _KEY
    return [
        f"source.format={record_format(place, FORMAT)}",
        f"source.mask={{key_variable: {_KEY_VARIABLE}, rules: [{', '.join(_RULES)}]}}",
        "silver.deduplicate={key: ['hash:record'], within: 1 hour}",
        "silver.transform=chaos_code:with_length",
    ]


def _wrong(table: Path) -> Iterator[str]:
    silver = table.parent.parent / "silver"
    bronze = [row["value"] for row in rows_of(table, ["value"])]
    kept = rows_of(silver / "access_log", ["message", "length", "event_key"])
    dropped, refused = rows_of(silver / "duplicates", ["value"]), rows_of(silver / "quarantine", ["value"])
    if len(bronze) != len(kept) + len(dropped) + len(refused):
        yield f"{len(bronze)} rows in bronze, {len(kept)} + {len(dropped)} + {len(refused)} after it"
    parsed = Counter(value for value in bronze if _PARSED.fullmatch(value))
    if len(parsed) != len(kept):
        yield f"{len(parsed)} different lines are parsed, silver has {len(kept)}"
    if Counter(row["value"] for row in dropped) != parsed - Counter(parsed.keys()):
        yield "the dropped lines are not all repeats but one of each line"
    if len({row["event_key"] for row in kept}) != len(kept):
        yield "silver has two rows of one key"
    yield from (f"the length of {row} is wrong" for row in kept if row["length"] != len(row["message"]))


def masked(line: bytes) -> bytes:
    """Return a line as the rules leave it."""

    number = re.compile(rb"\.(\d+)")
    return number.sub(lambda found: b"." + pseudonym(_KEY, found[1], 8), line).replace(b"{}", b"<braces>")
