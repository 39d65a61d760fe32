"""A Delta table of the lake as the source of the next stage."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from oncelake.common.wording import listed
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.positions import TablePosition, is_whole, version_of
from oncelake.exactly_once.source import Backlog, Source
from oncelake.exactly_once.state import Diagnosis, State

# At most this many commits are read to count the backlog.
LOOK = 200
# In milliseconds: a position moves past versions without rows that span more. VACUUM keeps the files of seven days.
_STALE_MS = 3 * 24 * 3600 * 1000


@dataclass(frozen=True)
class DeltaSource(Source):
    """A table of the lake that the next stage reads.

    A position is Delta's own: see TablePosition.

    Attributes:
        name: the table's name.
        commit_log: its log.
        changes: whether the stage follows the table's change data feed.
    """

    name: str
    commit_log: DeltaLog
    changes: bool = False

    def first_unread(self, at: TablePosition) -> int | None:
        """Return the first version that nothing is read of; None if a version is read in part.

        Of a version with files of change data, Delta's reader takes all of them in one batch, and its position then
        names the last one. Source: Delta's `DeltaSourceCDCSupport`.
        """
        if at.is_whole:
            return at.version
        # guard: partly-read-version-unread
        is_read = self.changes and not at.in_snapshot and self.commit_log.change_files(at.version) == at.index + 1
        return at.version + 1 if is_read else None  # guard: version-read-with-last-file

    def identity(self) -> Mapping[str, str]:
        """Return the table's ID."""
        return {"kind": "delta", "table_id": self.commit_log.table_id() or ""}

    def exhausted(self, at: str) -> bool:
        """Return True if every version up to the newest is completely read, except those that certainly add no row.

        False if these span days: the query reads past them, before the log or the files at the position go.
        """
        position, newest = TablePosition.parse(at), self.commit_log.newest()
        first = self.first_unread(position) if position is not None else None
        if first is None or newest is None or newest - first >= LOOK:
            return False
        since = None
        for version in range(first, newest + 1):
            commit = self.commit_log.commit(version)
            if commit is None or not commit.adds_nothing:
                return False
            since = commit.timestamp if since is None else since
            if commit.timestamp - since >= _STALE_MS:  # guard: position-passes-empty-versions
                return False
        return True

    def backlog(self, at: str | None, *, changes: bool = False) -> Backlog:
        """Count the rows that were committed after a position; with `changes`, updated rows too."""
        position = TablePosition.parse(at)
        if position is None:
            return Backlog(self.commit_log.state().rows, "rows", _first_change(self.commit_log, 0))
        if position.in_snapshot:  # the position counts files, not rows
            return Backlog(None, "rows")
        first = self.first_unread(position)
        first = position.version if first is None else first
        if changes:
            commits = list(islice(self.commit_log.since(first - 1), LOOK + 1))
            count = (
                None if len(commits) > LOOK else sum(commit.rows_changed for commit in commits if commit.changes_data)
            )
        else:
            before = self.commit_log.rows_before(first, look=LOOK)
            count = None if before is None else self.commit_log.state().rows - before
        return Backlog(count, "rows", _first_change(self.commit_log, first) if count != 0 else None)

    def rows_between(self, start: str | None, end: str | None) -> int | None:
        """Count the rows that the versions between two positions added, from the metrics of their commits."""
        if end is None or not (is_whole(start) and is_whole(end)):
            return None
        rows = 0
        for version in range(version_of(start), version_of(end)):
            commit = self.commit_log.commit(version)
            if commit is None or commit.rewrites:
                return None
            rows += commit.rows_added if commit.changes_data else 0
        return rows

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Diagnosis | None:
        """Return a diagnosis if the table was recreated or changed by others, or lacks the version to continue from."""
        del recorded  # the position itself names the table
        at = TablePosition.parse(start or end)
        if at is None:
            return None
        table_id = self.commit_log.table_id()
        if at.table_id != table_id:  # guard: source-table-id
            seen = f"{self.name} is table {table_id or 'none'}, positions are of table {at.table_id}"
            return Diagnosis(State.SOURCE_REPLACED, seen)
        newest, needed = self.commit_log.newest(), at.version
        if start is None or newest is None:  # an initial snapshot is planned and not yet read
            return None
        if needed > newest + 1:  # guard: source-table-reaches-position
            seen = f"{self.name} ends at version {newest}, but version {needed - 1} was read from it"
            return Diagnosis(State.SOURCE_REPLACED, seen)
        if needed <= newest and self.commit_log.commit(needed) is None:  # guard: source-log-holds-input
            seen = f"versions {needed} to {self.commit_log.versions()[0] - 1} of {self.name} are gone from its log"
            return Diagnosis(State.SOURCE_TRIMMED, seen)
        return self._rewritten(needed)

    # guard: versions-read-again-exist
    def trouble_again(self, before: str | None, start: str | None) -> Diagnosis | None:
        """Return a diagnosis if the log lacks versions of the last batch, and there are rows after it to be read."""
        first, at = TablePosition.parse(before), TablePosition.parse(start)
        if first is None or at is None or start is None or first.in_snapshot:
            return None
        gone = [version for version in range(first.version, at.version) if self.commit_log.commit(version) is None]
        if not gone or self.exhausted(start):
            return None
        seen = f"versions {gone[0]} to {gone[-1]} of {self.name}, which Spark reads again, are gone from its log"
        return Diagnosis(State.SOURCE_TRIMMED, seen)

    def _rewritten(self, version: int) -> Diagnosis | None:  # guard: no-changed-source-rows
        """Return a diagnosis if rows were changed or removed in a version that is still to be read."""
        rewriting = [commit for commit in self.commit_log.since(version - 1) if commit.rewrites]
        if not rewriting:
            return None
        seen = listed(f"{commit.operation} in version {commit.version}" for commit in rewriting)
        restored = max((commit.version for commit in rewriting if commit.operation == "RESTORE"), default=-1)
        # guard: restore-not-undone
        first = next((commit.version for commit in rewriting if commit.version > restored), None)
        undo = self.commit_log.undo(first) if first is not None else None
        return Diagnosis(State.SOURCE_REPLACED, f"{self.name} was changed by {seen}", undo=undo)


def _first_change(commit_log: DeltaLog, version: int) -> int | None:
    """Return when the first rows from a version on were committed, in milliseconds; None if not found."""
    commits = islice(commit_log.since(version - 1), LOOK)
    return next((commit.timestamp for commit in commits if commit.changes_data), None)
