"""This is where a table that a stage follows says what it is and what it still holds."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.exactly_once.finding import Finding, State
from pipelines.exactly_once.ledger import Ledger
from pipelines.exactly_once.source import Source


@dataclass(frozen=True)
class DeltaSource(Source):
    """A table of the lake that the next stage reads.

    A position is Delta's own: `reservoirId` is the table's id, `reservoirVersion` the first version that is
    not yet read whole. Source: org.apache.spark.sql.delta.sources.DeltaSourceOffset.
    """

    name: str
    ledger: Ledger

    def identity(self) -> Mapping[str, str]:
        """Give the table's id."""
        return {"kind": "delta", "table_id": self.ledger.table_id() or ""}

    def exhausted(self, at: str) -> bool:
        """Tell whether every version up to the newest was read whole."""
        next_version, versions = _whole_version(at), self.ledger.versions()
        return next_version is not None and bool(versions) and next_version > versions[-1]

    def rows_between(self, start: str | None, end: str | None) -> int | None:
        """Count the rows that the versions between two positions added, from what their commits say."""
        first, last = _whole_version(start) if start else 0, _whole_version(end)
        if first is None or last is None:
            return None
        rows = 0
        for version in range(first, last):
            commit = self.ledger.commit(version)
            if commit is None or commit.rewrites:
                return None
            rows += commit.rows_added if commit.changes_data else 0
        return rows

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Finding | None:
        """Say when the table was made anew or changed by hand, or lacks the version to go on from."""
        del recorded  # the position itself names the table
        at = json.loads(start or end or "null")
        if at is None:
            return None
        found = self.ledger.table_id()
        if at["reservoirId"] != found:
            seen = f"{self.name} is table {found or 'none'}, positions are of table {at['reservoirId']}"
            return Finding(State.SOURCE_REPLACED, seen)
        versions, needed = self.ledger.versions(), int(at["reservoirVersion"])
        if start is None:  # an initial snapshot that was planned, not yet read
            return None
        if needed > versions[-1] + 1:
            seen = f"{self.name} ends at version {versions[-1]}, version {needed - 1} was read from it"
            return Finding(State.SOURCE_REPLACED, seen)
        if needed < versions[0]:
            seen = f"versions {needed} to {versions[0] - 1} of {self.name} are gone from its log"
            return Finding(State.SOURCE_TRIMMED, seen)
        return self._rewritten(needed)

    def _rewritten(self, version: int) -> Finding | None:
        """Say when rows were changed or taken away in a version that is yet to be read."""
        for commit in self.ledger.since(version - 1):
            if commit.rewrites:
                seen = f"{self.name} was changed by {commit.operation} in version {commit.version}"
                return Finding(State.SOURCE_REPLACED, seen)
        return None


def _whole_version(at: str | None) -> int | None:
    """Give the first version that a position has not read; None when it is within a version or a snapshot."""
    offset = json.loads(at or "{}")
    whole = offset.get("index") == -1 and not offset.get("isStartingVersion", False)
    return int(offset["reservoirVersion"]) if whole else None
