"""The Delta log of a table: the batches that the table holds, and the source position that they reach.

The commit files are read as text, newest first, and only as far back as needed. So the cost is the same for a table
of ten and of ten thousand commits. Delta's own reader would rebuild the table's state first.
Source: the Delta protocol, "Delta Log Entries" and "Version Checksum File".
"""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol
from urllib.parse import unquote

from oncelake.common.lake import opened_by_delta_rs, restoring
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.files import Files, lines_of

# Operations that remove rows that were in the table before.
_REPLACING = ("CREATE OR REPLACE TABLE", "REPLACE TABLE", "CLONE", "TRUNCATE")
# What the operations of maintenance begin with; they change no row.
MAINTENANCE = ("OPTIMIZE", "VACUUM", "REORG")
_WITHOUT_ROWS = (*MAINTENANCE, "SET TBLPROPERTIES", "UNSET TBLPROPERTIES")
# Maintenance whose files are marked as new data is among them: Delta's stream would read all of its rows again.
_CHANGING = ("DELETE", "UPDATE", "MERGE", *MAINTENANCE)
_FILES = ('{"add"', '{"remove"')
# The table's metadata is looked for in this many of the newest commits, before delta-rs is asked.
LOOK_BACK = 200
# The names of the files of a checkpoint: one file, one of several parts, or one of Delta's second kind.
CHECKPOINT = re.compile(r"(?P<version>\d{20})\.checkpoint(\.\d+\.(?P<parts>\d+)|\.[^.]+)?\.(parquet|json)")
# delta-rs' names of the metrics that Spark's writer names otherwise.
_DELTA_RS = {
    "num_added_rows": "numOutputRows",
    "num_target_rows_inserted": "numTargetRowsInserted",
    "num_target_rows_updated": "numTargetRowsUpdated",
    "num_target_rows_deleted": "numTargetRowsDeleted",
    "num_target_rows_copied": "numTargetRowsCopied",
}


@dataclass(frozen=True)
class Commit:
    """One commit: its operation and transactions; a commit of the chain is a `ChainCommit`.

    Attributes:
        metadata: the commit metadata of the chain; None for a commit of any other writer.
        changes_data: whether it adds or removes rows; maintenance such as OPTIMIZE rewrites files and does neither.
    """

    version: int
    operation: str
    parameters: dict[str, Any]
    metrics: dict[str, str]
    timestamp: int
    metadata: CommitMetadata | None
    txns: dict[str, int] = field(default_factory=dict)
    changes_data: bool = False

    def metric(self, name: str) -> int:
        """Return one of Delta's operation metrics; 0 if the commit lacks it."""
        return int(self.metrics.get(name, 0))

    @property
    def rows_added(self) -> int:
        """The rows that the commit added to the table; for a MERGE, inserted minus deleted rows."""
        if self.operation != "MERGE":
            return self.metric("numOutputRows")
        return self.metric("numTargetRowsInserted") - self.metric("numTargetRowsDeleted")

    @property
    def lines_added(self) -> int:
        """The lines that the added rows come from, as the commit recorded them; a line can be several rows."""
        return self.rows_added if self.metadata is None else self.metadata.lines.get("added", self.rows_added)

    @property
    def rows_changed(self) -> int:
        """The rows that the commit added to the table or updated there."""
        return self.rows_added + (self.metric("numTargetRowsUpdated") if self.operation == "MERGE" else 0)

    @property
    def rewrites(self) -> bool:
        """Return True if a commit of another writer changed or removed existing rows; an append only adds rows."""
        return self.metadata is None and (self.takes_away or (self.changes_data and self.operation in _CHANGING))

    @property
    def at(self) -> str:
        """When it was committed, in UTC."""
        return f"{datetime.fromtimestamp(self.timestamp / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"

    @property
    def statement(self) -> str:
        """Its operation with version and time, for a message about another writer."""
        return f"{self.operation} in version {self.version}, {self.at}"

    @property
    def adds_nothing(self) -> bool:
        """Return True for maintenance, a change of properties, and a batch without rows; Delta's readers skip them."""
        return not self.changes_data and (self.metadata is not None or self.operation.startswith(_WITHOUT_ROWS))

    @property
    def takes_away(self) -> bool:  # guard: removals-by-others-known
        """Return True if the commit removed rows of earlier commits: all of them, or those after an older version."""
        overwrite = self.parameters.get("mode") == "Overwrite"
        # guard: replacing-clone-removed-rows
        return overwrite or self.operation == "RESTORE" or self.operation.startswith(_REPLACING)


@dataclass(frozen=True)
class ChainCommit(Commit):
    """A commit of the chain, which always has metadata."""

    metadata: CommitMetadata

    @property
    def is_first(self) -> bool:
        """Return True if the commit put the chain's table in the place of another one, whose batches do not count."""
        return self.takes_away

    @property
    def rows_in_all(self) -> int:
        """The rows that the chain added to the table, up to and including this commit."""
        return self.metadata.rows + self.rows_added

    @property
    def lines_in_all(self) -> int:
        """The lines that the chain's rows in the table come from, up to and including this commit."""
        return self.metadata.lines_before + self.lines_added


@dataclass(frozen=True)
class TableState:
    """The state of a table, according to its Delta log.

    Attributes:
        last: the chain's newest commit whose rows are still in the table; None without one.
        undone: the operation that removed later batches of the chain; None without one.
        previous: the chain's commit before `last` whose rows are still in the table; None if the log has none.
        newest: the chain's newest commit in the log. Delta keeps its transaction even after a RESTORE removed
            its rows, and skips a write with that batch ID or a lower one.
        strange: the evidence that a table without any commit of the chain holds, or may have held, rows: a copy of a
            table has its rows and not its commits, and a cleaned-up log no longer has old ones. None without evidence.
        changed: the newest commit of another writer after `last` that changed rows; None without one.
    """

    last: ChainCommit | None = None
    undone: str | None = None
    newest: ChainCommit | None = None
    previous: ChainCommit | None = None
    strange: str | None = None
    changed: Commit | None = None

    @property
    def metadata(self) -> CommitMetadata | None:
        """The metadata of the last commit."""
        return self.last.metadata if self.last else None

    @property
    def batch_id(self) -> int | None:
        """The last batch in the table; None without one."""
        return self.last.metadata.batch_id if self.last else None

    @property
    def end(self) -> str | None:
        """The source's position after the last batch in the table."""
        return self.last.metadata.end if self.last else None

    @property
    def rows(self) -> int:
        """The rows that the chain added to the table, up to and including its last commit."""
        return self.last.rows_in_all if self.last else 0

    @property
    def lines(self) -> int:
        """The lines that these rows come from."""
        return self.last.lines_in_all if self.last else 0

    @property
    def totals(self) -> dict[str, Any]:
        """The rows and lines before the next commit, as its metadata records them."""
        return {"rows": self.rows, "lines": {"before": self.lines} if self.lines != self.rows else {}}


class CommitLog(Protocol):
    """A record of the batches that a table holds: the log of a Delta table, or a row in a table next to it."""

    def state(self) -> TableState:
        """Return the state of the table."""

    def newest_first(self) -> Iterator[tuple[Commit, bool]]:
        """Yield the commits, newest first, each with whether its rows are still in the table."""

    def first_position(self) -> str | None:
        """Return the source's position before batch 0; None if it is not recorded any more."""


class DeltaLog:
    """The log of a Delta table, read as text.

    Attributes:
        place: the table's path, or its name in a catalog.
    """

    def __init__(self, files: Files, table_path: str) -> None:
        self._files = files
        self.place = table_path
        self._log = f"{table_path}/_delta_log"
        self._last_read: tuple[int, str] | None = None

    def versions(self) -> list[int]:
        """Return the versions whose commit files still exist, oldest first; empty without a table."""
        matches = (re.fullmatch(r"(\d{20})\.json", name) for name in self._files.names(self._log))
        return sorted(int(match.group(1)) for match in matches if match)

    def newest(self) -> int | None:
        """Return the newest version; None without a table."""
        return max(self.versions(), default=None)

    def whole_names(self) -> list[str]:
        """Return the names in the log directory, without those of partly written files."""
        return [name for name in self._files.names(self._log) if not name.startswith(".")]

    def metadata(self) -> Mapping[str, Any] | None:
        """Return the table's metadata (`id`, `configuration`, `schemaString`); None without a table.

        Spark repeats it in a file beside each commit, delta-rs does not. So after many commits by delta-rs, delta-rs
        finds it in a checkpoint.
        """
        for number, version in enumerate(reversed(self.versions())):
            metadata = self._checksum(version).get("metadata")
            with suppress(ValueError):
                actions = [] if metadata else _actions(self._text(version) or "")
                metadata = metadata or next((action["metaData"] for action in actions if "metaData" in action), None)
            if metadata is None and number == LOOK_BACK:
                metadata = _metadata_in_checkpoint(self.place)
            if metadata is not None:
                return dict(metadata)
        return _metadata_in_checkpoint(self.place) if self.versions() else None

    def columns(self) -> list[str]:
        """Return the names of the table's columns; none without a table."""
        schema = (self.metadata() or {}).get("schemaString", '{"fields": []}')
        return [field["name"] for field in json.loads(schema)["fields"]]

    def properties(self) -> Mapping[str, str]:
        """Return the table's properties; empty without a table."""
        return dict((self.metadata() or {}).get("configuration", {}))

    def table_id(self) -> str | None:
        """Return the ID that Delta gave the table when it was created; None without a table."""
        metadata = self.metadata()
        return str(metadata["id"]) if metadata else None

    def commit(self, version: int) -> Commit | None:
        """Read one commit; None if the version does not exist, or its file was cleaned up or cannot be read."""
        text = self._text(version)
        if text is None:
            return None
        try:
            actions = _actions(text)
        except ValueError:
            return None
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        txns = {action["txn"]["appId"]: int(action["txn"]["version"]) for action in actions if "txn" in action}
        metadata = CommitMetadata.from_json(info.get("userMetadata"))
        kind: type[Commit] = ChainCommit if metadata else Commit
        return kind(
            version=version,
            operation=str(info.get("operation", "")),
            parameters=info.get("operationParameters", {}),
            metrics={_DELTA_RS.get(name, name): str(n) for name, n in info.get("operationMetrics", {}).items()},
            timestamp=int(info.get("timestamp", 0)),
            metadata=metadata,
            txns=txns,
            changes_data=any(line.startswith(_FILES) and '"dataChange":true' in line for line in lines_of(text)),
        )

    def since(self, version: int) -> Iterator[Commit]:
        """Yield the commits after a version, oldest first; without those that the log's clean-up has removed."""
        commit = self.commit(version + 1)
        # guard: commits-after-cleanup-read
        if commit is None and version >= 0 and self.commit(version) is None:
            # clean-up removes the oldest, and never the newest
            version = next((number for number in self.versions() if number > version), version + 1) - 1
            commit = self.commit(version + 1)
        while commit is not None:
            yield commit
            version += 1
            commit = self.commit(version + 1)

    def state(self) -> TableState:
        """Return the state of the table: the chain's last commits, with those that a RESTORE removed left out."""
        undone: str | None = None
        changed: Commit | None = None
        newest: ChainCommit | None = None
        last: ChainCommit | None = None
        for commit, stands in self.newest_first():
            if isinstance(commit, ChainCommit):
                newest = newest or commit
                if stands and last is not None:
                    return TableState(last, undone, newest, previous=commit, changed=changed)
                last = commit if stands else last
            elif stands and last is None and commit.takes_away:
                undone = f"{commit.operation} in version {commit.version}"
            elif stands and last is None and commit.changes_data:
                changed = changed or commit
        return TableState(last, undone, newest, strange=self.strange() if newest is None else None, changed=changed)

    def strange(self) -> str | None:
        """Return a sign that a table without any commit of the chain has, or had, rows; None if there is no sign."""
        versions = self.versions()
        if not versions:
            cut = any(map(CHECKPOINT.fullmatch, self.whole_names()))
            return "its log has no commit file any more" if cut else None  # guard: log-has-commit-files
        if versions[0] > 0:
            # guard: log-reaches-beginning
            return f"its log begins at version {versions[0]}, and no batch of this chain is left in it"
        writing = (version for version in versions if any(map(_is_add, lines_of(self._text(version) or ""))))
        return next(map(self._unexplained, writing), None)

    def _unexplained(self, version: int) -> str:
        commit = self.commit(version)
        operation = commit.operation if commit else "unknown"
        return f"version {version} ({operation}) holds rows that no batch of this chain wrote"

    def newest_first(self) -> Iterator[tuple[Commit, bool]]:
        """Yield the commits, newest first, each with whether its rows are still there: no later commit removed them.

        A commit of the chain that put the table in the place of another one is the last.
        """
        below: int | None = None
        for commit in self._descending():
            version = commit.version
            stands = below is None or version < below
            yield commit, stands
            if stands and isinstance(commit, ChainCommit) and commit.is_first:  # guard: table-begins-at-replacement
                return
            if stands and commit.metadata is None and commit.takes_away:
                below = self._restored_to(commit) + 1 if commit.operation == "RESTORE" else 0

    def rows_before(self, version: int, *, look: int | None = None) -> int | None:
        """Return how many rows the chain had added to the table before a version, from the totals in its commits.

        Args:
            version: the first version that does not count.
            look: how many commits to read at most to get past maintenance; None for all.

        Returns:
            None if the log no longer holds the answer, or it is further back than `look`.
        """
        oldest = max(version - look, 0) if look is not None else 0
        is_known, commit = self._last_before(version, oldest)
        if commit is not None:
            return commit.rows_in_all
        return 0 if is_known and not oldest else None

    def lines_up_to(self, version: int) -> int:
        """Return the lines that the chain's rows in the table come from, before a version.

        If the log no longer holds the answer, return those before the oldest of its commits.
        """
        is_known, commit = self._last_before(version)
        if is_known:
            return commit.lines_in_all if commit is not None else 0
        oldest = min(self.versions(), default=0)
        first = next((candidate for candidate in self.since(oldest - 1) if isinstance(candidate, ChainCommit)), None)
        return first.metadata.lines_before if first else 0

    def _last_before(self, version: int, oldest: int = 0) -> tuple[bool, ChainCommit | None]:
        """Return the chain's last commit in the versions from one up to another; False if the log lacks one of them."""
        for number in range(version - 1, oldest - 1, -1):
            commit = self.commit(number)
            if commit is None or isinstance(commit, ChainCommit):
                return commit is not None, commit
        return True, None

    def holds(self, version: int) -> bool:
        """Return True if a version can be read: its commits are there, back to a checkpoint or to the first one."""
        versions = self.versions()
        if not versions or not 0 <= version <= versions[-1]:
            return False
        points = (int(name[:20]) for name in self.whole_names() if CHECKPOINT.fullmatch(name))
        return versions[0] == 0 or any(versions[0] - 1 <= point <= version for point in points)

    def undo(self, version: int) -> str | None:
        """Return the statement that undoes a commit of another writer, and all after it; None if none can.

        None also if a batch of the chain is after it, which the statement would remove.
        """
        by_others = all(commit.metadata is None for commit in self.since(version - 1))
        can = by_others and self.holds(version - 1) and self._has_files_removed_from(version)  # guard: restore-can-work
        return restoring(self.place, version - 1) if can else None

    def _has_files_removed_from(self, version: int) -> bool:
        """Return True if no data file is gone that a commit has removed since a version: VACUUM deletes them."""
        newest = self.newest()
        texts = (self._text(number) or "" for number in range(version, (version if newest is None else newest) + 1))
        changes = (change for text in texts for change in _file_changes(text))
        removed = [unquote(path).rpartition("/") for path, added in changes if not added]
        names_in = {folder: set(self._files.names(f"{self.place}/{folder}".rstrip("/"))) for folder, _, _ in removed}
        return all(name in names_in[folder] for folder, _, name in removed)

    def last_alike(self, version: int) -> int:
        """Return the last version with the same rows as this one: only maintenance and empty batches are between."""
        while (commit := self.commit(version + 1)) is not None and commit.adds_nothing:
            version += 1
        return version

    def only_appends(self, *, most: int) -> bool:
        """Return True if the table was created empty and then got nothing but appends of the chain, few in number.

        Args:
            most: the number of commits from which the table has too many.
        """
        versions = self.versions()
        if not versions or versions[0] or len(versions) > most:
            return False
        first, *others = map(self.commit, versions)
        is_empty = first is not None and first.operation == "CREATE TABLE" and not first.changes_data
        return is_empty and all(isinstance(other, ChainCommit) and other.operation == "WRITE" for other in others)

    def files_added(self, version: int) -> list[str]:
        """Return the paths of the data files that a version added, as the log spells them."""
        return [path for path, added in _file_changes(self._text(version) or "") if added]

    def change_files(self, version: int) -> int | None:
        """Return how many files of change data a version has; None if its commit file is gone."""
        text = self._text(version)
        return None if text is None else sum(line.startswith('{"cdc"') for line in lines_of(text))

    def first_position(self) -> str | None:
        """Return the source's position before batch 0; None if its commit is no longer in the log."""
        commits = map(self.commit, self.versions()[:3])
        known = (commit.metadata for commit in commits if commit and commit.metadata)
        return next((metadata.before for metadata in known if metadata.batch_id == 0), None)

    def added(self, version: int) -> list[dict[str, Any]] | None:
        """Return a version's `add` actions that change data; None if its commit file is gone."""
        text = self._text(version)
        if text is None:
            return None
        lines = (line for line in lines_of(text) if _is_add(line) and '"dataChange":true' in line)
        return [json.loads(line)["add"] for line in lines]

    def _descending(self) -> Iterator[Commit]:
        """Yield the commits, newest first, down to the first that is missing."""
        for version in reversed(self.versions()):
            commit = self.commit(version)
            if commit is None:
                return
            yield commit

    def _restored_to(self, commit: Commit) -> int:
        """Return the version that a RESTORE restored; -1 if the log no longer shows it."""
        version = str(commit.parameters.get("version"))
        return int(version) if version.isdigit() else self._version_with_files_of(commit.version)

    def _version_with_files_of(self, version: int) -> int:
        """Return the earlier version with the same data files; a RESTORE to a time does not name it. -1 if unknown."""
        live: set[str] = set()
        seen: dict[int, int] = {}
        state = 0
        for number in range(version + 1):
            text = self._text(number)
            if text is None:
                return -1
            for path, added in _file_changes(text):
                if added != (path in live):
                    state ^= hash(path)
                    live ^= {path}
            if number == version:
                return seen.get(state, -1)
            seen[state] = number
        return -1

    def _checksum(self, version: int) -> dict[str, Any]:
        """Read a version's checksum file, which repeats the metadata; empty if it is missing or incomplete."""
        try:
            return dict(json.loads(self._files.read(f"{self._log}/{version:020d}.crc") or "{}"))
        except ValueError:
            return {}

    def text(self, version: int) -> str | None:
        """Return the text of a commit as it was last read, if no other one was read since; otherwise read it."""
        last = self._last_read
        return last[1] if last is not None and last[0] == version else self._text(version)

    def _text(self, version: int) -> str | None:
        """Return the text of a commit; None if its file is gone, or empty or cut, so that no reader can read it."""
        text = self._files.read(f"{self._log}/{version:020d}.json")
        if text is None or not text[-4:].rstrip().endswith("}"):
            return None
        self._last_read = version, text
        return text


def _metadata_in_checkpoint(path: str) -> Mapping[str, Any] | None:
    """Return a table's metadata as delta-rs reads it; None if it cannot."""
    table = opened_by_delta_rs(path)
    if table is None:
        return None
    metadata = table.metadata()
    schema = table.schema().to_json()
    return {"id": str(metadata.id), "configuration": dict(metadata.configuration), "schemaString": schema}


def _actions(text: str) -> list[dict[str, Any]]:
    """Parse a commit's actions, except the files that it adds or removes, which can be thousands."""
    prefixes = ('{"commitInfo"', '{"txn"', '{"metaData"')
    return [json.loads(line) for line in lines_of(text) if line.startswith(prefixes)]


def _is_add(line: str) -> bool:
    return line.startswith('{"add"')


def _file_changes(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the data files that a commit adds (True) or removes (False), in the order of the commit."""
    for line in lines_of(text):
        if line.startswith(_FILES):
            ((kind, action),) = json.loads(line).items()
            yield action["path"], kind == "add"
