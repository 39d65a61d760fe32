"""This is where a directory of log files says what it is and what it still holds."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from pipelines.exactly_once.files import Files
from pipelines.exactly_once.state import Finding, State
from pipelines.lake import is_local


@dataclass(frozen=True)
class FilesSource:
    """A directory of log files. A position is the number of the batch in Spark's log of files seen."""

    path: str
    files: Files
    checkpoint: str

    def identity(self) -> Mapping[str, str]:
        """Give the directory."""
        return {"kind": "files", "path": self.path}

    def first_position(self) -> None:
        """Say nothing: a position before the first batch is not recorded."""

    def exhausted(self, at: str) -> bool:  # noqa: ARG002
        """Leave it to the query, which lists the directory anyway."""
        return False

    def warnings(self) -> list[str]:
        """Name files that were changed after Spark listed them; it reads a file once."""
        if not is_local(self.path):
            return []
        names = self.files.names(f"{self.checkpoint}/sources/0")
        listed = {entry["path"]: int(entry["timestamp"]) for name in names for entry in self._entries(name)}
        changed = sorted(path for path, at in listed.items() if _modified(path) not in (None, at))
        if not changed:
            return []
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return [f"{changed[0]}{more} changed after being read; a file is read once, and what was added is not taken in"]

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Finding | None:
        """Say when it is another source than before, or a file is gone that a planned batch still needs."""
        if recorded and dict(recorded) != dict(self.identity()):
            was = recorded.get("path") or f"topic {recorded.get('topic')}"
            return Finding(State.SOURCE_REPLACED, f"lines were taken from {was}, the source is now {self.path}")
        if end is None:
            return None
        first = int(json.loads(start)["logOffset"]) + 1 if start else 0
        gone = [path for path in self._listed(first, int(json.loads(end)["logOffset"])) if _is_gone(path)]
        if gone:
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            return Finding(State.SOURCE_TRIMMED, f"the planned batch needs {gone[0]}{more}, which is no longer there")
        return None

    def unread(self, at: str | None) -> int | None:
        """Count the files that are there and not yet in bronze; None where only Spark can list them.

        Args:
            at: the position up to which bronze holds the files' lines, None before the first batch.
        """
        if not is_local(self.path) or not Path(self.path).exists():
            return None
        last = int(json.loads(at)["logOffset"]) if at else -1
        names = self.files.names(f"{self.checkpoint}/sources/0")
        seen = {_local(path) for name in names for path, batch in self._seen_in(name) if batch <= last}
        return sum(1 for path in _files_below(Path(self.path)) if path not in seen)

    def _listed(self, first: int, last: int) -> list[str]:
        """Give the files, as URIs, that Spark's own log lists from one of its numbers to another.

        A batch can have several: a process that died after listing left a number without a batch.
        """
        numbers = range(first, last + 1)
        names = [name for number in numbers for name in (str(number), f"{number}.compact")]
        return [path for name in names for path, batch in self._seen_in(name) if batch in numbers]

    def _seen_in(self, name: str) -> list[tuple[str, int]]:
        return [(entry["path"], int(entry["batchId"])) for entry in self._entries(name)]

    def _entries(self, name: str) -> list[dict[str, Any]]:
        """Read one file of Spark's log of files seen: a batch's own, or one that sums up those before."""
        if not name.removesuffix(".compact").isdigit():
            return []
        text = self.files.read(f"{self.checkpoint}/sources/0/{name}") or ""
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _is_gone(uri: str) -> bool:
    """Tell whether a file on this machine is gone; other stores are asked by Spark when it reads."""
    return urlparse(uri).scheme == "file" and not Path(_local(uri)).exists()


def _modified(uri: str) -> int | None:
    """Give a local file's modification time in milliseconds, None when it is gone."""
    try:
        return Path(_local(uri)).stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def _local(uri: str) -> str:
    return unquote(urlparse(uri).path)


def _files_below(root: Path) -> Iterator[str]:
    """Give the files that Spark reads below a directory: those whose names start with neither _ nor a dot."""
    for parent, directories, names in os.walk(root):
        directories[:] = [name for name in directories if not name.startswith(("_", "."))]
        yield from (os.path.join(parent, name) for name in names if not name.startswith(("_", ".")))  # noqa: PTH118
