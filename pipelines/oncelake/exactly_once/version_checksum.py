"""Write the version checksum of a commit, as Delta's protocol asks of every writer.

With this file, Spark knows the schema, the properties and the protocol of a version at once. Without it, each look at a
new version takes a job. delta-rs does not write it. Source: Delta's PROTOCOL.md, "Version Checksum File".
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import FAILURES, TableFiles

# A checksum is computed from the one of an earlier version, at most this many versions before.
_BACK = 10
# The actions whose newest one is in the checksum, each with its name there.
_REPLACED = {"metaData": "metadata", "protocol": "protocol"}
_EMPTY: Mapping[str, Any] = {"tableSizeBytes": 0, "numFiles": 0}


class VersionChecksums:
    """The version checksums of one table, written beside its commits.

    Args:
        commit_log: the table's log.
        files: the access to its directory.
    """

    def __init__(self, commit_log: DeltaLog, files: TableFiles) -> None:
        self._log = commit_log
        self._files = files
        self._last: tuple[int, Mapping[str, Any]] | None = None

    def write(self, version: int) -> None:
        """Write a committed version's checksum; nothing if it is there, or cannot be computed.

        It is the sum of an earlier checksum and the commits after it. It cannot be computed if no such checksum is
        near, or if a commit uses what small batches never use: deletion vectors, and times of commits in the log.
        """
        with suppress(*FAILURES, ValueError, KeyError, TypeError, AttributeError):  # also a file of any other content
            checksum = self._computed(version)
            if checksum is not None:
                self._files.write_new(self._path(version), json.dumps(checksum, separators=(",", ":")))
                self._last = version, checksum

    def remove(self, first: int, end: int) -> None:
        """Remove the checksums of the versions from `first` up to, not including, `end`: nobody looks at them again."""
        for version in range(max(first, 0), end):
            with suppress(*FAILURES):
                self._files.remove(self._path(version))

    def _computed(self, version: int) -> dict[str, Any] | None:
        base, checksum = self._before(version)
        if base is None and version >= _BACK:
            return None
        result = {name: checksum[name] for name in ("tableSizeBytes", "numFiles")}
        result |= {name: checksum[name] for name in _REPLACED.values() if checksum.get(name)}
        for number in range(0 if base is None else base + 1, version + 1):  # guard: checksum-counts-all-commits
            commit = self._log.text(number)
            if commit is None:
                return None
            for text in commit.split("\n"):
                if text and not _add(json.loads(text), result):
                    return None
        result |= {"numMetadata": 1, "numProtocol": 1}
        return result if "metadata" in result and "protocol" in result else None

    def _before(self, version: int) -> tuple[int | None, Mapping[str, Any]]:
        """Return the last checksum of the versions before one, as it was written here or is in the log."""
        for old in range(version - 1, max(version - 1 - _BACK, -1), -1):
            if self._last is not None and self._last[0] == old:
                return self._last
            text = self._files.read(self._path(old))
            if text is not None:
                return old, dict(json.loads(text))
        return None, _EMPTY

    def _path(self, version: int) -> str:
        return f"{self._log.place}/_delta_log/{version:020}.crc"


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
