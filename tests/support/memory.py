"""Keep checkpoints and Delta logs in memory, in the form that Spark and Delta write them."""

import json
import threading
from dataclasses import dataclass, field

from oncelake.exactly_once.batch import BatchCallback
from oncelake.exactly_once.commit import CommitMetadata

QUERY = "11111111-2222-3333-4444-555555555555"


@dataclass
class MemoryFiles:
    """A file system of texts."""

    texts: dict[str, str] = field(default_factory=dict)

    def read(self, path: str) -> str | None:
        return self.texts.get(path)

    def names(self, path: str) -> list[str]:
        inside = (key.removeprefix(f"{path}/") for key in self.texts if key.startswith(f"{path}/"))
        return sorted({name.split("/")[0] for name in inside})

    def is_sound(self, path: str) -> bool:
        del path
        return True

    def write(self, path: str, text: str) -> None:
        self.texts[path] = text

    def move(self, path: str, to: str) -> None:
        for key in self._below(path):
            self.texts[to + key.removeprefix(path)] = self.texts.pop(key)

    def remove(self, path: str) -> None:
        for key in self._below(path):
            del self.texts[key]

    def _below(self, path: str) -> list[str]:
        return [key for key in self.texts if key == path or key.startswith(f"{path}/")]


def offsets(position: object) -> str:
    """Return an offset log's text for a position."""
    return f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":1}}\n{json.dumps(position)}'


def at(version: int, table_id: str = "source-id") -> dict[str, object]:
    """Return the position of a Delta source that has read everything below a version."""
    return {"sourceVersion": 1, "reservoirId": table_id, "reservoirVersion": version, "index": -1}


def checkpoint(files: MemoryFiles, path: str, planned: int, committed: int | None = None, query: str = QUERY) -> None:
    """Write a checkpoint of a query that follows a table: batch N reads up to version N + 1."""
    files.texts[f"{path}/metadata"] = json.dumps({"id": query})
    for batch in range(planned + 1):
        files.texts[f"{path}/offsets/{batch}"] = offsets(at(batch + 1))
    for batch in range((planned if committed is None else committed) + 1):
        files.texts[f"{path}/commits/{batch}"] = "v1\n{}"


def metadata(batch: int, table: str = "silver.access_log", **changed: object) -> CommitMetadata:
    """Return the metadata of a batch of the query that `checkpoint` writes."""
    values = {
        "stage": "silver",
        "table": table,
        "query_id": QUERY,
        "batch_id": batch,
        "before": json.dumps(at(batch)) if batch else None,
        "after": offsets(at(batch + 1)),
        "rows": 10 * batch,
        "rules": "rules",
        "run": "run",
        "source": {"kind": "delta", "table_id": "source-id"},
        "beside": {},
    }
    return CommitMetadata(**{**values, **changed})  # type: ignore[arg-type]


def commit(
    files: MemoryFiles,
    table: str,
    number: int,
    written: CommitMetadata | None = None,
    operation: str = "WRITE",
    **parameters: object,
) -> None:
    """Write a commit file of a table."""
    info = {
        "timestamp": 1_000 + number,
        "operation": operation,
        "operationParameters": parameters,
        "operationMetrics": {"numOutputRows": "10"},
    }
    actions: list[dict[str, object]] = [{"commitInfo": info}]
    if written is not None:
        info["userMetadata"] = written.to_json()
        actions.append({"txn": {"appId": written.app_id, "version": written.txn_version}})
    if number == 0:
        actions.append({"metaData": {"id": f"{table}-id", "configuration": {}}})
    files.texts[f"{table}/_delta_log/{number:020d}.json"] = "\n".join(map(json.dumps, actions)).replace('": ', '":')


def table(files: MemoryFiles, path: str, batches: int) -> None:
    """Write a table that holds batches 0 to `batches - 1`."""
    commit(files, path, 0, operation="CREATE TABLE")
    for batch in range(batches):
        commit(files, path, batch + 1, metadata(batch))


def callback(write: object, **changed: object) -> BatchCallback:
    """Return the callback that Spark calls for a batch of silver, with this work."""
    values: dict[str, object] = {
        "stage": "silver",
        "checkpoint": "ckpt",
        "files": MemoryFiles(),
        "rules": "",
        "run": "",
        "source": {},
        "tables": {},
        "write": write,
        "report": lambda _: None,
        "stopping": threading.Event(),
        "first_position": lambda: None,
    }
    return BatchCallback(**{**values, **changed})  # type: ignore[arg-type]
