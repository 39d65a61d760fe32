"""This is where a table that a stage follows says what it is and what it still holds."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.exactly_once.ledger import Ledger
from pipelines.exactly_once.state import Finding, State


@dataclass(frozen=True)
class DeltaSource:
    """A table of the lake that the next stage reads.

    A position is Delta's own: `reservoirId` is the table's id, `reservoirVersion` the first version that is
    not yet read whole. Source: org.apache.spark.sql.delta.sources.DeltaSourceOffset.
    """

    name: str
    ledger: Ledger

    def identity(self) -> Mapping[str, str]:
        """Give the table's id."""
        return {"kind": "delta", "table_id": self.ledger.table_id() or ""}

    def first_position(self) -> None:
        """Say nothing: a position before the first batch is not recorded."""

    def exhausted(self, at: str) -> bool:
        """Tell whether every version up to the newest was read whole."""
        offset, versions = json.loads(at), self.ledger.versions()
        whole = offset["index"] == -1 and not offset.get("isStartingVersion", False)
        return whole and bool(versions) and int(offset["reservoirVersion"]) > versions[-1]

    def warnings(self) -> list[str]:
        """Say nothing."""
        return []

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Finding | None:  # noqa: ARG002
        """Say when the table was made anew, is older than the position, or lacks the version to go on from."""
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
        return None
