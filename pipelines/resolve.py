"""Resolve a fault of the source's files: read the file again under a new name, leave it out, or accept the loss."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, takewhile
from pathlib import Path

from pyspark.sql import SparkSession

from pipelines.errors import StateError
from pipelines.exactly_once.accepted import write_accepted
from pipelines.exactly_once.census import Fault, Faulty, shown
from pipelines.exactly_once.files import files_at
from pipelines.exactly_once.listing import has_pattern, is_packed
from pipelines.exactly_once.split_names import Split, marked, next_split, split_of
from pipelines.lake import is_local
from pipelines.proof.census import Held
from pipelines.proof.deep import same_lines_as
from pipelines.survey import Survey

# What the loss of can be accepted; the others stop a run, or the next run resolves them.
ACCEPTED = frozenset(
    {
        Fault.GREW,
        Fault.DIVERTED,
        Fault.SHRANK,
        Fault.CHANGED,
        Fault.NEVER_READ,
        Fault.NAME,
        Fault.DANGLING,
        Fault.SOURCE_EMPTY,
    }
)
# What bronze has no line of, so that nothing is lost to a rebuild when it is left out.
EXCLUDED = frozenset({Fault.NEVER_READ, Fault.NAME, Fault.COLON, Fault.LOOP, Fault.DANGLING, Fault.RIGHTS})
REREAD = frozenset({Fault.GREW, Fault.DIVERTED, Fault.SHRANK, Fault.CHANGED, Fault.NEVER_READ, Fault.NAME, Fault.COLON})
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Resolve:
    """What resolves faults of one source.

    Attributes:
        root: the source's path, as the census lists it.
        held: what bronze holds.
    """

    survey: Survey
    spark: SparkSession
    root: str
    held: Held

    def accept(self, faults: Iterable[Faulty]) -> list[str]:
        """Record that the loss of files in exactly this state is accepted; return what was done, a line each.

        Raises:
            StateError: one of them cannot be accepted; nothing was recorded.
        """
        chosen = [_allowed(each, ACCEPTED, "accepted") for each in faults]
        lake = self.survey.lake.root
        path = write_accepted(files_at(lake, self.spark), lake, chosen, datetime.now(UTC))
        return [f"accepted: {shown(each.path)} ({each.fault}), recorded in {path}" for each in chosen]

    def exclude(self, faulty: Faulty) -> str:
        """Rename a file, or a link, to a name that is left out by rule.

        Raises:
            StateError: it cannot be left out, or not renamed; nothing was changed.
        """
        self._local()
        _allowed(faulty, EXCLUDED, "excluded")
        return f"excluded: {_renamed(faulty.path, lambda name, n: f'.{name}' if n == 1 else f'.{name}.{n}')}"

    def reread(self, faulty: Faulty) -> str:
        """Let the next run read what bronze lacks of a file: under a new name, or the part that was added.

        Raises:
            StateError: it cannot be read again, or not renamed; says what can be done.
        """
        self._local()
        _allowed(faulty, REREAD, "read again")
        if faulty.fault is Fault.GREW:
            if is_packed(faulty.path):
                raise StateError(
                    f"{shown(faulty.path)} is compressed: if it grew while it was read, bronze lacks lines from "
                    "anywhere in it, and what was added cannot be told from what was read. Read all files that are "
                    "there anew: oncelake rebuild bronze"
                )
            if self._starts_as_read(faulty):
                return _split(faulty, self._modified(faulty.path))
        if faulty.fault is Fault.DIVERTED:
            return _go_on(faulty)
        if faulty.fault in (Fault.NAME, Fault.COLON):
            return f"to be read: {_renamed(_bad_part(faulty.path, self.root), _readable_name)}"
        return f"to be read: {_renamed(faulty.path, lambda name, n: marked(name, f'reread-{n}'))}"

    def _local(self) -> None:
        if not is_local(self.root):
            raise StateError(f"{self.root} is not on this machine: rename the file there, or accept the loss")

    def _modified(self, path: str) -> int:
        return next(each.modified for each in self.held.files if each.place == path)

    def _starts_as_read(self, faulty: Faulty) -> bool:
        """Return True if a file that grew starts with the very lines that bronze holds of it."""
        uri = next(each.uri for each in self.held.files if each.place == faulty.path)
        assert self.held.rows is not None
        with tempfile.TemporaryDirectory(prefix="oncelake-census-") as directory:
            start = Path(directory) / "start.log"
            _copy(Path(faulty.path), start, 0, faulty.was or 0)
            return bool(same_lines_as(self.spark, self.held.rows, {uri: [str(start)]}))


def chosen(names: Iterable[str], faults: Iterable[Faulty]) -> list[Faulty]:
    """Return the faults of named files.

    Raises:
        StateError: one of the names is of no file at fault.
    """
    by_name: Mapping[str, Faulty] = {name: each for each in faults for name in (each.path, shown(each.path))}
    found = []
    for name in names:
        fault = by_name.get(name) or by_name.get(str(Path(name).absolute()))
        if fault is None:
            raise StateError(f"{shown(name)} has no fault; those that have are listed by: oncelake census")
        found.append(fault)
    return found


def _allowed(faulty: Faulty, allowed: frozenset[Fault], done: str) -> Faulty:
    if faulty.fault not in allowed:
        kinds = ", ".join(sorted(allowed))
        raise StateError(f"{shown(faulty.path)} ({faulty.fault}) cannot be {done}; that is for: {kinds}")
    return faulty


def _renamed(path: str, named: Callable[[str, int], str]) -> str:
    """Rename a file within its directory to a name that nothing has."""
    source = Path(os.fsdecode(path.encode("utf-8", "surrogateescape")))
    targets = (source.with_name(named(source.name, number)) for number in count(1))
    target = next(each for each in targets if not os.path.lexists(each))
    try:
        source.rename(target)
    except OSError as error:
        raise StateError(f"{shown(path)} cannot be renamed to {target} ({error.strerror})") from None
    return f"{shown(path)} is now {target}"


def _bad_part(path: str, root: str) -> str:
    """Return the first part below the source whose name cannot be read; of a pattern, below what it says in full."""
    above = "/".join(takewhile(lambda part: not has_pattern(part), root.rstrip("/").split("/")))
    at = above if path.startswith(f"{above}/") else ""
    for part in path[len(at) + 1 :].split("/"):
        at = f"{at}/{part}"
        if _readable(part) != part:
            return at
    return path


def _readable_name(name: str, number: int) -> str:
    readable = _readable(name)
    return readable if number == 1 else marked(readable, f"reread-{number}")


def _readable(name: str) -> str:
    """Spell a name so that Java and Hadoop read it: bytes that are not UTF-8 as %E9, a colon as a hyphen."""
    raw = name.encode("utf-8", "surrogateescape")
    text = raw.decode("utf-8", "surrogateescape")
    return "".join(f"%{ord(mark) - 0xDC00:02X}" if 0xDC80 <= ord(mark) <= 0xDCFF else mark for mark in text).replace(
        ":", "-"
    )


def _split(faulty: Faulty, modified: int) -> str:
    """Put what was added to a file into a new one, and what was read in the file's place; the whole is kept aside.

    The new file is there before the old one is cut, so a death in between loses nothing; run again, the same split
    goes on after what the new file holds.
    """
    path, was = Path(faulty.path), faulty.was or 0
    split = _begun(path, was)
    aside = path.with_name(split.whole)
    made: list[Path] = []
    start = split.end(_names_beside(path))
    if (end := path.stat().st_size) > start:
        made.append(_added(path, split, start, end))
        start = end
    if path.stat().st_size != start:
        raise StateError(f"{shown(faulty.path)} is still being written to; end its writer, then run this again")
    prefix = path.with_name(f".{path.name}.read-{was}")
    _copy(path, prefix, 0, was)
    shutil.copymode(path, prefix)
    os.utime(prefix, ns=(modified * 1_000_000, modified * 1_000_000))
    prefix.replace(path)
    if (end := aside.stat().st_size) > start:  # written to by a process that has it open
        made.append(_added(aside, split, start, end))
    half = "" if _ends_a_line(path) else "; the last line that was read was half a line, the new file has the rest"
    names = ", ".join(map(str, made)) or "a file that was there already"
    return f"to be read: what was added to {path} is in {names}; {path} is what was read, {aside} the whole{half}"


def _begun(path: Path, was: int) -> Split:
    """Return the split of a file that was begun and not finished, or begin one: the whole gets a second name.

    Raises:
        StateError: the directory takes no second name for a file.
    """
    names = _names_beside(path)
    for split in filter(None, map(split_of, names)):
        if (split.name, split.was) == (path.name, was) and path.with_name(split.whole).samefile(path):
            return split
    split = next_split(path.name, was, names)
    try:
        path.with_name(split.whole).hardlink_to(path)
    except OSError as error:
        raise StateError(
            f"{shown(str(path))} cannot be split: it gets no second name, {split.whole} ({error.strerror}); "
            "copy what was added to a new file yourself, then run: oncelake census accept, with this file's name"
        ) from None
    return split


def _names_beside(path: Path) -> list[str]:
    return [each.name for each in path.parent.iterdir()]


def _go_on(faulty: Faulty) -> str:
    """Put what a process has written to a whole file since it was kept aside into a new file, up to a line's end.

    Raises:
        StateError: that is no whole line.
    """
    path = Path(faulty.path)
    split = split_of(path.name)
    assert split is not None
    start = faulty.was or 0
    end = _last_line_end(path, start)
    if end == start:
        raise StateError(f"{shown(faulty.path)} ends within a line; wait for its end, or end its writer and add it")
    made = _added(path, split, start, end)
    return f"to be read: what was written to {path} since is in {made}; let its writer open its log again"


def _added(source: Path, split: Split, start: int, end: int) -> Path:
    """Copy bytes that were added to a file into a file of their own, which is there at once and whole."""
    target = source.with_name(split.added(start, end))
    partial = target.with_name(f".{target.name}.partial")
    _copy(source, partial, start, end)
    shutil.copymode(source, partial)
    partial.replace(target)
    return target


def _copy(source: Path, target: Path, start: int, end: int) -> None:
    """Copy bytes of a file, and wait until they are on the disk."""
    with source.open("rb") as read, target.open("wb") as write:
        read.seek(start)
        left = end - start
        while left > 0 and (chunk := read.read(min(_CHUNK, left))):
            write.write(chunk)
            left -= len(chunk)
        write.flush()
        os.fsync(write.fileno())
    if left:
        target.unlink()
        raise StateError(f"{source} was cut short while it was copied; nothing was changed")


def _ends_a_line(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _last_line_end(path: Path, start: int) -> int:
    """Return where the last line that has an end ends, `start` when none does."""
    with path.open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        while at > start:
            before = max(start, at - _CHUNK)
            file.seek(before)
            found = file.read(at - before).rfind(b"\n")
            if found >= 0:
                return before + found + 1
            at = before
    return start
