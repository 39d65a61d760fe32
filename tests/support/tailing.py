"""A directory of logs that programs write to and rotate, and a reader that reads slices as TailSource.java does."""

import bz2
import gzip
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from oncelake.bronze.settings import Rotation
from oncelake.sources.tail.content import Disk, FileStore
from oncelake.sources.tail.plan import LastStart, TailFiles
from oncelake.sources.tail.position import TailPosition

EVERYTHING = 2**40


@dataclass
class LogDirectory:
    """A directory with one log that is written to, and its rotated files `app.log.1`, `app.log.2`, …

    Attributes:
        lines: every complete line that was written.
        half: the beginning of a line that is not complete.
    """

    path: Path
    lines: list[bytes] = field(default_factory=list)
    half: bytes = b""

    @classmethod
    def with_lines(cls, path: Path, count: int) -> "LogDirectory":
        """Create a directory whose log has some lines."""
        path.mkdir()
        logs = cls(path)
        logs.write(count)
        return logs

    @property
    def log(self) -> Path:
        """Return the log that is written to."""
        return self.path / "app.log"

    def write(self, count: int, *, half: bool = False) -> None:
        """Append lines; with `half`, the last one lacks its end until the next call."""
        new = [f"2026-11-26 10:00:00 INFO line {len(self.lines) + each}".encode() for each in range(count + half)]
        rest = new[0][len(self.half) :] if self.half and new else b""
        begun, self.half = self.half, b""
        text = b"".join(line + b"\n" for line in ([rest, *new[1:]] if begun and new else new)[: count or None])
        if not count:
            text = b""
        self.lines += new[:count]
        if half:
            last = new[count]
            self.half = last[: len(last) // 2]
            text += self.half[len(begun) :] if begun and not count else self.half
        with self.log.open("ab") as file:
            file.write(text)

    def rotated(self) -> list[Path]:
        """Return the rotated files, the newest first."""
        found = self.path.glob("app.log.*")
        return sorted(found, key=lambda path: int(path.name.split(".")[2]))

    def shift(self) -> None:
        """Rename each rotated file to the next number."""
        for path in reversed(self.rotated()):
            parts = path.name.split(".")
            path.rename(path.with_name(".".join(["app.log", str(int(parts[2]) + 1), *parts[3:]])))

    def rename(self) -> None:
        """Rotate by renaming the log."""
        self.shift()
        if self.log.exists():
            self.log.rename(self.path / "app.log.1")

    def copy(self) -> None:
        """Copy the log, the first half of a rotation that cuts it."""
        self.shift()
        shutil.copyfile(self.log, self.path / "app.log.1")

    def cut(self) -> None:
        """Cut the log, the second half of such a rotation."""
        with self.log.open("r+b") as file:
            file.truncate()


def pack(path: Path, *, opener: str = ".gz", keep: bool = False) -> Path:
    """Compress a file, as logrotate does."""
    packed = path.with_name(path.name + opener)
    with path.open("rb") as source, (gzip.open if opener == ".gz" else bz2.open)(packed, "wb") as target:
        target.write(source.read())
    if not keep:
        path.unlink()
    return packed


def content(path: Path) -> bytes:
    """Return what a file holds, uncompressed, with a line end at its end if it is compressed."""
    text = path.read_bytes()
    if path.suffix in (".gz", ".bz2"):
        text = gzip.decompress(text) if path.suffix == ".gz" else bz2.decompress(text)
        return text if text.endswith(b"\n") else text + b"\n"
    return text


class Later(Disk):
    """A disk on another day."""

    days = 0.0

    def now(self) -> float:
        return super().now() + self.days * 24 * 3600


class ReadFiles(TailFiles):
    """The files of a directory, with what was read of them, as bronze has it.

    Attributes:
        bronze: the lines that were read, by the file's ID and the byte at which they start.
    """

    def __init__(
        self,
        path: str | Path,
        last_start: LastStart | None = None,
        *,
        rotation: Rotation | None = "copytruncate",
        bronze: dict[int, dict[int, bytes]] | None = None,
        store: FileStore | None = None,
    ) -> None:
        super().__init__(str(path), last_start, rotation=rotation, ingested=self._ingested, store=store)
        self.bronze: dict[int, dict[int, bytes]] = {} if bronze is None else bronze

    def restarted(self) -> "ReadFiles":
        """Return the same as a process that has just started knows it."""
        return ReadFiles(self.path, bronze=self.bronze)

    def _ingested(self, number: int, low: int) -> tuple[int, bytes]:
        lines = {at: line for at, line in sorted(self.bronze[number].items()) if at + len(line) >= low}
        return min(lines), b"".join(line + b"\n" for line in lines.values())


def read(files: TailFiles, start: TailPosition, end: TailPosition, cores: int = 2) -> list[bytes]:
    """Return the lines between two positions."""
    lines: list[bytes] = []
    for text in files.slices(start, end, cores):
        _, file_id, path, _, _, _, begin, stop, *_ = text.split("\t")
        held = content(Path(unquote(path)))[: end.files[int(file_id)].offset]
        at = int(begin)
        if at and held[at - 1 : at] != b"\n":
            at = held.find(b"\n", at) + 1 or len(held)
        while at < min(int(stop), len(held)):
            close = held.index(b"\n", at)
            lines.append(held[at:close])
            if isinstance(files, ReadFiles):
                files.bronze.setdefault(int(file_id), {})[at] = held[at:close]
            at = close + 1
    return lines


def drain(files: TailFiles, at: TailPosition, most: int = EVERYTHING) -> tuple[list[bytes], TailPosition]:
    """Read batches until nothing is left; return their lines, and the position after them."""
    lines: list[bytes] = []
    while (end := files.plan(at, most)) != at:
        lines += read(files, at, end)
        at = TailPosition.parse(end.to_json()) or end
    return lines, at
