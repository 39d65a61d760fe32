"""Damage of a table's Delta log on a local disk: which files nobody can read, and how far the log can be read.

The commits are the truth. A checkpoint repeats them, and `_last_checkpoint` names one. Readers differ in what they pass
by: Spark an empty checkpoint and a name of none, delta-rs neither, and both fail on a checkpoint that is cut. So
what nobody can read and nobody needs is set aside, and then both read the same version.
Source: the Delta protocol, "Delta Log Entries"; Delta's SnapshotManagement and Checkpoints; delta-kernel's LogSegment.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from oncelake.common.wording import listed
from oncelake.exactly_once.delta_log import CHECKPOINT
from oncelake.exactly_once.files import lines_of

_HINT = "_last_checkpoint"
_COMMIT, _CHECKSUM = re.compile(r"(\d{20})\.json"), re.compile(r"(\d{20})\.crc")
_ASIDE = ".aside-"
_MAGIC = b"PAR1"
# The shortest Parquet file: its mark at both ends, and the length of its footer.
_SHORTEST = 12


@dataclass(frozen=True)
class LogDamage:
    """What is damaged in a table's log.

    Attributes:
        spare: the names of unreadable files that no reader needs.
        lost: why the newest version cannot be read; None if it can.
        back_to: the newest version that can be read, if the newest one cannot; None if none can.
        beyond: the names of the files of the versions after it.
    """

    spare: tuple[str, ...] = ()
    lost: str | None = None
    back_to: int | None = None
    beyond: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.spare or self.lost)

    @property
    def stops_spark(self) -> bool:
        """Return True if Spark cannot read the table: of the spare files, only a broken checkpoint stops it."""
        return self.lost is not None or any(name != _HINT for name in self.spare)

    def warning_of(self, table: object) -> str:
        """Return a warning that names the spare files in the log of a table."""
        what = "cannot be read, and the commits hold the same" if self.stops_spark else "names no checkpoint to read"
        return f"in the log of {table}, {listed(self.spare)} {what}"


def find_damage(table: str, *, deep: bool) -> LogDamage:
    """Look for damage in the log of a table on a local disk.

    Other processes may commit meanwhile, so what looks like damage is looked at twice.

    Args:
        table: the table's directory.
        deep: read the checkpoint, and the commits after it, as a whole; else only the newest commit, and of the others
            their sizes and ends.
    """
    log = Path(table, "_delta_log")
    damage = _look(log, deep=deep)
    return _look(log, deep=deep) if damage else damage


def set_aside(table: str, names: Sequence[str]) -> None:
    """Rename files of a log so that no reader sees them."""
    log, stamp = Path(table, "_delta_log"), f"{datetime.now(UTC):%Y%m%dT%H%M%S%fZ}"
    for name in names:
        with suppress(FileNotFoundError):
            (log / f".{name}.crc").unlink()  # Hadoop's checksum of the file
        with suppress(FileNotFoundError):
            (log / name).rename(log / f"{name}{_ASIDE}{stamp}")


@dataclass(frozen=True)
class _File:
    path: str
    size: int
    changed: int

    def is_sound(self, *, deep: bool) -> bool:
        """Return True if the file can be read; an error of the disk is not taken for damage."""
        with suppress(OSError):
            return _is_sound(self, deep=deep)
        return True


def _look(log: Path, *, deep: bool) -> LogDamage:
    hint = _hint(log)  # before the listing: a checkpoint that it names is there by then
    files = _listed(log)
    commits = {int(match[1]): files[name] for name in files if (match := _COMMIT.fullmatch(name))}
    sums = [int(match[1]) for name in files if (match := _CHECKSUM.fullmatch(name))]
    checkpoints = sorted(_checkpoints(files), reverse=True)
    versions = [*commits, *sums, *(version for version, _ in checkpoints)]
    if not commits and not checkpoints:
        return LogDamage()

    def is_sound(version: int) -> bool:
        file = _file(commits.get(version))
        return file is not None and file.is_sound(deep=deep or version == newest)

    newest, broken, bad = max(versions), list[str](), list[int]()
    while True:
        end = bad[-1] if bad else newest + 1
        base, unread = _newest_readable(
            log, files, [checkpoint for checkpoint in checkpoints if checkpoint[0] < end], deep=deep
        )
        broken += [name for name in unread if name not in broken]
        # the commit of the newest version is needed too: only it says how far the source was read
        wrong = next((version for version in (*range(base + 1, end), end - 1) if not is_sound(version)), None)
        if wrong is None:
            break
        bad.append(wrong)
        if wrong <= 0:
            break
    if not bad:
        named = [names for version, names in checkpoints if hint and version == hint[0] and not {*names} & {*broken}]
        sizes = [[file.size for name in names if (file := _file(files[name]))] for names in named]
        missed = hint is not None and not any(all(size) and len(size) == hint[1] for size in sizes)
        return LogDamage((*broken, *([_HINT] if missed else [])))
    cut = bad[0] < min(commits, default=0) and broken
    name = broken[0] if cut else f"{bad[0]:020}.json"
    why = f"{name} {'cannot be read' if name in files else 'is gone'}"
    if bad[-1] <= 0:
        return LogDamage(lost=why)
    beyond = [name for name in files if _ASIDE not in name and name[:20].isdigit() and int(name[:20]) >= bad[-1]]
    others = [name for name in (*broken, _HINT) if name in files and name not in beyond]
    return LogDamage(lost=why, back_to=bad[-1] - 1, beyond=(*sorted(beyond), *others))


def _newest_readable(
    log: Path, files: Mapping[str, os.DirEntry[str]], checkpoints: list[tuple[int, list[str]]], *, deep: bool
) -> tuple[int, list[str]]:
    """Return the version of the newest checkpoint that can be read, -1 without one, and the files of newer ones."""
    broken: list[str] = []
    for version, names in checkpoints:
        parts = [_file(files[name]) for name in names]
        if not all(part is not None and part.size for part in parts):
            continue  # Spark and delta-rs pass it by
        parts += [sidecar for name in names for sidecar in _sidecars(log, name)]
        if all(part is not None and part.is_sound(deep=deep) for part in parts):
            return version, broken
        broken += names
    return -1, broken


def _listed(log: Path) -> dict[str, os.DirEntry[str]]:
    """Return the files of a directory by name; their sizes are looked up only where needed, as a log can be long."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(log) as entries:
        return {entry.name: entry for entry in entries}
    return {}


def _file(entry: os.DirEntry[str] | None) -> _File | None:
    with suppress(FileNotFoundError):
        status = entry.stat() if entry is not None else None
        return _File(entry.path, status.st_size, status.st_mtime_ns) if entry and status else None
    return None


def _hint(log: Path) -> tuple[int, int] | None:
    """Return the version and the number of parts of the checkpoint that is named; -1 if the file cannot be read."""
    try:
        hint = json.loads((log / _HINT).read_bytes())
        return int(hint["version"]), int(hint.get("parts") or 1)
    except OSError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError):
        return -1, 1


def _checkpoints(names: Iterable[str]) -> list[tuple[int, list[str]]]:
    """Return the version and the files of each checkpoint that has all its parts."""
    groups: dict[tuple[int, str], list[str]] = {}
    for name in names:
        match = CHECKPOINT.fullmatch(name)
        if match:
            groups.setdefault((int(match["version"]), match["parts"] or name), []).append(name)
    return [
        (version, sorted(files))
        for (version, parts), files in groups.items()
        if parts in files or len(files) == int(parts)
    ]


def _sidecars(log: Path, name: str) -> Iterator[_File | None]:
    """Yield the files that a checkpoint of one JSON file names; None for one that is gone."""
    if name.endswith(".json"):
        with suppress(OSError, ValueError):
            lines = lines_of((log / name).read_text(encoding="utf-8"))
            sidecars = _listed(log / "_sidecars")
            named = (json.loads(line)["sidecar"]["path"] for line in lines if line.startswith('{"sidecar"'))
            yield from (_file(sidecars.get(str(path).rpartition("/")[2])) for path in named)


@lru_cache(maxsize=4096)
def _is_sound(file: _File, *, deep: bool) -> bool:
    """Return True if a commit or a checkpoint can be read."""
    if file.path.endswith(".parquet"):
        return _is_parquet(file, deep=deep)
    with Path(file.path).open("rb") as opened:
        if not deep:
            opened.seek(-min(file.size, 2), os.SEEK_END)
        text = opened.read()
    if not text.rstrip().endswith(b"}"):
        return False
    with suppress(ValueError):
        return not deep or all(isinstance(json.loads(line), dict) for line in text.split(b"\n") if line.strip())
    return False


def _is_parquet(file: _File, *, deep: bool) -> bool:
    data = Path(file.path).read_bytes() if deep else _ends(file)
    footer = int.from_bytes(data[-8:-4], "little")
    if len(data) < _SHORTEST or data[:4] != _MAGIC or data[-4:] != _MAGIC or footer + _SHORTEST > file.size:
        return False
    if not deep or find_spec("pyarrow") is None:
        return True
    from pyarrow import ArrowException, BufferReader, parquet  # noqa: PLC0415 - slow to import, and optional

    try:
        opened = parquet.ParquetFile(BufferReader(data), page_checksum_verification=True)
        for group in range(opened.num_row_groups):
            opened.read_row_group(group)
    except (MemoryError, NotImplementedError):  # pyarrow's are among its other errors
        return True
    except (ArrowException, OSError):  # the bytes are in memory, so it is no error of the disk
        return False
    return True


def _ends(file: _File) -> bytes:
    with Path(file.path).open("rb") as opened:
        start = opened.read(_SHORTEST)
        opened.seek(-min(file.size, _SHORTEST), os.SEEK_END)
        return start + opened.read()
