"""Model Delta's transactions: a commit is one file, written whole or not at all.

The commit file holds the rows. A write whose txnVersion is not above the recorded one for its
txnAppId is skipped; a RESTORE keeps the recorded transactions; of two writers with one application ID that
run at the same time, the later fails. Source: Delta's documentation and its `OptimisticTransaction`.
"""

import json
from collections import Counter
from functools import cache
from typing import Any

from oncelake.exactly_once.commit import CommitMetadata
from tests.model.process import Process, Texts

Row = list[Any]
Action = dict[str, Any]


class SparkError(Exception):
    """Raised where Spark or Delta would fail a query; such a failure is never silent."""


def log_path(table: str, version: int) -> str:
    return f"{table}/_delta_log/{version:020d}.json"


def newest(texts: Texts, table: str) -> int:
    """Return a table's newest version, -1 if there is no table."""
    version = -1
    while log_path(table, version + 1) in texts:
        version += 1
    return version


@cache
def _parsed(text: str) -> tuple[Action, ...]:
    return tuple(json.loads(line) for line in text.splitlines())


def actions(texts: Texts, table: str, version: int) -> tuple[Action, ...]:
    return _parsed(texts[log_path(table, version)])


def added(texts: Texts, table: str, version: int) -> list[Row]:
    """Return the rows that one commit added."""
    return [row for action in actions(texts, table, version) for row in action.get("add", {}).get("rows", [])]


def removes(texts: Texts, table: str, version: int) -> bool:
    """Return whether a commit removes rows, which fails a stream from the table."""
    return any("remove" in action for action in actions(texts, table, version))


def info(texts: Texts, table: str, version: int) -> dict[str, Any]:
    return next((dict(action["commitInfo"]) for action in actions(texts, table, version) if "commitInfo" in action), {})


def rows(texts: Texts, table: str, version: int | None = None) -> list[Row]:
    """Read a table at a version, the newest by default."""
    found: list[Row] = []
    for each in range((newest(texts, table) if version is None else version) + 1):
        said = info(texts, table, each)
        if said["operation"] == "RESTORE":
            found = rows(texts, table, int(said["operationParameters"]["version"]))
        found = found + added(texts, table, each)
    return found


def notes(texts: Texts, table: str) -> list[CommitMetadata]:
    """Return the chain's metadata in a table's commits, oldest first."""
    said = (info(texts, table, version).get("userMetadata") for version in range(newest(texts, table) + 1))
    return [metadata for metadata in map(CommitMetadata.from_json, said) if metadata is not None]


def table_id(texts: Texts, table: str) -> str | None:
    if newest(texts, table) < 0:
        return None
    return next(str(action["metaData"]["id"]) for action in actions(texts, table, 0) if "metaData" in action)


def make(process: Process, table: str) -> None:
    """Create an empty table unless it exists; a recreated table has another ID."""
    if newest(process.texts, table) >= 0:
        return
    made = f"made/{table}"
    number = int(process.texts.get(made, "0"))
    metadata = {"metaData": {"id": f"{table}#{number}", "configuration": {}}}
    if process.create(log_path(table, 0), _commit("CREATE TABLE", {}, {}, None, [metadata])):
        process.texts[made] = str(number + 1)


def append(process: Process, table: str, new: list[Row], metadata: CommitMetadata, app_id: str | None) -> None:
    """Append rows, unless the application ID has written this version or a later one."""
    metrics = {"numOutputRows": len(new)}
    _transact(
        process, table, _commit("WRITE", {"mode": "Append"}, metrics, metadata, _added(new, metadata, app_id)), metadata
    )


def merge(process: Process, table: str, new: list[Row], metadata: CommitMetadata, app_id: str | None) -> None:
    """Add counts per key to those of the table."""
    held = {row[0] for row in rows(process.texts, table)}
    updated = sum(row[0] in held for row in new)
    metrics = {"numTargetRowsInserted": len(new) - updated, "numTargetRowsUpdated": updated}
    _transact(
        process, table, _commit("MERGE", {}, metrics, metadata, _added(new, metadata, app_id)), metadata, merges=True
    )


def restore(texts: Texts, table: str, version: int) -> None:
    """Restore a table to an older version; users do this, not a process."""
    gone = rows(texts, table) != rows(texts, table, version)
    removed: list[Action] = [{"remove": {"path": "data", "dataChange": True}}] if gone else []
    text = _commit("RESTORE", {"version": str(version)}, {}, None, removed)
    texts[log_path(table, newest(texts, table) + 1)] = text


def maintain(texts: Texts, table: str) -> None:
    """Rewrite files without changing a row, as OPTIMIZE does."""
    rewritten: list[Action] = [{"add": {"path": "data", "dataChange": False}}]
    texts[log_path(table, newest(texts, table) + 1)] = _commit("OPTIMIZE", {}, {}, None, rewritten)


def append_unsaid(process: Process, table: str, new: list[Row], operation: str) -> None:
    """Commit rows with neither a transaction nor metadata, as with confs set on the wrong session."""
    process.step(f"commit to {table}")
    text = _commit(operation, {}, {"numOutputRows": len(new)}, None, [{"add": {"dataChange": True, "rows": new}}])
    process.texts[log_path(table, newest(process.texts, table) + 1)] = text


def _transact(process: Process, table: str, text: str, metadata: CommitMetadata, *, merges: bool = False) -> None:
    process.step(f"begin to write {table}")
    began = newest(process.texts, table)
    app_id = _app_id(text)
    if app_id is not None and _recorded(process.texts, table, app_id) >= metadata.batch_id:
        return
    process.step(f"commit {metadata.batch_id} to {table}")
    if process.following.get(table) not in (None, newest(process.texts, table) + 1):
        raise SparkError(f"VersionTakenError: another driver has committed version {process.following[table]}")
    for version in range(began + 1, newest(process.texts, table) + 1):
        if app_id is not None and app_id == _app_id(process.texts[log_path(table, version)]):
            raise SparkError("ConcurrentTransactionException")
        if merges and added(process.texts, table, version):
            raise SparkError("ConcurrentAppendException")
    process.texts[log_path(table, newest(process.texts, table) + 1)] = text
    if table in process.following:
        process.step(f"hear of the commit to {table}")


def _added(new: list[Row], metadata: CommitMetadata, app_id: str | None) -> list[Action]:
    txn: list[Action] = [{"txn": {"appId": app_id, "version": metadata.batch_id}}] if app_id is not None else []
    return [*txn, *([{"add": {"path": "data", "dataChange": True, "rows": new}}] if new else [])]


def _app_id(text: str) -> str | None:
    return next((str(action["txn"]["appId"]) for action in _parsed(text) if "txn" in action), None)


def _recorded(texts: Texts, table: str, app_id: str) -> int:
    found = (
        action.get("txn") for version in range(newest(texts, table) + 1) for action in actions(texts, table, version)
    )
    return max((int(txn["version"]) for txn in found if txn and txn["appId"] == app_id), default=-1)


def _commit(
    operation: str,
    parameters: dict[str, Any],
    metrics: dict[str, int],
    metadata: CommitMetadata | None,
    others: list[Action],
) -> str:
    said: Action = {
        "timestamp": 1,
        "operation": operation,
        "operationParameters": parameters,
        "operationMetrics": {name: str(value) for name, value in metrics.items()},
    }
    if metadata is not None:
        said["userMetadata"] = metadata.to_json()
    return "\n".join(json.dumps(action, separators=(",", ":")) for action in ({"commitInfo": said}, *others))


def counted(found: list[Row]) -> Counter[int]:
    """Sum a table of counts per key."""
    counts: Counter[int] = Counter()
    for key, count in found:
        counts[key] += count
    return counts
