"""The census: classify every file of a source by what bronze holds, what exists now, and what Spark has listed.

Each existing file has exactly one class: completely read, waiting, ignored by rule, or a fault. A fault is a file that
changed after it was read, or whose lines are not in bronze and will not get there without your help.

A file that no run reads because of what it holds (see content.py) is a fault too: nothing stops at it, and its lines
are in no table.

Accepted faults are recorded in `<lake.root>/_census`, in one file for each `oncelake census accept`. An acceptance is
bound to the fault and to the state of the file. If the file changes again, or has another problem, that is a new fault.
A file that bronze has read under a name that is gone is recorded there in the same way.
"""

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from oncelake.common.wording import count_of, shown_path
from oncelake.sources.directory.content import Content
from oncelake.sources.directory.listing import ListedFile, Problem, is_hidden_file, is_packed


class Fault(StrEnum):
    """What is wrong with a file; each `Problem` and `Aside` is included.

    The value is the name in docs/operations/census.md.
    """

    GREW = "grew"
    SHRANK = "shrank"
    CHANGED = "changed"
    NEVER_READ = "never read"
    PLAN_CHANGED = "changed since it was planned"
    GONE = "gone before it was read"
    BLOCKED = "not read"
    NAME = "name not readable"
    COLON = "colon in its name"
    LOOP = "link loop"
    DANGLING = "link to nothing"
    RIGHTS = "not readable"
    BROKEN = "broken file"
    NO_TEXT = "no text"
    NOT_UNPACKED = "cannot be unpacked"
    NOT_WHOLE = "not whole"
    NOT_READ_ON = "not read on"
    UNDECIDED = "copy or log"
    SOURCE_EMPTY = "source is empty"
    SOURCE_AWAY = "source is away"


# Files that no run reads because of what they hold; the run goes on without them.
SET_ASIDE = frozenset({Fault.NO_TEXT, Fault.NOT_UNPACKED, Fault.NOT_WHOLE, Fault.NOT_READ_ON, Fault.UNDECIDED})
# Spark cannot read such a name now, but bronze may have read the file in another locale.
_OF_A_NAME = (None, Problem.NAME)


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The record in bronze of a file that it has read: its size in bytes and its modification time in ms."""

    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """The entry of a file in Spark's file list: its modification time in ms, and its list number."""

    modified: int
    number: int


# What stands in place of a fault in the record of a file that bronze has read under a name that is gone.
RENAMED = "renamed"
# A fault, its file, the file's size in bytes, and its modification time in milliseconds.
FaultKey = tuple[str, str, int, int]


@dataclass(frozen=True, order=True)
class Faulty:
    """One fault.

    Attributes:
        path: the file, or the directory or link that keeps files from being read.
        size: the current size in bytes; 0 if the file is missing. For an empty source see `CensusInputs.source`.
        modified: the current modification time in milliseconds. For an empty source see `CensusInputs.source`.
        was: the size in bytes that bronze recorded; None if bronze has not read the file.
        why: what is wrong with the file, if the fault does not say all; otherwise empty.
        earlier: the path of a file that was read and is gone, and whose lines this file holds; otherwise empty.
    """

    path: str
    fault: Fault
    size: int = 0
    modified: int = 0
    was: int | None = None
    why: str = field(default="", compare=False)
    earlier: str = field(default="", compare=False)

    @property
    def key(self) -> FaultKey:
        """The key that an acceptance is bound to; another fault or another change of the file has another key."""
        return self.fault.value, self.path, self.size, self.modified  # guard: acceptance-of-one-fault


@dataclass
class Census:
    """The files of a source, by class.

    Attributes:
        read: files with the size that bronze has read, including those in `touched`.
        waiting: files that the next run reads: planned in an unfinished batch, or not yet listed.
        hidden: files that are skipped because of their name or a directory's.
        empty: empty files, files without a line, and anything but regular files.
        touched: read files with the recorded size and another time, to be compared with what was read.
        gone: files that bronze has read and that no longer exist.
        renamed: files that bronze has read under a name that is gone.
        copies: growing files whose lines count once, in the files that they are copies of.
        faults: everything else.
        accepted: faults that were accepted in exactly this state.
    """

    read: list[str] = field(default_factory=list)
    waiting: list[ListedFile] = field(default_factory=list)
    hidden: list[ListedFile] = field(default_factory=list)
    empty: list[ListedFile] = field(default_factory=list)
    touched: list[ListedFile] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    renamed: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    faults: list[Faulty] = field(default_factory=list)
    accepted: list[Faulty] = field(default_factory=list)


@dataclass(frozen=True)
class CensusInputs:
    """The inputs of a census, in addition to the files themselves.

    Attributes:
        planned: Spark's file list, by path.
        position: the list number up to which the files are in bronze; -1 before the first.
        position_now: the same after the files were listed, as another run may have continued meanwhile.
        source: what identifies an empty source in an acceptance: its path, and two numbers that change with the
            directory; None if an empty source is not checked.
        recorded: what bronze records, by path; None if bronze was not read, and Spark's file list is used instead.
        may_start: whether bronze may start, so that the next run reads new files.
        has_lines: returns those of the files without a row in bronze that hold a line; a compressed file can hold none.
        may_read: returns True if this process has permission to read a file.
        content: returns what a file holds; None if that is not known.
        accepted: the faults (see `Faulty.key`) whose loss was accepted.
    """

    planned: Mapping[str, PlannedFile]
    position: int
    position_now: int
    recorded: Mapping[str, FileRecord] | None
    may_start: bool
    may_read: Callable[[str], bool]
    has_lines: Callable[[list[str]], set[str]] = set
    content: Callable[[str], Content | None] = lambda _: None
    accepted: frozenset[FaultKey] = frozenset()
    source: tuple[str, int, int] | None = None


def take(files: Iterable[ListedFile], inputs: CensusInputs) -> Census:
    """Return a census that puts every file into exactly one class."""
    census = Census()
    existing: set[str] = set()
    unread: list[ListedFile] = []
    faults: list[Faulty] = []
    hidden: dict[str, ListedFile] = {}
    for file in files:
        if file.hidden:  # guard: hidden-file-does-not-wait
            hidden[file.path] = file
            continue
        if file.path in existing:  # two paths that match a pattern lead to it
            continue
        existing.add(file.path)
        recorded = _recorded(file.path, inputs)
        if recorded is not None and file.problem in _OF_A_NAME:  # guard: read-file-compared-anyhow
            _compare(file, recorded, census, faults)
        elif file.problem is not None:  # guard: unreadable-file-is-fault
            faults.append(Faulty(file.path, Fault[file.problem.name], file.size, file.modified))
        elif file.size == 0:
            census.empty.append(file)
        else:
            unread.append(file)
    # guard: hidden-directory-of-pattern
    census.hidden = [file for path, file in hidden.items() if path not in existing]
    existing |= hidden.keys()
    faults += _unread(unread, inputs, census)
    faults += _gone(existing, inputs, census)
    if inputs.source and inputs.recorded and not (census.read or census.renamed or census.waiting or faults):
        faults = [Faulty(inputs.source[0], Fault.SOURCE_EMPTY, *inputs.source[1:])]  # guard: source-emptied
    for fault in sorted(faults):
        # guard: acceptance-of-size-and-time
        (census.accepted if fault.key in inputs.accepted else census.faults).append(fault)
    return census


def _recorded(path: str, inputs: CensusInputs) -> FileRecord | None:
    """Return bronze's record of a file; without bronze, the entry of a file that Spark has read, with unknown size."""
    if inputs.recorded is not None:
        return inputs.recorded.get(path)
    planned = inputs.planned.get(path)
    return FileRecord(-1, planned.modified) if planned is not None and planned.number <= inputs.position else None


def _compare(file: ListedFile, recorded: FileRecord, census: Census, faults: list[Faulty]) -> None:
    if recorded.size < 0:  # the size is unknown, so only the time can show a change
        if file.modified == recorded.modified:
            census.read.append(file.path)
        else:
            census.touched.append(file)
    elif file.size != recorded.size:  # guard: file-size-unchanged
        fault = Fault.GREW if file.size > recorded.size else Fault.SHRANK
        faults.append(Faulty(file.path, fault, file.size, file.modified, recorded.size))
    else:
        census.read.append(file.path)
        if file.modified != recorded.modified:  # guard: other-time-is-compared
            census.touched.append(file)


def _unread(unread: list[ListedFile], inputs: CensusInputs, census: Census) -> list[Faulty]:
    """Classify the files without rows in bronze; return those that are faults."""
    faults, passed = [], []
    for file in unread:
        planned = inputs.planned.get(file.path)
        aside = _set_aside(file, inputs)
        if aside is not None:
            faults.append(aside)
        elif planned is not None and planned.number <= inputs.position:  # guard: listed-file-does-not-wait
            passed.append(file)
        elif planned is not None and planned.number <= inputs.position_now:  # guard: file-read-by-parallel-run
            census.waiting.append(file)  # another run has read it since; the next proof looks for its rows
        elif not inputs.may_start:  # guard: no-file-wait-if-refused
            faults.append(Faulty(file.path, Fault.BLOCKED, file.size, file.modified))
        elif not inputs.may_read(file.path):  # guard: forbidden-file-does-not-wait
            faults.append(Faulty(file.path, Fault.RIGHTS, file.size, file.modified))
        elif planned is not None and planned.modified != file.modified:  # guard: planned-file-changed
            faults.append(Faulty(file.path, Fault.PLAN_CHANGED, file.size, file.modified))
        else:
            census.waiting.append(file)
    return faults + _passed(passed, inputs, census)


def _passed(passed: list[ListedFile], inputs: CensusInputs, census: Census) -> list[Faulty]:
    """Classify the files without rows in bronze that Spark has passed; return those that are faults."""
    faults, others = [], []
    for file in passed:
        if (RENAMED, file.path, file.size, file.modified) in inputs.accepted:
            census.renamed.append(file.path)
        else:
            others.append(file)
    with_lines = inputs.has_lines([other.path for other in others]) if others else set()
    for other in others:
        if other.path in with_lines:  # guard: packed-file-without-lines
            # guard: listed-file-never-read
            faults.append(Faulty(other.path, Fault.NEVER_READ, other.size, other.modified))
        else:
            census.empty.append(other)
    return faults


def _set_aside(file: ListedFile, inputs: CensusInputs) -> Faulty | None:  # guard: binary-file-is-fault
    """Return a file as a fault if no run reads it because of what it holds."""
    content = inputs.content(file.path)
    if content is None or content.aside is None:
        return None
    return Faulty(file.path, Fault[content.aside.name], file.size, file.modified, why=content.why)


def _gone(existing: Set[str], inputs: CensusInputs, census: Census) -> list[Faulty]:
    """Classify the missing files: read before, or planned and not yet read; return those that are faults."""
    open_batch = {path for path, planned in inputs.planned.items() if planned.number > inputs.position_now}
    read = inputs.recorded if inputs.recorded is not None else inputs.planned
    census.gone = sorted(path for path in read if path not in existing and path not in open_batch)
    gone = (path for path in open_batch if path not in existing and path not in (inputs.recorded or ()))
    # guard: planned-file-gone
    return [Faulty(path, Fault.GONE) for path in gone if not is_hidden_file(os.fsencode(Path(path).name))]


def fault_message(faulty: Faulty, stage: str) -> str:
    """Return a message about what is wrong with a file and how to fix it.

    Args:
        faulty: the file.
        stage: the stage that reads it.
    """
    name, fault = shown_path(faulty.path), faulty.fault
    if faulty.earlier:
        return f"{name} {_as_earlier(faulty, stage)}; or {_command(faulty, 'accept')}"
    if fault is Fault.GREW:
        return _grew(faulty, stage)
    if fault is Fault.SHRANK:
        shrank = f"from {faulty.was or 0:,} to {count_of(faulty.size, 'byte')} after it was read"
        return f"{name} {fault} {shrank}: bronze holds its old content; {_other(faulty)}"
    if fault in SET_ASIDE:
        aside = "it is set aside, and its lines are in no table"
        if fault is Fault.NOT_READ_ON:
            aside = "what it holds beyond what was read is in no table"
        repair = _REPAIR[fault].format(stage=stage)
        return f"{name}: {faulty.why or fault}: {aside}; {repair}; or {_command(faulty, 'accept')}"
    if fault is Fault.CHANGED:
        return f"{name}: {_DESCRIPTION[fault]}; {_other(faulty)}"
    return f"{name}: {faulty.why or _DESCRIPTION[fault]}; {_way_out(faulty, stage)}"


def _grew(faulty: Faulty, stage: str) -> str:
    sizes = f"from {faulty.was or 0:,} to {count_of(faulty.size, 'byte')}"
    grew = f"{shown_path(faulty.path)} {Fault.GREW} {sizes} after it was read"
    again = f"read all files again: oncelake rebuild {stage}; or {_command(faulty, 'accept')}"
    if is_packed(faulty.path):
        return f"{grew}: lines from anywhere in it may be missing; {again}"
    return f"{grew}: its tail is not in bronze; {again}; if it is another file: {_command(faulty, 'reread')}"


def _as_earlier(faulty: Faulty, stage: str) -> str:
    lines = f"holds the lines of {shown_path(faulty.earlier)}, which was read and is gone"
    if faulty.fault is not Fault.GREW:
        return f"{lines}: they count once, under that name; give it that name again"
    again = f"read all files again: oncelake rebuild {stage}"
    if not is_packed(faulty.path) and not is_packed(faulty.earlier):
        again = f"give it that name again, and {again}"
    return f"{lines}, and more, which are not in bronze; {again}"


_DESCRIPTION: Mapping[Fault, str] = {
    Fault.CHANGED: "its lines changed after they were read: bronze holds its old content",
    Fault.NEVER_READ: "bronze has no line of it: Spark listed it, but it was empty or missing when its batch was read",
    Fault.PLAN_CHANGED: "it changed after its batch was planned: the next run reads its new content",
    Fault.GONE: "it was planned for a batch and disappeared before it was read",
    Fault.BLOCKED: "it is not in bronze, and bronze cannot start",
    Fault.NAME: f"{Problem.NAME}: it is never read",
    Fault.COLON: f"{Problem.COLON}: the run stops at it",
    Fault.LOOP: f"{Problem.LOOP}",
    Fault.DANGLING: f"{Problem.DANGLING}: no file is read through it",
    Fault.RIGHTS: f"{Problem.RIGHTS}: no run reads it",
    Fault.BROKEN: "it is compressed or has a .crc checksum file, and cannot be read to its end: the run stops at it",
    Fault.SOURCE_EMPTY: "none of the files that bronze has read are left here: is the right disk mounted?",
    Fault.SOURCE_AWAY: "it cannot be listed, so its content is unknown",
}
_REPAIR: Mapping[Fault, str] = {
    Fault.NO_TEXT: "put text in its place, or take it away",
    Fault.NOT_UNPACKED: "unpack it, or give it the name that fits what it holds",
    Fault.NOT_WHOLE: "put a whole file in its place",
    Fault.NOT_READ_ON: "to read all files again: oncelake rebuild {stage}; if it finds lines of bronze in no file any "
    "more, --accept-loss goes on without them",
    Fault.UNDECIDED: "it is read or left out as soon as the setting says what it is",
}
_COMMAND: Mapping[Fault, str] = {
    Fault.NEVER_READ: "reread",
    Fault.NAME: "reread",
    Fault.COLON: "reread",
    Fault.LOOP: "exclude",
    Fault.DANGLING: "exclude",
    Fault.SOURCE_EMPTY: "accept",
}
_WAY_OUT: Mapping[Fault, str] = {
    Fault.PLAN_CHANGED: "run again",
    Fault.GONE: "restore it, or continue without it: oncelake recover {stage} --accept-loss",
    Fault.BLOCKED: "see why: oncelake doctor",
    Fault.RIGHTS: "give this process permission to read it",
    Fault.BROKEN: "replace it with a complete file of the same name, and delete its .crc file if it has one",
    Fault.SOURCE_AWAY: "mount it, or set source.path",
}


def _way_out(faulty: Faulty, stage: str) -> str:
    remedy = _WAY_OUT.get(faulty.fault)
    return remedy.format(stage=stage) if remedy else f"fix: {_command(faulty, _COMMAND[faulty.fault])}"


def _other(faulty: Faulty) -> str:
    restore = f"restore the old file, or {_command(faulty, 'accept')}"
    return f"{restore}; if it is another file, and all its lines count: {_command(faulty, 'reread')}"


def _command(faulty: Faulty, verb: str) -> str:
    return f"oncelake census {verb} {shlex.quote(shown_path(faulty.path))}"
