"""Account for every file of a source: what bronze holds, what the source holds now, and what Spark has listed.

Each file that is there is exactly one of: read whole, waiting, ignored by rule, or a fault. A fault is a file whose
lines are not in bronze and will not come there by themselves, or that is no longer what was read.

Which faults were accepted is in files of `<lake.root>/_census`, one for each time that somebody did. An acceptance is
bound to the fault and to the state that the file was in. When the file changes again, or something else is wrong with
it, that is a new fault.
"""

import getpass
import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from oncelake.common.wording import count_of
from oncelake.exactly_once.files import Files
from oncelake.exactly_once.listing import Found, Problem, is_hidden_file, is_packed


class Fault(StrEnum):
    """What is wrong with a file, each `Problem` among it. The value is the name in docs/operations/census.md."""

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
    SOURCE_EMPTY = "source is empty"
    SOURCE_AWAY = "source is away"


# A name that Spark cannot read today; bronze can have read the file in another locale.
_OF_A_NAME = (None, Problem.NAME)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What bronze records of a file that it has read: its size in bytes and its modification time in ms."""

    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """What Spark's list says of a file: its modification time in ms, and the number of the listing."""

    modified: int
    number: int


# The form of the records of acceptances.
_FORM = 1
# A fault, its file, the file's size in bytes, and its modification time in milliseconds.
FaultKey = tuple[str, str, int, int]


@dataclass(frozen=True, order=True)
class Faulty:
    """One fault.

    Attributes:
        path: the file, or the directory or link that keeps files from being read.
        size: in bytes, as it is now; 0 when it is gone. Of an empty source see `CensusInputs.source`.
        modified: its modification time now, in milliseconds. Of an empty source see `CensusInputs.source`.
        was: the size in bytes that bronze recorded, where it has read it.
    """

    path: str
    fault: Fault
    size: int = 0
    modified: int = 0
    was: int | None = None

    @property
    def key(self) -> FaultKey:
        """What an acceptance is bound to: another fault, or another change of the same file, is a new one."""
        return self.fault.value, self.path, self.size, self.modified


@dataclass
class Census:
    """The account of a source's files.

    Attributes:
        read: files that are what bronze has read; those in `touched` are among them.
        waiting: files that the next run reads: planned in an open batch, or not yet listed.
        hidden: files that are left out because of a name.
        empty: files without a byte, and what is no regular file.
        touched: read files with the recorded size and another time, to be compared with what was read.
        gone: files that bronze has read and that are no longer there.
        faults: everything else.
        accepted: faults that were accepted in exactly this state.
    """

    read: list[str] = field(default_factory=list)
    waiting: list[Found] = field(default_factory=list)
    hidden: list[Found] = field(default_factory=list)
    empty: list[Found] = field(default_factory=list)
    touched: list[Found] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    faults: list[Faulty] = field(default_factory=list)
    accepted: list[Faulty] = field(default_factory=list)


@dataclass(frozen=True)
class CensusInputs:
    """What is known of a source's files beside the files themselves.

    Attributes:
        planned: Spark's list, by path.
        position: the number of the last listing whose files are in bronze, -1 before the first.
        position_now: the same at a later moment, after the files were listed: a run beside may have gone on.
        source: what an empty source is accepted by: its path, and two numbers that change when it is another one;
            None where that is not looked at.
        recorded: what bronze records, by path; None where bronze was not read, and Spark's list stands in for it.
        may_start: whether the next run reads what is new.
        has_lines: tells which files without a row in bronze hold a line; a compressed file can hold none.
        may_read: tells whether this process has the right to read a file.
        accepted: the faults (see `Faulty.key`) whose loss was accepted.
    """

    planned: Mapping[str, PlannedFile]
    position: int
    position_now: int
    recorded: Mapping[str, Recorded] | None
    may_start: bool
    may_read: Callable[[str], bool]
    has_lines: Callable[[list[str]], set[str]] = set
    accepted: frozenset[FaultKey] = frozenset()
    source: tuple[str, int, int] | None = None


def take(found: Iterable[Found], inputs: CensusInputs) -> Census:
    """Put every file into exactly one state."""
    census = Census()
    there: set[str] = set()
    unread: list[Found] = []
    faults: list[Faulty] = []
    hidden: dict[str, Found] = {}
    for each in found:
        if each.hidden:
            hidden[each.path] = each
            continue
        if each.path in there:  # two of the paths that a pattern names lead to it
            continue
        there.add(each.path)
        recorded = _recorded(each.path, inputs)
        if recorded is not None and each.problem in _OF_A_NAME:
            _compare(each, recorded, census, faults)
        elif each.problem is not None:
            faults.append(Faulty(each.path, Fault[each.problem.name], each.size, each.modified))
        elif each.size == 0:
            census.empty.append(each)
        else:
            unread.append(each)
    census.hidden = [each for path, each in hidden.items() if path not in there]
    there |= hidden.keys()
    faults += _unread(unread, inputs, census)
    faults += _gone(there, inputs, census)
    if inputs.source and inputs.recorded and not (census.read or census.waiting or faults):
        faults = [Faulty(inputs.source[0], Fault.SOURCE_EMPTY, *inputs.source[1:])]
    for fault in sorted(faults):
        (census.accepted if fault.key in inputs.accepted else census.faults).append(fault)
    return census


def _recorded(path: str, inputs: CensusInputs) -> Recorded | None:
    """Return what was read of a file; without bronze, what Spark listed and has read, whose size is not known."""
    if inputs.recorded is not None:
        return inputs.recorded.get(path)
    planned = inputs.planned.get(path)
    return Recorded(-1, planned.modified) if planned is not None and planned.number <= inputs.position else None


def _compare(found: Found, recorded: Recorded, census: Census, faults: list[Faulty]) -> None:
    if recorded.size < 0:  # the size is not known: the time alone tells
        if found.modified == recorded.modified:
            census.read.append(found.path)
        else:
            census.touched.append(found)
    elif found.size != recorded.size:
        fault = Fault.GREW if found.size > recorded.size else Fault.SHRANK
        faults.append(Faulty(found.path, fault, found.size, found.modified, recorded.size))
    else:
        census.read.append(found.path)
        if found.modified != recorded.modified:
            census.touched.append(found)


def _unread(unread: list[Found], inputs: CensusInputs, census: Census) -> list[Faulty]:
    """Sort the files that bronze has no row of."""
    faults, passed = [], []
    for each in unread:
        planned = inputs.planned.get(each.path)
        if planned is not None and planned.number <= inputs.position:
            passed.append(each)
        elif planned is not None and planned.number <= inputs.position_now:
            census.waiting.append(each)  # a run beside has read it since; the next proof looks for its rows
        elif not inputs.may_start:
            faults.append(Faulty(each.path, Fault.BLOCKED, each.size, each.modified))
        elif not inputs.may_read(each.path):
            faults.append(Faulty(each.path, Fault.RIGHTS, each.size, each.modified))
        elif planned is not None and planned.modified != each.modified:
            faults.append(Faulty(each.path, Fault.PLAN_CHANGED, each.size, each.modified))
        else:
            census.waiting.append(each)
    held = inputs.has_lines([each.path for each in passed]) if passed else set()
    for each in passed:
        if each.path in held:
            faults.append(Faulty(each.path, Fault.NEVER_READ, each.size, each.modified))
        else:
            census.empty.append(each)
    return faults


def _gone(there: Set[str], inputs: CensusInputs, census: Census) -> list[Faulty]:
    """Sort the files that are no longer there: read before, or planned and still to be read."""
    open_batch = {path for path, planned in inputs.planned.items() if planned.number > inputs.position_now}
    read = inputs.recorded if inputs.recorded is not None else inputs.planned
    census.gone = sorted(path for path in read if path not in there and path not in open_batch)
    gone = (path for path in open_batch if path not in there and path not in (inputs.recorded or ()))
    return [Faulty(path, Fault.GONE) for path in gone if not is_hidden_file(os.fsencode(Path(path).name))]


def said(faulty: Faulty) -> str:
    """Say in one clause what is wrong with a file and what resolves it."""
    name, fault = shown(faulty.path), faulty.fault
    if fault is Fault.GREW:
        grew = f"{name} {fault} from {faulty.was or 0:,} to {count_of(faulty.size, 'byte')} after it was read"
        anew = f"read all files anew: {_REBUILD}; or {_command(faulty, 'accept')}"
        if is_packed(faulty.path):
            return f"{grew}: lines from anywhere in it may be missing; {anew}"
        return f"{grew}: its tail is not in bronze; {anew}; if it is another file: {_command(faulty, 'reread')}"
    if fault is Fault.SHRANK:
        shrank = f"from {faulty.was or 0:,} to {count_of(faulty.size, 'byte')} after it was read"
        return f"{name} {fault} {shrank}: bronze holds what it was; {_other(faulty)}"
    if fault is Fault.CHANGED:
        return f"{name}: {_SAID[fault]}; {_other(faulty)}"
    return f"{name}: {_SAID[fault]}; {_WAY_OUT.get(fault) or f'resolve it: {_command(faulty, _COMMAND[fault])}'}"


def shown(path: str) -> str:
    """Return a file's path for a message, with what is no printable character escaped."""
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in path)


_SAID: Mapping[Fault, str] = {
    Fault.CHANGED: "its lines are no longer those that were read: bronze holds what it was",
    Fault.NEVER_READ: "bronze has no line of it: it was listed by Spark and empty or missing when its batch was read",
    Fault.PLAN_CHANGED: "it changed after its batch was planned: the next run reads it as it is then",
    Fault.GONE: "it was planned for a batch and is gone before it was read",
    Fault.BLOCKED: "it is not in bronze, and bronze would not start",
    Fault.NAME: f"{Problem.NAME}: it is never read",
    Fault.COLON: f"{Problem.COLON}: the run stops at it",
    Fault.LOOP: f"{Problem.LOOP}",
    Fault.DANGLING: f"{Problem.DANGLING}: nothing is read there",
    Fault.RIGHTS: f"{Problem.RIGHTS}: no run reads it",
    Fault.BROKEN: "it is compressed, or has checksums beside it, and cannot be read to its end: the run stops at it",
    Fault.SOURCE_EMPTY: "no file is left here that bronze has read from it: is the right disk mounted?",
    Fault.SOURCE_AWAY: "it cannot be listed, so nothing can be said of what it holds",
}
_COMMAND: Mapping[Fault, str] = {
    Fault.NEVER_READ: "reread",
    Fault.NAME: "reread",
    Fault.COLON: "reread",
    Fault.LOOP: "exclude",
    Fault.DANGLING: "exclude",
    Fault.SOURCE_EMPTY: "accept",
}
_REBUILD = "oncelake rebuild bronze"
_WAY_OUT: Mapping[Fault, str] = {
    Fault.PLAN_CHANGED: "run again",
    Fault.GONE: "put it back, or go on without it: oncelake recover bronze --accept-loss",
    Fault.BLOCKED: "see why with: oncelake doctor",
    Fault.RIGHTS: "give the right to read it",
    Fault.BROKEN: "put a whole one in its place under the same name; take away its .crc file where it has one",
    Fault.SOURCE_AWAY: "mount it, or set source.path",
}


def _other(faulty: Faulty) -> str:
    kept = f"put back what it was, or {_command(faulty, 'accept')}"
    return f"{kept}; if it is another file, whose lines all count: {_command(faulty, 'reread')}"


def _command(faulty: Faulty, verb: str) -> str:
    return f"oncelake census {verb} {shlex.quote(shown(faulty.path))}"


def read_accepted(files: Files, lake: str) -> frozenset[FaultKey]:
    """Return the faults (see `Faulty.key`) whose loss was accepted.

    A record that cannot be read accepts nothing, so its faults show again.
    """
    keys: set[FaultKey] = set()
    for name in files.names(_records(lake)):
        if name.startswith(".") or not name.endswith(".json"):
            continue
        try:
            value = json.loads(files.read(f"{_records(lake)}/{name}") or "{}")
            if value["form"] == _FORM:
                keys |= {
                    (str(each["fault"]), str(each["path"]), int(each["size"]), int(each["modified"]))
                    for each in value["files"]
                }
        except (ValueError, KeyError, TypeError):
            continue
    return frozenset(keys)


def write_accepted(files: Files, lake: str, accepted: Iterable[Faulty], now: datetime) -> str:
    """Record that faults are accepted, by whom and when; return the record's path.

    Raises:
        OSError: the lake cannot be written.
    """
    at = now.astimezone(UTC)
    path = f"{_records(lake)}/{at:%Y%m%dT%H%M%S.%fZ}.json"
    entries = [{**asdict(each), "fault": each.fault.value} for each in accepted]
    value = {"form": _FORM, "at": f"{at:%Y-%m-%d %H:%M:%S} UTC", "by": _by(), "files": entries}
    files.write(path, json.dumps(value, indent=1))
    return path


def _by() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return "unknown"


def _records(lake: str) -> str:
    return f"{lake}/_census"
