"""This is where a Delta table's own log is read: which batches it holds, and up to where.

The commit files are read as text, newest first, and reading ends at the first commit of the chain, so it
costs the same on a table of ten and of ten thousand commits. Delta's own reader would rebuild the
table's state first. Source: the Delta protocol, "Delta Log Entries" and "Version Checksum File".
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.files import Files, lines_of

# Operations after which what was in the table before is no longer all there.
_REPLACING = ("CREATE OR REPLACE TABLE", "REPLACE TABLE", "CLONE", "TRUNCATE")
_CHANGING = ("DELETE", "UPDATE", "MERGE")
_FILES = ('{"add"', '{"remove"')


@dataclass(frozen=True)
class Commit:
    """One commit file: what wrote it, and the transactions in it; a commit of the chain is a `ChainCommit`.

    Attributes:
        metadata: what a commit of the chain says of itself, None for somebody else's.
        changes_data: whether it adds or removes rows; maintenance such as OPTIMIZE rewrites files and does not.
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
        """Give one of Delta's operation metrics, 0 where it has none."""
        return int(self.metrics.get(name, 0))

    @property
    def rows_added(self) -> int:
        """Rows that the commit put into the table: appended, or by a MERGE inserted less those that it took out."""
        if self.operation != "MERGE":
            return self.metric("numOutputRows")
        return self.metric("numTargetRowsInserted") - self.metric("numTargetRowsDeleted")

    @property
    def rows_changed(self) -> int:
        """Rows that the commit put into the table or updated there."""
        return self.rows_added + (self.metric("numTargetRowsUpdated") if self.operation == "MERGE" else 0)

    @property
    def rewrites(self) -> bool:
        """Whether somebody else's commit changed or took away rows that were there; an append only adds."""
        return self.metadata is None and (self.takes_away or (self.changes_data and self.operation in _CHANGING))

    @property
    def takes_away(self) -> bool:
        """Whether the commit took the rows of earlier commits away, as a whole or back to an older version."""
        overwrite = self.parameters.get("mode") == "Overwrite"
        return overwrite or self.operation == "RESTORE" or self.operation.startswith(_REPLACING)


@dataclass(frozen=True)
class ChainCommit(Commit):
    """A commit of the chain, which always has metadata."""

    metadata: CommitMetadata

    @property
    def rows_in_all(self) -> int:
        """Rows that the chain put into the table, up to and with this commit."""
        return self.metadata.rows + self.rows_added


@dataclass(frozen=True)
class TableState:
    """The state of a table, by its log.

    Attributes:
        last: the chain's newest commit that is still in the table's data, None when there is none.
        undone: the operation that took later batches of the chain away, None when none did.
        previous: the chain's commit before `last` that is still in the data, None when there is none in the log.
        newest: the chain's newest commit in the log. Delta keeps its transaction even when a RESTORE took
            its rows away, and skips a write of that batch id or a lower one.
        strange: what tells that a table without any commit of the chain holds, or held, rows: a copy of a table has
            its rows and not its commits, and a log that was cleaned up does not tell. None when it never had one.
    """

    last: ChainCommit | None = None
    undone: str | None = None
    newest: ChainCommit | None = None
    previous: ChainCommit | None = None
    strange: str | None = None

    @property
    def metadata(self) -> CommitMetadata | None:
        """The last commit's metadata."""
        return self.last.metadata if self.last else None

    @property
    def batch_id(self) -> int | None:
        """The last batch in the table, None when there is none."""
        return self.last.metadata.batch_id if self.last else None

    @property
    def end(self) -> str | None:
        """The source's position after the last batch in the table."""
        return self.last.metadata.end if self.last else None

    @property
    def rows(self) -> int:
        """Rows that the chain put into the table, up to and with its last commit."""
        return self.last.rows_in_all if self.last else 0


class CommitLog(Protocol):
    """Where it is written which batches a table holds: a Delta table's log, or a row beside the table itself."""

    def state(self) -> TableState:
        """Find the chain's last commit that is still in the table's data."""

    def newest_first(self) -> Iterator[tuple[Commit, bool]]:
        """Read the commits, newest first, each with whether its rows are still there."""

    def first_position(self) -> str | None:
        """Give the source's position before batch 0, as far as it is still written."""


class DeltaLog:
    """A Delta table's log, as text."""

    def __init__(self, files: Files, table_path: str) -> None:
        self._files = files
        self._log = f"{table_path}/_delta_log"

    def versions(self) -> list[int]:
        """Give the versions whose commit files are still there, oldest first; none when there is no table."""
        found = (re.fullmatch(r"(\d{20})\.json", name) for name in self._files.names(self._log))
        return sorted(int(match.group(1)) for match in found if match)

    def newest(self) -> int | None:
        """Give the newest version; None when there is no table."""
        return max(self.versions(), default=None)

    def whole_names(self) -> list[str]:
        """Give the names in the log directory that are no half-written file's."""
        return [name for name in self._files.names(self._log) if not name.startswith(".")]

    def metadata(self) -> Mapping[str, Any] | None:
        """Give the table's metadata (`id`, `configuration`, `schemaString`); None when there is no table."""
        for version in reversed(self.versions()):
            found = self._checksum(version).get("metadata") or next(
                (action["metaData"] for action in _actions(self._text(version) or "") if "metaData" in action), None
            )
            if found is not None:
                return dict(found)
        return None

    def properties(self) -> Mapping[str, str]:
        """Give the table's properties; none when there is no table."""
        return dict((self.metadata() or {}).get("configuration", {}))

    def table_id(self) -> str | None:
        """Give the id that Delta gave the table when it was made; None when there is no table."""
        metadata = self.metadata()
        return str(metadata["id"]) if metadata else None

    def commit(self, version: int) -> Commit | None:
        """Read one commit; None when there is no such version, or its file was cleaned up."""
        text = self._text(version)
        if text is None:
            return None
        actions = _actions(text)
        info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
        txns = {action["txn"]["appId"]: int(action["txn"]["version"]) for action in actions if "txn" in action}
        metadata = CommitMetadata.from_json(info.get("userMetadata"))
        kind: type[Commit] = ChainCommit if metadata else Commit
        return kind(
            version=version,
            operation=str(info.get("operation", "")),
            parameters=info.get("operationParameters", {}),
            metrics=info.get("operationMetrics", {}),
            timestamp=int(info.get("timestamp", 0)),
            metadata=metadata,
            txns=txns,
            changes_data=any(line.startswith(_FILES) and '"dataChange":true' in line for line in lines_of(text)),
        )

    def since(self, version: int) -> Iterator[Commit]:
        """Read the commits after a version, oldest first."""
        while (commit := self.commit(version + 1)) is not None:
            yield commit
            version += 1

    def state(self) -> TableState:
        """Find the chain's last commit that is still in the table's data, looking past a RESTORE."""
        undone: str | None = None
        newest: ChainCommit | None = None
        last: ChainCommit | None = None
        for commit, stands in self.newest_first():
            if isinstance(commit, ChainCommit):
                newest = newest or commit
                if stands and last is not None:
                    return TableState(last, undone, newest, previous=commit)
                last = commit if stands else last
            elif stands and last is None and commit.takes_away:
                undone = f"{commit.operation} in version {commit.version}"
        return TableState(last, undone, newest, strange=self.strange() if newest is None else None)

    def strange(self) -> str | None:
        """Return what tells that a table without any commit of the chain holds, or held, rows; None when nothing."""
        versions = self.versions()
        if not versions:
            cut = any(".checkpoint" in name for name in self.whole_names())
            return "its log has no commit file any more" if cut else None
        if versions[0] > 0:
            return f"its log begins at version {versions[0]}, and no batch of this chain is left in it"
        writing = (each for each in versions if any(map(_is_add, lines_of(self._text(each) or ""))))
        return next(map(self._unexplained, writing), None)

    def _unexplained(self, version: int) -> str:
        commit = self.commit(version)
        operation = commit.operation if commit else "unknown"
        return f"version {version} ({operation}) holds rows that no batch of this chain wrote"

    def newest_first(self) -> Iterator[tuple[Commit, bool]]:
        """Read the commits, newest first, each with whether its rows are still there or a later one took them away."""
        below: int | None = None
        for commit in self._descending():
            version = commit.version
            stands = below is None or version < below
            yield commit, stands
            if stands and commit.metadata is None and commit.takes_away:
                below = self._restored_to(commit) + 1 if commit.operation == "RESTORE" else 0

    def rows_before(self, version: int, *, look: int | None = None) -> int | None:
        """Give how many rows the chain had put into the table before a version, by the totals in its commits.

        Args:
            version: the first version that does not count.
            look: how many commits are read at most past maintenance, None for all.

        Returns:
            None when the log no longer tells.
        """
        oldest = max(version - look, 0) if look is not None else 0
        for each in range(version - 1, oldest - 1, -1):
            commit = self.commit(each)
            if commit is None:
                return None
            if isinstance(commit, ChainCommit):
                return commit.rows_in_all
        return None if oldest else 0

    def files_added(self, version: int) -> list[str]:
        """Give the paths of the data files that a version added, as the log spells them."""
        return [path for path, added in _file_changes(self._text(version) or "") if added]

    def first_position(self) -> str | None:
        """Give the source's position before batch 0, as far as a commit of it is still in the log."""
        commits = map(self.commit, self.versions()[:3])
        known = (commit.metadata for commit in commits if commit and commit.metadata)
        return next((metadata.before for metadata in known if metadata.batch_id == 0), None)

    def added(self, version: int) -> list[dict[str, Any]] | None:
        """Give Delta's `add` actions of a version that changed data; None where the log does not tell."""
        text = self._text(version)
        if text is None:
            return None
        lines = (line for line in lines_of(text) if _is_add(line) and '"dataChange":true' in line)
        return [json.loads(line)["add"] for line in lines]

    def _descending(self) -> Iterator[Commit]:
        """Read the commits, newest first, down to the first that is gone."""
        for version in reversed(self.versions()):
            commit = self.commit(version)
            if commit is None:
                return
            yield commit

    def _restored_to(self, commit: Commit) -> int:
        """Give the version that a RESTORE went back to; -1 when the log no longer tells."""
        version = str(commit.parameters.get("version"))
        return int(version) if version.isdigit() else self._version_with_files_of(commit.version)

    def _version_with_files_of(self, version: int) -> int:
        """Find the version before with the same data files: a RESTORE that was given a time does not name it."""
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
        """Read a version's checksum file, which repeats the metadata; it may be missing or cut short."""
        try:
            return dict(json.loads(self._files.read(f"{self._log}/{version:020d}.crc") or "{}"))
        except ValueError:
            return {}

    def _text(self, version: int) -> str | None:
        return self._files.read(f"{self._log}/{version:020d}.json")


def _actions(text: str) -> list[dict[str, Any]]:
    """Read a commit's actions but the files it adds or removes, which can be thousands."""
    wanted = ('{"commitInfo"', '{"txn"', '{"metaData"')
    return [json.loads(line) for line in lines_of(text) if line.startswith(wanted)]


def _is_add(line: str) -> bool:
    return line.startswith('{"add"')


def _file_changes(text: str) -> Iterator[tuple[str, bool]]:
    """Give the data files that a commit adds (True) or removes (False), in its order."""
    for line in lines_of(text):
        if line.startswith(_FILES):
            ((kind, action),) = json.loads(line).items()
            yield action["path"], kind == "add"
