"""This is where it is said what a commit carries beside its rows.

Every commit of the chain names, in Delta's userMetadata, the batch it is and the range of the source it
covers. So the table alone tells where its stage stands, and a batch that comes back can be compared with
what was written. The range is in the checkpoint's own words: the text of `offsets/<batch id>`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Self

from oncelake.common.errors import StateError
from oncelake.exactly_once.checkpoint import position
from oncelake.exactly_once.files import lines_of
from oncelake.exactly_once.positions import same_position

VERSION = 3
# What earlier forms did not have; each has the value that every commit of that form means.
_ADDED: Mapping[int, frozenset[str]] = {
    1: frozenset({"event", "lost", "quality", "replay"}),
    2: frozenset({"quality", "replay"}),
}


class CommitKind(StrEnum):
    """What a commit of the chain is.

    `recovery` carries the position forward under a new query id, without rows.
    `loss` moves the position over a part of the source that is gone, and is a batch like any other.
    `replay` carries the position forward too, and moves rows from a stage's second table to its first.
    """

    BATCH = "batch"
    RECOVERY = "recovery"
    LOSS = "loss"
    REPLAY = "replay"


@dataclass(frozen=True)
class CommitMetadata:
    """What a commit of the chain says of itself, in Delta's userMetadata.

    Attributes:
        stage: the stage's name, as `gold.error_log`.
        table: the table's name, as `gold.error_log`.
        query_id: the streaming query's id, from its checkpoint.
        batch_id: the query's batch.
        before: the source's position before the batch, None for the first batch of a table or directory.
        after: the whole text of `offsets/<batch id>`.
        rows: rows that the stage had in this table before this batch.
        rules: what the rows were made by, as a short hash; a batch that two tables share is made by one.
        run: which start of the program wrote it; tells two instances apart, never compared with data.
        source: what the source is, as its kind and id; a source that was replaced is told by it.
        beside: the stage's other tables, each with the last batch that wrote to it before this one.
        event: what the commit is; a batch of rows, unless it says otherwise.
        lost: the parts of the source that a `loss` moves over, in words.
        quality: of a batch that has rows which broke a rule or a limit: how many `lines` it has, how many broke each
            of the `rules`, and which limits it `warned` of.
        replay: of a replay, and of recoveries that follow it: its `id`, the `version` that the stage's first table had
            before it, and the `reasons` that were asked for, none for all.
    """

    stage: str
    table: str
    query_id: str
    batch_id: int
    before: str | None
    after: str
    rows: int
    rules: str
    run: str
    source: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, int | None] = field(default_factory=dict)
    event: CommitKind = CommitKind.BATCH
    lost: Sequence[str] = ()
    quality: Mapping[str, Any] = field(default_factory=dict)
    replay: Mapping[str, Any] = field(default_factory=dict)

    @property
    def app_id(self) -> str:
        """Delta's txnAppId: one per stage, table and query id.

        Two writes to one table under one id in one batch would lose the second, so a replay has its own.
        """
        return f"oncelake/{self.stage}/{self.table}/{'replay' if self.event is CommitKind.REPLAY else self.query_id}"

    @property
    def txn_version(self) -> int:
        """Delta's txnVersion: the batch; of a replay, which is none, a version that only grows."""
        return int(self.replay["version"]) if self.event is CommitKind.REPLAY else self.batch_id

    @property
    def carries(self) -> bool:
        """Whether it carries the last batch's position on, and covers nothing of the source itself."""
        return self.event in (CommitKind.RECOVERY, CommitKind.REPLAY)

    @property
    def end(self) -> str | None:
        """The source's position after the batch."""
        return position(self.after)

    @property
    def planned_ms(self) -> int:
        """When the batch was planned, in milliseconds: `ingested_at` of the rows of a bronze batch."""
        return int(json.loads(lines_of(self.after)[1])["batchTimestampMs"])

    @property
    def planned(self) -> datetime:
        """When the batch was planned."""
        return datetime.fromtimestamp(self.planned_ms / 1000, UTC)

    def covers_same(self, other: Self) -> bool:
        """Tell whether two commits are about the same range of the same query's source."""
        return (
            self.query_id == other.query_id
            and self.batch_id == other.batch_id
            and same_position(self.before, other.before)
            and same_position(self.end, other.end)
        )

    def to_json(self) -> str:
        """Write it as userMetadata."""
        return json.dumps({"oncelake": VERSION, **asdict(self)}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> Self | None:
        """Read userMetadata; None when the commit is not the chain's.

        Raises:
            StateError: the commit is the chain's, in a form that this version does not know.
        """
        try:
            value = json.loads(text) if text else None
        except ValueError:
            return None
        if not isinstance(value, dict) or "oncelake" not in value:
            return None
        version = value.pop("oncelake")
        known = version == VERSION or version in _ADDED
        if not known or value.keys() | _ADDED.get(version, frozenset()) != _FIELDS:
            raise StateError(
                f"a commit of {value.get('table')} was written by another version of oncelake (form {version}, "
                f"this one reads up to {VERSION}); go on with the version that wrote it"
            )
        return cls(
            **{**value, "event": CommitKind(value.get("event", CommitKind.BATCH)), "lost": tuple(value.get("lost", ()))}
        )


_FIELDS = frozenset(CommitMetadata.__dataclass_fields__)
