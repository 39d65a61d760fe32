"""Keep which faults of a source were accepted: files of `<lake.root>/_census`, one for each time that somebody did.

An acceptance is bound to the fault and to the state that the file was in. When the file changes again, or something
else is wrong with it, that is a new fault.
"""

import getpass
import json
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime

from oncelake.exactly_once.census import FaultKey, Faulty
from oncelake.exactly_once.files import Files

FORM = 1


def read_accepted(files: Files, lake: str) -> frozenset[FaultKey]:
    """Return the faults (see `Faulty.key`) whose loss was accepted.

    A record that cannot be read accepts nothing, so its faults show again.
    """
    keys: set[FaultKey] = set()
    for name in files.names(_directory(lake)):
        if name.startswith(".") or not name.endswith(".json"):
            continue
        try:
            value = json.loads(files.read(f"{_directory(lake)}/{name}") or "{}")
            if value["form"] == FORM:
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
    path = f"{_directory(lake)}/{at:%Y%m%dT%H%M%S.%fZ}.json"
    entries = [{**asdict(each), "fault": each.fault.value} for each in accepted]
    value = {"form": FORM, "at": f"{at:%Y-%m-%d %H:%M:%S} UTC", "by": _user(), "files": entries}
    files.write(path, json.dumps(value, indent=1))
    return path


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        return "unknown"


def _directory(lake: str) -> str:
    return f"{lake}/_census"
