"""The record of accepted faults: files whose lines are missing or changed, and which a proof names but allows."""

import getpass
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from oncelake.common.wording import count_of, listed, shown_path
from oncelake.exactly_once.files import Files
from oncelake.exactly_once.link import Uncompared
from oncelake.sources.directory.census import RENAMED, SET_ASIDE, Census, FaultKey, Faulty

# The format version of the acceptance records.
_FORM = 1


def read_accepted(files: Files, lake: str) -> frozenset[FaultKey]:
    """Return the faults (see `Faulty.key`) whose loss was accepted.

    A record that cannot be read accepts nothing, so its faults are shown again.
    """
    keys: set[FaultKey] = set()
    for name in files.names(_records(lake)):
        if name.startswith(".") or not name.endswith(".json"):  # guard: half-written-acceptance-ignored
            continue
        try:
            value = json.loads(files.read(f"{_records(lake)}/{name}") or "{}")
            if value["form"] == _FORM:  # guard: acceptance-form-known
                keys |= {
                    (str(entry["fault"]), str(entry["path"]), int(entry["size"]), int(entry["modified"]))
                    for entry in value["files"]
                }
        except (ValueError, KeyError, TypeError):  # guard: unreadable-acceptance-ignored
            continue
    return frozenset(keys)


def renamed_states(accepted: Iterable[FaultKey]) -> dict[str, set[tuple[int, int]]]:
    """Return the sizes and times with which files were recognized as renamed, by path, of the accepted faults."""
    states: dict[str, set[tuple[int, int]]] = {}
    for fault, path, size, modified in accepted:
        if fault == RENAMED:
            states.setdefault(path, set()).add((size, modified))
    return states


def write_accepted(files: Files, lake: str, accepted: Iterable[Faulty], now: datetime) -> str:
    """Record the acceptance of faults, with user and time; return the record's path.

    Raises:
        OSError: the lake cannot be written.
    """
    return _record(files, lake, [{**asdict(faulty), "fault": faulty.fault.value} for faulty in accepted], now)


def write_renamed(files: Files, lake: str, paths: Iterable[str], now: datetime) -> str:
    """Record that bronze has read files under a name that is gone; return the record's path.

    The record holds as long as size and time of a file stay the same.

    Raises:
        OSError: a file is gone, or the lake cannot be written.
    """
    states = {path: Path(path).stat() for path in paths}
    entries = [
        {"path": path, "fault": RENAMED, "size": at.st_size, "modified": at.st_mtime_ns // 1_000_000}
        for path, at in states.items()
    ]
    return _record(files, lake, entries, now)


def _record(files: Files, lake: str, entries: list[dict[str, object]], now: datetime) -> str:
    at = now.astimezone(UTC)
    path = f"{_records(lake)}/{at:%Y%m%dT%H%M%S.%fZ}.json"
    value = {"form": _FORM, "at": f"{at:%Y-%m-%d %H:%M:%S} UTC", "by": _by(), "files": entries}
    files.write(path, json.dumps(value, indent=1))
    return path


def _by() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user ID without a name
        return "unknown"


def _records(lake: str) -> str:
    return f"{lake}/_census"


def accepted_note(census: Census) -> tuple[str, ...]:
    """Return a note that names the faults that were accepted, if there are any."""
    states = listed(f"{shown_path(fault.path)} ({fault.fault})" for fault in census.accepted)
    note = f"{count_of(len(census.accepted), 'fault was', 'faults were')} accepted: {states}"
    return (note,) if census.accepted else ()


def accepted_files(census: Census) -> Iterator[Uncompared]:
    """Yield the files that were accepted although lines of them are missing, or are not those that bronze holds."""
    aside = sum(faulty.fault in SET_ASIDE for faulty in census.accepted)
    others = len(census.accepted) - aside
    if aside:
        yield Uncompared(aside, count_of(aside, "file that was set aside", "files that were set aside"))
    if others:
        yield Uncompared(
            others, count_of(others, "file that was accepted at fault", "files that were accepted at fault")
        )
