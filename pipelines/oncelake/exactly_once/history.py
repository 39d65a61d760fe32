"""The log of a catalog table, read with DESCRIBE HISTORY instead of from files.

A catalog such as Unity Catalog gives no access to a table's directory, so SQL replaces what DeltaLog reads from the
commit files. The history has each commit's operation, metrics and userMetadata. It has neither the transactions nor
the files of a commit. The transaction is taken from the commit metadata: the writer sets both together.
Source: Delta's documentation, "Retrieve Delta table history".
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from oncelake.common import tables
from oncelake.common.wording import count_of
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit, Commit, DeltaLog

# The first query asks for this many of the newest commits; it asks for more if they do not reach the known ones.
FIRST = 32
# Operations that change rows, if their metrics show that they wrote any.
_WRITING = ("WRITE", "MERGE", "DELETE", "UPDATE", "TRUNCATE", "RESTORE", "STREAMING UPDATE")
_WROTE = (
    "numOutputRows",
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsDeleted",
    "numDeletedRows",
    "numUpdatedRows",
    "numRestoredFiles",
    "numRemovedFiles",
)


class DeltaHistory(DeltaLog):
    """A table's log, read from its catalog.

    Commits are cached, as a commit does not change; the cache is dropped when the table was recreated. Each method
    sends its own query. `at_one_moment` reads the newest commits and the table's detail only once.
    """

    def __init__(self, spark: SparkSession, name: str, *, at_one_moment: bool = False) -> None:
        self._spark = spark
        self.place = name
        self._look_once = at_one_moment
        self._looked = False
        self._described: Row | None = None
        self._known: dict[int, Commit] = {}
        self._to_the_end = False

    def versions(self) -> list[int]:
        """Return the versions that the history still has, oldest first; empty without a table."""
        self._look()
        if self._known and not self._to_the_end:
            self._look_to_the_end()
        return sorted(self._known)

    def newest(self) -> int | None:
        """Return the newest version; None without a table."""
        self._look()
        return max(self._known, default=None)

    def change_files(self, version: int) -> int | None:  # guard: catalog-version-last-file
        """Return how many files of change data a MERGE wrote, by its metrics; None if the commit is gone."""
        commit = self.commit(version)
        return None if commit is None else commit.metric("numTargetChangeFilesAdded")

    def metadata(self) -> Mapping[str, Any] | None:
        """Return the table's metadata (`id`, `configuration`, `schemaString`); None without a table."""
        detail = self._detail()
        if detail is None:
            return None
        schema = tables.read(self._spark, self.place).schema.json()
        return {"id": detail["id"], "configuration": dict(detail["properties"]), "schemaString": schema}

    def table_id(self) -> str | None:
        """Return the ID that Delta gave the table when it was created; None without a table."""
        detail = self._detail()
        return str(detail["id"]) if detail else None

    def commit(self, version: int) -> Commit | None:
        """Read one commit; None if the version does not exist or the history no longer has it."""
        if version > max(self._known, default=-1):
            self._look()
        if self._known and 0 <= version < min(self._known) and not self._to_the_end:
            self._look_to_the_end()
        return self._known.get(version)

    def since(self, version: int) -> Iterator[Commit]:
        """Read the commits after a version, oldest first; without those that the history no longer has."""
        self._look()
        while (version := version + 1) <= max(self._known, default=-1):
            commit = self.commit(version)
            if commit is not None:
                yield commit

    def strange(self) -> str | None:
        """Return a sign that a table without any commit of the chain has, or had, rows; None if there is no sign."""
        versions = self.versions()
        if versions and versions[0] > 0:
            return f"its history begins at version {versions[0]}, and no batch of this chain is left in it"
        writing = next((version for version in versions if self._known[version].changes_data), None)
        if writing is not None:
            return self._unexplained(writing)
        detail = self._detail() if versions else None
        return (
            f"it holds {count_of(detail['numFiles'], 'file')} that no batch of this chain wrote"
            if detail and detail["numFiles"]
            else None
        )

    def holds(self, version: int) -> bool:
        """Return True if the history lists a version: Delta removes old commits only up to a checkpoint."""
        return version in self.versions()

    def _has_files_removed_from(self, version: int) -> bool:
        """Return True: the history does not name files; RESTORE itself names one that is gone."""
        return True

    def files_added(self, version: int) -> list[str]:
        """Raise NotImplementedError: the history does not name files."""
        raise NotImplementedError(f"the history of {self.place} does not name the files of version {version}")

    def added(self, version: int) -> list[dict[str, Any]] | None:
        """Return None: the history does not name files."""
        return None

    def _descending(self) -> Iterator[Commit]:
        self._look()
        version = max(self._known, default=-1)
        while (commit := self.commit(version)) is not None:
            yield commit
            version -= 1

    def _version_with_files_of(self, version: int) -> int:
        """Return the version that a RESTORE to a time restored: the last one committed up to that time; -1 if none."""
        text = str(self._known[version].parameters.get("timestamp"))
        try:
            until = datetime.fromisoformat(text)
        except ValueError:
            return -1
        ms = int((until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp() * 1000)
        return max(
            (number for number in self.versions() if number < version and self._known[number].timestamp <= ms),
            default=-1,
        )

    def _look(self) -> None:
        """Query the newest commits, enough to connect with the known ones."""
        if self._look_once and self._looked:
            return
        self._looked = True
        if not tables.has_table(self._spark, self.place):
            self._known, self._to_the_end = {}, False
            return
        limit, commits = FIRST, self._newest_commits(FIRST)
        while len(commits) == limit and self._known and max(self._known) < min(commits) - 1:
            limit *= 4
            commits = self._newest_commits(limit)
        same = all(commits.get(version, commit) == commit for version, commit in self._known.items())
        if not same or max(commits) < max(self._known, default=-1):  # the table was recreated
            self._known, self._to_the_end = {}, False
        self._to_the_end = self._to_the_end or len(commits) < limit
        self._known.update(commits)

    def _look_to_the_end(self) -> None:
        self._known, self._to_the_end = self._newest_commits(None), True

    def _newest_commits(self, limit: int | None) -> dict[int, Commit]:
        """Query the newest commits; all of them if there is no limit."""
        table = tables.opened(self._spark, self.place)
        rows = (table.history(limit) if limit else table.history()).withColumn("at", F.unix_millis("timestamp"))
        return {commit.version: commit for commit in map(_commit, rows.collect())}

    def _detail(self) -> Row | None:
        if self._look_once and self._described is not None:
            return self._described
        exists = tables.has_table(self._spark, self.place)
        self._described = tables.opened(self._spark, self.place).detail().first() if exists else None
        return self._described


def _commit(row: Row) -> Commit:
    metrics = dict(row["operationMetrics"] or {})
    metadata = CommitMetadata.from_json(row["userMetadata"])
    writes = row["operation"].startswith(_WRITING) or row["operation"].endswith("AS SELECT")
    kind: type[Commit] = ChainCommit if metadata else Commit
    return kind(
        version=int(row["version"]),
        operation=row["operation"],
        parameters=dict(row["operationParameters"] or {}),
        metrics=metrics,
        timestamp=int(row["at"]),
        metadata=metadata,
        txns={metadata.app_id: metadata.txn_version} if metadata else {},
        changes_data=writes and any(int(metrics.get(name, 0)) for name in _WROTE),
    )
