"""This is where a directory of log files says what it is and what it still holds."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlparse

from pipelines.errors import StateError
from pipelines.exactly_once.checkpoint import Checkpoint, position
from pipelines.exactly_once.files import Files
from pipelines.exactly_once.files_seen import SeenFiles, list_texts
from pipelines.exactly_once.finding import Finding, State
from pipelines.exactly_once.source import Seen, Source
from pipelines.lake import is_local


@dataclass(frozen=True)
class Look:
    """Files that are worth a look.

    Attributes:
        changed: were written to after Spark listed them, as URIs.
        vanished: are gone since, as URIs; their lines are in bronze, unless their batch is only planned.
        ignored: are never listed, as their names or those of directories above them start with _ or a dot.
    """

    changed: list[str] = field(default_factory=list)
    vanished: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FilesSource(Source):
    """A directory of log files. A position is the number of the batch in Spark's log of files seen."""

    path: str
    files: Files
    checkpoint: str

    def identity(self) -> Mapping[str, str]:
        """Give the directory."""
        return {"kind": "files", "path": self.path}

    def damage(self, checkpoint: Checkpoint) -> str | None:
        """Say when Spark's list of the files seen is not whole."""
        at = position(checkpoint.offsets[1] or "")
        return None if at is None else self._seen.damage(_number(at))

    def log(self, at: str, first: str | None, seen: Seen) -> Mapping[str, str]:
        """Give Spark's list of the files seen."""
        del first
        return list_texts(_number(at), seen())

    def warnings(self) -> list[str]:
        """Name files that were changed after Spark listed them; it reads a file once."""
        changed = self.look().changed
        if not changed:
            return []
        return [
            f"{_first_of(changed)} changed after being read; a file is read once, and what was added is not taken in"
        ]

    def look(self) -> "Look":
        """Compare the files that Spark has listed with those that are there now; on this machine alone."""
        if not is_local(self.path):
            return Look()
        listed = self._seen.modified()
        now = {path: _modified(path) for path in sorted(listed)}
        return Look(
            changed=[path for path, at in now.items() if at not in (None, listed[path])],
            vanished=[path for path, at in now.items() if at is None],
            ignored=sorted(_ignored_below(Path(self.path))) if Path(self.path).exists() else [],
        )

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Finding | None:
        """Say when it is another source than before, or a file is gone that a planned batch still needs."""
        if recorded and dict(recorded) != dict(self.identity()):
            was = recorded.get("path") or f"topic {recorded.get('topic')}"
            return Finding(State.SOURCE_REPLACED, f"lines were taken from {was}, the source is now {self.path}")
        gone = self._gone(start, end)
        if gone:
            return Finding(State.SOURCE_TRIMMED, f"the planned batch needs {_first_of(gone)}, which is no longer there")
        return None

    def skip_gone(self, start: str | None, end: str | None) -> tuple[str, list[str]] | None:
        """Give up the files of a planned batch that are gone; the others of it are listed and planned again."""
        lost = self._gone(start, end)
        return (end, lost) if end and lost else None

    def unread(self, at: str | None) -> int | None:
        """Count the files that are there and not yet in bronze; None where only Spark can list them.

        Args:
            at: the position up to which bronze holds the files' lines, None before the first batch.
        """
        if not is_local(self.path) or not Path(self.path).exists():
            return None
        seen = {local_path(uri) for uri in self._seen.up_to(_number(at) if at else -1)}
        return sum(1 for path in _files_below(Path(self.path)) if path not in seen)

    def _gone(self, start: str | None, end: str | None) -> list[str]:
        if end is None:
            return []
        listed = self._seen.between(_number(start) + 1 if start else 0, _number(end))
        return [path for path in listed if _is_gone(path)]

    @property
    def _seen(self) -> SeenFiles:
        return SeenFiles(self.files, self.checkpoint)


class AutoLoaderSource(FilesSource):
    """A directory of log files that Databricks' Auto Loader follows.

    A position is Auto Loader's own, whose `seqNum` counts the files. Which these are is in a RocksDB in the checkpoint,
    which cannot be read or written here: a lost one cannot be rebuilt.
    """

    def identity(self) -> Mapping[str, str]:
        """Give the directory; its positions are not those of Spark's own file source."""
        return {"kind": "auto_loader", "path": self.path}

    def damage(self, checkpoint: Checkpoint) -> str | None:
        """Say when Auto Loader's list of files is not there."""
        if checkpoint.offsets[1] is None or self.files.names(f"{self.checkpoint}/sources/0"):
            return None
        return "sources/0, where Auto Loader keeps which files it has read, is missing"

    def log(self, at: str, first: str | None, seen: Seen) -> Mapping[str, str]:
        """Refuse: the list cannot be written.

        Raises:
            StateError: always; says what can be done.
        """
        del at, first, seen
        raise StateError(
            "bronze: the checkpoint was where Auto Loader kept which files it has read, and that cannot be written "
            "again. Put a copy of the checkpoint back, or take in all files anew that are still there: "
            "oncelake rebuild bronze"
        )

    def look(self) -> Look:
        """Compare nothing: Auto Loader's list cannot be read."""
        return Look()

    def unread(self, at: str | None) -> int | None:
        """Give None: only Auto Loader can tell."""
        del at
        return None

    def _gone(self, start: str | None, end: str | None) -> list[str]:
        del start, end
        return []


def _number(at: str) -> int:
    """Give the number in Spark's list that a position names."""
    return int(json.loads(at)["logOffset"])


def _is_gone(uri: str) -> bool:
    """Tell whether a file on this machine is gone; other stores are asked by Spark when it reads."""
    return urlparse(uri).scheme == "file" and not Path(local_path(uri)).exists()


def _modified(uri: str) -> int | None:
    """Give a local file's modification time in milliseconds, None when it is gone."""
    try:
        return Path(local_path(uri)).stat().st_mtime_ns // 1_000_000
    except OSError:
        return None


def local_path(uri: str) -> str:
    """Give the path on this machine that a URI names."""
    return unquote(urlparse(uri).path)


def _first_of(names: list[str]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _ignored_below(root: Path) -> Iterator[str]:
    """Give the files below a directory that Spark never lists."""
    listed = set(_files_below(root))
    for parent, _, names in os.walk(root):
        yield from (path for name in names if (path := os.path.join(parent, name)) not in listed)  # noqa: PTH118


def is_hidden(name: str) -> bool:
    """Tell whether Spark ignores a file or directory of this name (HadoopFSUtils.shouldFilterOutPathName)."""
    return name.startswith(".") or name.endswith("._COPYING_") or (name.startswith("_") and "=" not in name)


def _files_below(root: Path) -> Iterator[str]:
    """Give the files that Spark reads below a directory: those whose names it does not ignore."""
    for parent, directories, names in os.walk(root):
        directories[:] = [name for name in directories if not is_hidden(name)]
        yield from (os.path.join(parent, name) for name in names if not is_hidden(name))  # noqa: PTH118
