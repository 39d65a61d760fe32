"""Commit metadata: what each commit of the chain records in Delta's userMetadata.

Each commit records its batch and the range of the source that the batch covers. So the table alone is enough to
find the stage's position, and to compare a replayed batch with what was written. The range is stored as Spark
spells it in the checkpoint: the text of `offsets/<batch id>`.
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

VERSION = 5
# Fields that earlier forms did not have. Their default value is what every commit of those forms means.
_ADDED: Mapping[int, frozenset[str]] = {
    1: frozenset({"event", "lost", "quality", "replay", "deduplicated", "lines"}),
    2: frozenset({"quality", "replay", "deduplicated", "lines"}),
    3: frozenset({"deduplicated", "lines"}),
    4: frozenset({"lines"}),
}


class CommitKind(StrEnum):
    """The kind of a commit of the chain.

    `batch` holds the rows of a batch.
    `recovery` repeats the last position under a new query ID, without rows.
    `loss` moves the position past a part of the source that is gone; it counts as a batch.
    `topics` moves the position without reading: topics leave it, or join it; it counts as a batch.
    `replay` repeats the last position, and moves rows from a stage's second table to its first.
    """

    BATCH = "batch"
    RECOVERY = "recovery"
    LOSS = "loss"
    TOPICS = "topics"
    REPLAY = "replay"


@dataclass(frozen=True)
class CommitMetadata:
    """The metadata of one commit of the chain, stored in Delta's userMetadata.

    Attributes:
        stage: the stage's name, such as `gold.error_log`.
        table: the table's name, such as `gold.error_log`.
        query_id: the streaming query's ID, from its checkpoint.
        batch_id: the query's batch.
        before: the source's position before the batch; None for the first batch of a table or directory.
        after: the whole text of `offsets/<batch id>`.
        rows: the rows that the stage had written to this table before this batch.
        rules: a short hash of the rules that made the rows; both tables of a batch have the same rules.
        run: the process start that wrote the commit; separates two instances, never compared with data.
        source: the source's kind and ID; a replaced source is detected by it. Of your own query: see `batch_input`.
        beside: the stage's other tables, each with the last batch before this one that wrote to it.
        event: the kind of the commit; by default a batch of rows.
        lost: the parts of the source that a `loss` skips, as text.
        quality: for a batch with rows that broke a rule or a limit: its number of `lines`, the number that broke
            each of the `rules`, and the limits it `warned` of; per column, the lines with a text that was `not_utf8`.
        replay: for a replay, and for recoveries that follow it: its `id`, the `version` of the stage's first table
            before it, and the requested `reasons`, empty for all.
        deduplicated: for a batch of silver whose repeats were dropped: the `version` of silver that its lines were
            compared with, and the number of lines that were `dropped`.
        lines: if a line can be several rows: the lines of the rows that the stage had written `before` this batch, and
            those of the rows `added`; a missing number is that of the rows.
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
    deduplicated: Mapping[str, int] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def lines_before(self) -> int:
        """The lines that the rows before this batch come from."""
        return self.lines.get("before", self.rows)

    @property
    def app_id(self) -> str:
        """Delta's txnAppId: one per stage, table and query ID.

        Delta would skip the second of two writes to one table with the same ID and version, so a replay has its own ID.
        """
        # guard: application-id-parts
        return f"oncelake/{self.stage}/{self.table}/{'replay' if self.event is CommitKind.REPLAY else self.query_id}"

    @property
    def txn_version(self) -> int:
        """Delta's txnVersion: the batch ID; for a replay, which is not a batch, a table version, which only grows."""
        return int(self.replay["version"]) if self.event is CommitKind.REPLAY else self.batch_id

    @property
    def carries(self) -> bool:
        """Return True if the commit repeats the last batch's position and covers no range of the source."""
        return self.event in (CommitKind.RECOVERY, CommitKind.REPLAY)

    @property
    def end(self) -> str | None:
        """The source's position after the batch."""
        return position(self.after)

    @property
    def planned_ms(self) -> int:
        """The time when the batch was planned, in milliseconds: `ingested_at` of the rows of a bronze batch."""
        return int(json.loads(lines_of(self.after)[1])["batchTimestampMs"])

    @property
    def planned(self) -> datetime:
        """The time when the batch was planned, in UTC."""
        return datetime.fromtimestamp(self.planned_ms / 1000, UTC)

    def covers_same(self, other: Self) -> bool:
        """Return True if both commits are the same batch of the same query, over the same range of the source."""
        return (
            self.query_id == other.query_id  # guard: same-range-query
            and self.batch_id == other.batch_id
            and same_position(self.before, other.before)  # guard: same-range-begin
            and same_position(self.end, other.end)  # guard: same-range-end
        )

    def to_json(self) -> str:
        """Return the metadata as userMetadata text, in the oldest form that holds it."""
        values = {"oncelake": VERSION, **asdict(self)}
        for name in ("lines", "deduplicated"):
            if getattr(self, name):
                break
            del values[name]
            values["oncelake"] -= 1
        return json.dumps(values, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | None) -> Self | None:
        """Parse userMetadata; None if the commit is not the chain's.

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
            raise StateError(  # guard: commit-form-known
                f"a commit of {value.get('table')} was written by another version of oncelake (form {version}, "
                f"this one reads up to {VERSION}); use the version that wrote it"
            )
        return cls(
            **{**value, "event": CommitKind(value.get("event", CommitKind.BATCH)), "lost": tuple(value.get("lost", ()))}
        )


_FIELDS = frozenset(CommitMetadata.__dataclass_fields__)
