"""Resolve a fault of the source's files: read the file again under a new name, leave it out, or accept the loss."""

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from pipelines.bronze.plan import is_packed
from pipelines.errors import StateError
from pipelines.exactly_once.accepted import write_accepted
from pipelines.exactly_once.census import Fault, Faulty, shown
from pipelines.exactly_once.files import files_at
from pipelines.lake import is_local
from pipelines.proof.census import Held
from pipelines.proof.deep import same_lines_as
from pipelines.survey import Survey

# What the loss of can be accepted; the others stop a run, or the next run resolves them.
ACCEPTED = frozenset(
    {Fault.GREW, Fault.SHRANK, Fault.CHANGED, Fault.NEVER_READ, Fault.NAME, Fault.DANGLING, Fault.SOURCE_EMPTY}
)
# What bronze has no line of, so that nothing is lost to a rebuild when it is left out.
EXCLUDED = frozenset({Fault.NEVER_READ, Fault.NAME, Fault.COLON, Fault.LOOP, Fault.DANGLING, Fault.RIGHTS})
REREAD = frozenset({Fault.GREW, Fault.SHRANK, Fault.CHANGED, Fault.NEVER_READ, Fault.NAME, Fault.COLON})
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
        return f"excluded: {_renamed(faulty.path, lambda name, _: f'.{name}')}"

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
                    f"{shown(faulty.path)} is compressed, so what was added cannot be told from what was read: write "
                    "that to a new file yourself, then run: oncelake census accept, with this file's name"
                )
            if self._starts_as_read(faulty):
                return _split(faulty, self._modified(faulty.path))
        if faulty.fault in (Fault.NAME, Fault.COLON):
            return f"to be read: {_renamed(_bad_part(faulty.path, self.root), lambda name, _: _readable(name))}"
        return f"to be read: {_renamed(faulty.path, lambda name, n: _numbered(name, 'reread', str(n)))}"

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
    for number in range(1, 10_000):
        target = source.with_name(named(source.name, number))
        if target == source or os.path.lexists(target):
            if named(source.name, number) == named(source.name, number + 1):
                raise StateError(f"{shown(path)} is not renamed: {target} is there already")
            continue
        try:
            source.rename(target)
        except OSError as error:
            raise StateError(f"{shown(path)} cannot be renamed to {target} ({error.strerror})") from None
        return f"{shown(path)} is now {target}"
    raise StateError(f"{shown(path)} is not renamed: all names of its kind are there already")


def _bad_part(path: str, root: str) -> str:
    """Return the first part below the source whose name cannot be read."""
    at = root.rstrip("/")
    for part in path[len(at) + 1 :].split("/"):
        at = f"{at}/{part}"
        if _readable(part) != part:
            return at
    return path


def _readable(name: str) -> str:
    """Spell a name so that Java and Hadoop read it: bytes that are not UTF-8 as %E9, a colon as a hyphen."""
    raw = name.encode("utf-8", "surrogateescape")
    text = raw.decode("utf-8", "surrogateescape")
    return "".join(f"%{ord(mark) - 0xDC00:02X}" if 0xDC80 <= ord(mark) <= 0xDCFF else mark for mark in text).replace(
        ":", "-"
    )


def _numbered(name: str, what: str, number: str) -> str:
    """Put a mark before a name's endings, so that a compressed file keeps them."""
    stem, dot, endings = name.partition(".")
    return f"{stem}.{what}-{number}{dot}{endings}"


def _split(faulty: Faulty, modified: int) -> str:
    """Put what was added to a file into a new one, and what was read in the file's place; the whole is kept aside.

    The new file is there first, so a death in between loses nothing; run again, it goes on after what it holds.
    """
    path, was = Path(faulty.path), faulty.was or 0
    made: list[str] = []
    start = _tail_end(path, was)
    aside = path.with_name(f".{path.name}.whole-{was}")
    if path.stat().st_size > start:
        start = _tail(path, path, start, made)
    if path.stat().st_size != start:
        raise StateError(f"{shown(faulty.path)} is still being written to; end its writer, then run this again")
    prefix = path.with_name(f".{path.name}.read-{was}")
    _copy(path, prefix, 0, was)
    shutil.copymode(path, prefix)
    os.utime(prefix, ns=(modified * 1_000_000, modified * 1_000_000))
    aside.unlink(missing_ok=True)
    aside.hardlink_to(path)
    prefix.replace(path)
    if aside.stat().st_size > start:  # written to by a process that has it open
        _tail(aside, path, start, made)
    half = "" if _ends_a_line(path) else "; the last line that was read was half a line, the new file has the rest"
    names = ", ".join(made) or "a file that was there already"
    return f"to be read: what was added to {path} is in {names}; {path} is what was read, {aside} the whole{half}"


def _tail(source: Path, named: Path, start: int, made: list[str]) -> int:
    end = source.stat().st_size
    target = named.with_name(_numbered(named.name, "added", f"{start}-{end}"))
    partial = target.with_name(f".{target.name}.partial")
    _copy(source, partial, start, end)
    shutil.copymode(source, partial)
    partial.replace(target)
    made.append(str(target))
    return end


def _tail_end(path: Path, was: int) -> int:
    """Return up to which byte earlier commands have put what was added into new files."""
    stem, _, endings = path.name.partition(".")
    fits = re.compile(rf"{re.escape(stem)}\.added-(\d+)-(\d+){re.escape(f'.{endings}' if endings else '')}")
    spans = {int(found[1]): int(found[2]) for each in path.parent.iterdir() if (found := fits.fullmatch(each.name))}
    while was in spans:
        was = spans[was]
    return was


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
