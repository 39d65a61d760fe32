"""Write the version checksum of a commit, as Delta's protocol asks of every writer.

With this file, Spark knows the schema, the properties and the protocol of a version at once. Without it, each look at a
new version takes a job. delta-rs does not write it. Source: Delta's PROTOCOL.md, "Version Checksum File".
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

# A checksum is computed from the one of an earlier version, at most this many versions before.
_BACK = 10
# The actions whose newest one is in the checksum, each with its name there.
_REPLACED = {"metaData": "metadata", "protocol": "protocol"}
_EMPTY: Mapping[str, Any] = {"tableSizeBytes": 0, "numFiles": 0}


def write_checksum(log: Path, version: int) -> None:
    """Write a committed version's checksum into a table's log; nothing if it is there, or cannot be computed.

    It is the sum of an earlier checksum and the commits after it. It cannot be computed if no such checksum is near,
    or if a commit uses what small batches never use: deletion vectors, and times of commits in the log.
    """
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # also a file of any other content
        checksum = _computed(log, version)
        if checksum is not None:
            _put(_path(log, version), json.dumps(checksum, separators=(",", ":")))


def remove_checksums(log: Path, first: int, end: int) -> None:
    """Remove the checksums of the versions from `first` up to, not including, `end`: nobody looks at them again."""
    for version in range(max(first, 0), end):
        with suppress(OSError):
            _path(log, version).unlink()


def _computed(log: Path, version: int) -> dict[str, Any] | None:
    base = next((old for old in range(version - 1, version - 1 - _BACK, -1) if _path(log, old).exists()), None)
    if base is None and version >= _BACK:
        return None
    checksum = dict(json.loads(_path(log, base).read_text(encoding="utf-8")) if base is not None else _EMPTY)
    result = {name: checksum[name] for name in ("tableSizeBytes", "numFiles")}
    result |= {name: checksum[name] for name in _REPLACED.values() if checksum.get(name)}
    for number in range(0 if base is None else base + 1, version + 1):  # guard: checksum-counts-all-commits
        for text in (log / f"{number:020}.json").read_text(encoding="utf-8").split("\n"):
            if text and not _add(json.loads(text), result):
                return None
    result |= {"numMetadata": 1, "numProtocol": 1}
    return result if "metadata" in result and "protocol" in result else None


def _add(action: Mapping[str, Any], result: dict[str, Any]) -> bool:
    """Add an action of a commit; return False if it is one that cannot be added."""
    ((kind, value),) = action.items()
    if kind in ("add", "remove") and not value.get("deletionVector"):
        sign = 1 if kind == "add" else -1
        result["tableSizeBytes"] += sign * value["size"]
        result["numFiles"] += sign
        return True
    if kind in _REPLACED:
        result[_REPLACED[kind]] = value
        return True
    return kind in ("txn", "cdc") or (kind == "commitInfo" and value.get("inCommitTimestamp") is None)


def _put(path: Path, text: str) -> None:
    """Write a whole file, unless it exists."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text, encoding="utf-8")
    try:
        path.hardlink_to(partial)
    finally:
        partial.unlink()


def _path(log: Path, version: int) -> Path:
    return log / f"{version:020}.crc"
