"""Read and write Spark's file list: `sources/0` in a checkpoint, the files that the file source has seen.

Spark silently reads a file again if the list lacks it. Each number of the list is one listing of the directory.
Every tenth number also holds all entries before it (`9.compact`, `19.compact`, …).
Source: org.apache.spark.sql.execution.streaming, FileStreamSourceLog and CompactibleFileStreamLog.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from oncelake.exactly_once.checkpoint import sound_text
from oncelake.exactly_once.files import Files, lines_of

# Spark compacts this many numbers of the list into one.
_COMPACT_EVERY = 10
_PLACE, _COMPACT = "sources/0", ".compact"


@dataclass(frozen=True)
class FileSourceLog:
    """The file list of a stage that reads files."""

    files: Files
    checkpoint: str

    def entries(self) -> Iterator[tuple[str, int, int]]:
        """Yield each listed file: its URI, its modification time when listed, in milliseconds, and its list number.

        The newest complete `.compact` holds all before it. Spark keeps the older ones for ten minutes; reading them all
        would take time that grows with the square of the number of batches.
        """
        names = sorted(self._names(), key=lambda name: (_number(name), not name.endswith(_COMPACT)))
        needed: list[list[dict[str, Any]]] = []
        for name in reversed(names):
            lines = self._lines(name)
            needed.append(_parsed(lines))
            if name.endswith(_COMPACT) and lines[:1] == ["v1"] and len(needed[-1]) == len(lines) - 1:
                break
        for entry in chain.from_iterable(reversed(needed)):
            yield entry["path"], int(entry["timestamp"]), int(entry["batchId"])

    def between(self, first: int, last: int) -> list[str]:
        """Return the URIs that are listed from one number to another, both included.

        A batch can have several numbers: a process that dies after listing leaves a number without a batch.
        """
        return [path for path, *_ in self.entries_between(first, last)]

    def entries_between(self, first: int, last: int) -> list[tuple[str, int, int]]:
        """Return the entries (see `entries`) from one number to another, both included."""
        numbers = range(first, last + 1)
        names = [name for number in numbers for name in (str(number), f"{number}{_COMPACT}")]
        entries = [entry for name in names for entry in _parsed(self._lines(name))]
        return [
            (entry["path"], int(entry["timestamp"]), int(entry["batchId"]))
            for entry in entries
            if int(entry["batchId"]) in numbers
        ]

    def damage(self, last: int) -> str | None:  # guard: seen-files-list-whole
        """Return which part of the list is missing or incomplete, for a stage that has planned up to a number."""
        names = set(self._names())
        numbers = {_number(name) for name in names}
        first = max((number for number in numbers if f"{number}{_COMPACT}" in names), default=0)
        for number in range(first, max({last, *numbers}) + 1):
            name = f"{number}{_COMPACT}" if f"{number}{_COMPACT}" in names else str(number)
            if not self._is_whole(name):
                return f"{_PLACE}/{name} is missing or incomplete"
        return None

    def _names(self) -> list[str]:
        names = self.files.names(f"{self.checkpoint}/{_PLACE}")
        return [name for name in names if name.removesuffix(_COMPACT).isdigit()]

    def _is_whole(self, name: str) -> bool:
        lines = lines_of(sound_text(self.files, f"{self.checkpoint}/{_PLACE}/{name}"))
        try:
            return lines[:1] == ["v1"] and all(json.loads(line) for line in lines[1:])
        except ValueError:
            return False

    def _lines(self, name: str) -> list[str]:
        return lines_of(self.files.read(f"{self.checkpoint}/{_PLACE}/{name}") or "")


def _number(name: str) -> int:
    return int(name.removesuffix(_COMPACT))


def _parsed(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]


def list_texts(last: int, seen: Iterable[tuple[str, int]]) -> Mapping[str, str]:
    """Return the texts of a file list up to a number, by path in the checkpoint, with all files in one number.

    Args:
        last: the last number of the list.
        seen: (URI, modification time in milliseconds) of each file.
    """
    full = (last + 1) // _COMPACT_EVERY * _COMPACT_EVERY - 1
    holder, start, batch = (f"{full}{_COMPACT}", full + 1, full) if full >= 0 else (str(last), 0, last)
    listed = ((_as_listed(uri), modified) for uri, modified in sorted(seen))
    entries = ({"path": path, "timestamp": modified, "batchId": batch} for path, modified in listed)
    lines = (json.dumps(entry, separators=(",", ":"), ensure_ascii=False) for entry in entries)
    empty = {f"{_PLACE}/{number}": "v1" for number in range(start, last + 1)}
    return {**empty, f"{_PLACE}/{holder}": "\n".join(["v1", *lines])}


def _as_listed(uri: str) -> str:
    """Return a file's URI as the list spells it: with three slashes where Spark's column of file paths has one."""
    return f"file:///{uri.removeprefix('file:/')}" if uri.startswith("file:/") and uri[6:7] != "/" else uri
