"""Resolve a fault of the source's files: read the file again under a new name, exclude it, or accept the loss."""

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from errno import EACCES
from itertools import count
from pathlib import Path

from oncelake.common.errors import StateError
from oncelake.common.lake import is_local
from oncelake.common.wording import shown_path
from oncelake.sources.directory.accepted import write_accepted
from oncelake.sources.directory.bronze_files import BronzeFiles
from oncelake.sources.directory.census import SET_ASIDE, Fault, Faulty
from oncelake.sources.directory.comparison import broken_of, holding
from oncelake.sources.directory.listing import has_pattern, is_hidden_file, is_named, is_packed, may_be_broken
from oncelake.sources.proof import Ingestion

# Faults whose loss can be accepted. The others stop a run, or the next run resolves them.
_ANEW = frozenset({Fault.GREW, Fault.SHRANK, Fault.CHANGED, Fault.NEVER_READ, Fault.NAME})
ACCEPTED = _ANEW | SET_ASIDE | {Fault.DANGLING, Fault.SOURCE_EMPTY}
# Faults of files without lines in bronze: if they are excluded, a rebuild loses nothing.
EXCLUDED = SET_ASIDE | {Fault.NEVER_READ, Fault.NAME, Fault.COLON, Fault.LOOP, Fault.DANGLING, Fault.RIGHTS}
REREAD = _ANEW | {Fault.COLON}


@dataclass(frozen=True)
class Resolve:
    """The actions that resolve faults of one source.

    Attributes:
        ingestion: the bronze table beside its source.
        root: the source's path, as the census lists it.
        bronze: what bronze holds.
        listed: the paths that Spark has listed; Spark reads no file of such a path again.
        table_id: bronze's ID at the time of the census; a rebuild since then has read the files as they are now.
    """

    ingestion: Ingestion
    root: str
    bronze: BronzeFiles
    listed: Collection[str]
    table_id: str | None

    def exclude(self, faulty: Faulty, *, dry_run: bool = False) -> str:
        """Rename a file, or a link, to a name that Spark ignores; with `dry_run`, only check that it can be.

        Raises:
            StateError: the file cannot be excluded or renamed; nothing is changed.
        """
        self._local()
        _allowed(faulty, EXCLUDED, "excluded")
        if any(_is_in(file.place, faulty.path) for file in self.bronze.files):
            raise StateError(  # guard: read-file-not-excluded
                f"{shown_path(faulty.path)} cannot be excluded: it has lines in bronze, which a rebuild would "
                "lose. For another fix, run: oncelake census"
            )
        if faulty.fault in (Fault.LOOP, Fault.DANGLING) and not Path(faulty.path).is_symlink():
            # guard: only-links-excluded
            raise StateError(f"{shown_path(faulty.path)} is no longer a link and was not renamed. Run: oncelake census")
        return f"excluded: {self._renamed(faulty, faulty.path, self._hidden, dry_run=dry_run)}"

    def reread(self, faulty: Faulty, *, dry_run: bool = False) -> str:
        """Rename a file so that the next run reads all lines that it has now; with `dry_run`, only check it.

        Raises:
            StateError: lines would count twice, or would not be read; the text names the fix. Nothing is changed.
        """
        self._local()
        _allowed(faulty, REREAD, "read again")
        if self._holds_lines_read(faulty):
            of = shown_path(faulty.earlier) if faulty.earlier else "it"
            raise StateError(  # guard: grown-file-keeps-name
                f"{shown_path(faulty.path)} is not read again from its start: it holds the lines that bronze has of "
                f"{of}, and they would count twice. To count lines that were added, read all files again: "
                f"oncelake rebuild {self.ingestion.stage}. To leave them out, run: {_accept(faulty)}"
            )
        if faulty.fault not in (Fault.NAME, Fault.COLON):
            self._refuse_broken(faulty)
            return f"to be read: {self._renamed(faulty, faulty.path, self._reread, dry_run=dry_run)}"
        if not os.path.lexists(_spelled(faulty.path)):
            return f"{shown_path(faulty.path)} no longer exists, because its directory was renamed"
        part = faulty.path if faulty.fault is Fault.COLON else self._undecodable(faulty.path)
        if any(file.place.startswith(f"{part}/") for file in self.bronze.files):
            raise StateError(  # guard: read-directory-keeps-name
                f"{shown_path(part)} has files that bronze has read; their lines would count twice under a new name. "
                f"Fix: move {shown_path(faulty.path)} out of it, to another place in the source with a readable name"
            )
        return f"to be read: {self._renamed(faulty, part, self._readable, dry_run=dry_run)}"

    def _reread(self, source: Path, number: int) -> Path | None:
        """Return the file's path with `.reread-N` before its extensions, so that a compressed file keeps them."""
        stem, dot, endings = source.name.partition(".")
        return self._free(source, f"{stem}.reread-{number}{dot}{endings}")

    def _readable(self, source: Path, number: int) -> Path | None:
        stem, dot, endings = _readable(source.name).partition(".")
        return self._free(source, f"{stem}{f'.reread-{number}' if number > 1 else ''}{dot}{endings}")

    def _free(self, source: Path, name: str) -> Path | None:
        """Return a path with a new name in the same directory; None if the path is in use or was read before.

        Raises:
            StateError: Spark would not read the path, because `source.path` does not match it, or the name is hidden.
        """
        target = source.with_name(name)
        if not is_named(self.root, str(target)):
            raise StateError(  # guard: new-name-is-read
                f"{shown_path(str(source))} was not renamed: source.path {self.root} does not match {target}. "
                "Rename the file yourself to a name that source.path matches, and that no file had before"
            )
        if is_hidden_file(os.fsencode(name)):
            raise StateError(  # guard: hidden-file-not-read
                f"{shown_path(str(source))} was not renamed: {target} would be ignored, as its name starts with a "
                "dot or _. Rename the file yourself to a name that no file had before"
            )
        places = (*self.listed, *(file.place for file in self.bronze.files))
        in_use = os.path.lexists(target) or any(_is_in(place, str(target)) for place in places)
        return None if in_use else target  # guard: new-name-is-free

    def _undecodable(self, path: str) -> str:
        """Return a path up to the first part, below the fixed part of the source's path, whose bytes are not UTF-8."""
        parts = path.split("/")
        for at in range(len(self.root.rstrip("/").split("/")) if not has_pattern(self.root) else 1, len(parts)):
            if _readable(parts[at]) != parts[at].replace(":", "-"):
                return "/".join(parts[: at + 1])
        raise StateError(  # guard: undecodable-name-changes
            f"{shown_path(path)} is UTF-8, but Spark's JVM reads names in another encoding. Fix: start it in a "
            "UTF-8 locale"
        )

    def _hidden(self, source: Path, number: int) -> Path | None:
        """Return the file's path with a dot before its name.

        Raises:
            StateError: Spark would still read the file, because `source.path` matches the new name.
        """
        target = source.with_name(f".{_readable(source.name)}{f'.{number}' if number > 1 else ''}")
        if is_named(self.root, str(target), itself=True):
            raise StateError(  # guard: excluded-file-matches-nothing
                f"{shown_path(str(source))} was not renamed: source.path {self.root} matches {target} too, so it "
                "would be read. Fix: move the file out of the source, or remove it"
            )
        return None if os.path.lexists(target) else target

    def _refuse_broken(self, faulty: Faulty) -> None:
        """Raise StateError if Spark cannot read a file to its end: under a new name it would stop the run."""
        if may_be_broken(faulty.path) and broken_of(self.ingestion.spark, [faulty.path]):
            raise StateError(  # guard: broken-file-keeps-name
                f"{shown_path(faulty.path)} was not renamed: it cannot be read to its end, and would stop the "
                f"run. Restore the old file, or run: {_accept(faulty)}"
            )

    def _renamed(self, faulty: Faulty, path: str, named: Callable[[Path, int], Path | None], *, dry_run: bool) -> str:
        """Rename a file, or a directory above it, to the first free path; return the old and new path in words.

        Raises:
            StateError: the file has changed since the census, or cannot be renamed; nothing is changed.
        """
        source = Path(_spelled(path))
        target = next(filter(None, (named(source, number) for number in count(1))))
        if not self._as_seen(faulty):
            # guard: renamed-file-changed
            raise StateError(f"{shown_path(faulty.path)} or bronze has changed since the census. Run: oncelake census")
        if dry_run and not os.path.lexists(source):
            # guard: missing-file-renames-none
            raise StateError(f"{shown_path(path)} no longer exists; no file was renamed. Run: oncelake census")
        try:
            if not dry_run:
                source.rename(target)
            elif not os.access(source.parent, os.W_OK):
                raise PermissionError(EACCES, os.strerror(EACCES))
        except OSError as error:
            raise StateError(  # guard: failed-rename-reported
                f"{shown_path(path)} cannot be renamed to {target} ({error.strerror}). Give this process the "
                "right to write in the directory, or rename it yourself to a name that no file had before"
            ) from None
        return f"{shown_path(path)} is now {target}"

    def _as_seen(self, faulty: Faulty) -> bool:  # guard: file-as-census-saw
        """Return True if a file has the size and time that the census saw, and bronze is the same table."""
        try:
            at = Path(_spelled(faulty.path)).stat()
        except OSError:
            return True  # a link to nothing; if the file is gone, the rename fails
        seen = not faulty.size or (at.st_size, at.st_mtime_ns // 1_000_000) == (faulty.size, faulty.modified)
        return seen and self.ingestion.log.table_id() == self.table_id

    def _local(self) -> None:
        if not is_local(self.root):
            raise StateError(  # guard: rename-local-files-only
                f"{self.root} is not on this machine, so its files cannot be renamed from here. Rename the file there, "
                "or run oncelake census accept with its name"
            )

    def _holds_lines_read(self, faulty: Faulty) -> bool:
        """Return True if a file holds all lines that bronze has of it, maybe under a name that is gone."""
        if faulty.earlier or (faulty.fault is Fault.GREW and is_packed(faulty.path)):
            return True
        uri = next((file.uri for file in self.bronze.files if file.place == faulty.path), None)
        if uri is None or self.bronze.rows is None:
            return False
        return bool(holding(self.bronze.rows(), {uri: [faulty.path]}, self.bronze.versions))


# Files at fault, each with what resolves the faults of its source.
Chosen = Sequence[tuple[Resolve, Faulty]]


def accept(faults: Chosen) -> list[str]:
    """Record in one file that the loss of files in exactly this state is accepted; return one line per file.

    Raises:
        StateError: the loss of one file cannot be accepted; nothing is recorded.
    """
    allowed = [_allowed(fault, ACCEPTED, "accepted") for _, fault in faults]
    lake = faults[0][0].ingestion  # of all sources
    path = write_accepted(lake.files, lake.root, allowed, datetime.now(UTC))
    return [f"accepted: {shown_path(faulty.path)} ({faulty.fault}), recorded in {path}" for faulty in allowed]


def exclude(faults: Chosen) -> Iterator[str]:
    """Rename files as `Resolve.exclude` does, see `_each`."""
    return _each(Resolve.exclude, faults)


def reread(faults: Chosen) -> Iterator[str]:
    """Rename files as `Resolve.reread` does, see `_each`."""
    return _each(Resolve.reread, faults)


def _each(rename: Callable[..., str], faults: Chosen) -> Iterator[str]:
    """Rename files, once all of them are checked; yield one line per file.

    Raises:
        StateError: a file cannot be renamed. No file was renamed, or the text names those that were.
    """
    for resolve, faulty in faults:
        rename(resolve, faulty, dry_run=True)  # guard: all-checked-before-rename
    done = list[str]()
    for resolve, faulty in faults:
        try:
            done.append(rename(resolve, faulty))
        except StateError as error:
            if not done:
                raise
            raise StateError(  # guard: failed-rename-names-others
                f"{error}. Before it: {'; '.join(done)}. For the rest, give the same command again"
            ) from None
        yield done[-1]


def excluded_before(name: str) -> str | None:
    """Return what an earlier `exclude` did with a file; None if the file has the name still, or never had it."""
    return _renamed_before(name, "excluded", lambda old: rf"\.{re.escape(_readable(old))}(\.\d+)?")


def reread_before(name: str) -> str | None:
    """Return what an earlier `reread` did with a file; None if the file has the name still, or never had it."""

    def new(old: str) -> str:
        stem, dot, endings = map(re.escape, _readable(old).partition("."))
        return rf"{stem}(\.reread-\d+)?{dot}{endings}"

    return _renamed_before(name, "to be read", new)


def _renamed_before(name: str, done: str, new: Callable[[str], str]) -> str | None:
    """Return what was done with a file that is gone, if one beside it has a name that matches a new one."""
    path = Path(name).absolute()
    if os.path.lexists(path) or not path.parent.is_dir():
        return None
    matches = sorted(other for other in path.parent.iterdir() if re.fullmatch(new(path.name), other.name))
    return f"{done} already: {shown_path(str(path))} is now {matches[-1]}" if matches else None


def chosen(names: Iterable[str], faults: Iterable[Faulty], errors: Sequence[str] = ()) -> list[Faulty]:
    """Return the faults of the named files, each fault once.

    Args:
        names: the files' paths.
        faults: the faults of all sources that could be checked.
        errors: why the others could not.

    Raises:
        StateError: a name is not that of a file at fault.
    """
    by_name: Mapping[str, Faulty] = {
        name: faulty for faulty in faults for name in (faulty.path, shown_path(faulty.path))
    }
    result = []
    for name in names:
        fault = by_name.get(name) or by_name.get(str(Path(name).absolute()))
        if fault is None:
            reasons = "".join(f"; {error}" for error in errors)
            raise StateError(  # guard: resolve-only-faults
                f"{shown_path(name)} is not at fault{reasons}. To list the files at fault, run: oncelake census"
            )
        result.append(fault)
    return list(dict.fromkeys(result))


def _allowed(faulty: Faulty, allowed: frozenset[Fault], done: str) -> Faulty:
    if faulty.fault not in allowed:
        kinds = ", ".join(sorted(allowed))
        # guard: fault-has-safe-commands
        raise StateError(f"{shown_path(faulty.path)} ({faulty.fault}) cannot be {done}. Only these faults can: {kinds}")
    return faulty


def _accept(faulty: Faulty) -> str:
    return f"oncelake census accept {shlex.quote(shown_path(faulty.path))}"


def _is_in(place: str, path: str) -> bool:
    """Return True if `place` is the path, or lies below it."""
    return place == path or place.startswith(f"{path}/")


def _spelled(path: str) -> str:
    """Return a path of the census in the encoding of this process's locale."""
    return os.fsdecode(path.encode("utf-8", "surrogateescape"))


def _readable(name: str) -> str:
    """Return a name that Java and Hadoop can read: bytes that are not UTF-8 as `%E9`, a colon as a hyphen."""
    raw = name.encode("utf-8", "surrogateescape")
    text = raw.decode("utf-8", "surrogateescape")
    return "".join(f"%{ord(mark) - 0xDC00:02X}" if 0xDC80 <= ord(mark) <= 0xDCFF else mark for mark in text).replace(
        ":", "-"
    )
