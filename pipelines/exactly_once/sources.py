"""This is where a source says what it is and what it still holds: a Delta table, a topic, a directory."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from pipelines.exactly_once.files import Files
from pipelines.exactly_once.ledger import Ledger
from pipelines.exactly_once.state import Finding, State
from pipelines.lake import is_local


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


@dataclass(frozen=True)
class FilesSource:
    """A directory of log files. A position is the number of the batch in Spark's log of files seen."""

    path: str
    files: Files
    checkpoint: str

    def identity(self) -> Mapping[str, str]:
        """Give the directory."""
        return {"kind": "files", "path": self.path}

    def first_position(self) -> None:
        """Say nothing: a position before the first batch is not recorded."""

    def exhausted(self, at: str) -> bool:  # noqa: ARG002
        """Leave it to the query, which lists the directory anyway."""
        return False

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Finding | None:  # noqa: ARG002
        """Say when it is another source than before, or a file is gone that a planned batch still needs."""
        if recorded and dict(recorded) != dict(self.identity()):
            was = recorded.get("path") or f"topic {recorded.get('topic')}"
            return Finding(State.SOURCE_REPLACED, f"lines were taken from {was}, the source is now {self.path}")
        if end is None:
            return None
        gone = [path for path in self.listed(int(json.loads(end)["logOffset"])) if _is_gone(path)]
        if gone:
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            return Finding(State.SOURCE_TRIMMED, f"the planned batch needs {gone[0]}{more}, which is no longer there")
        return None

    def listed(self, batch_id: int) -> list[str]:
        """Give the files that Spark's own log lists for a batch, as URIs."""
        return [path for path, batch in self._seen_in(str(batch_id)) if batch == batch_id]

    def unread(self, at: str | None) -> int | None:
        """Count the files that are there and not yet in bronze; None where only Spark can list them.

        Args:
            at: the position up to which bronze holds the files' lines, None before the first batch.
        """
        if not is_local(self.path) or not Path(self.path).exists():
            return None
        last = int(json.loads(at)["logOffset"]) if at else -1
        names = self.files.names(f"{self.checkpoint}/sources/0")
        seen = {_local(path) for name in names for path, batch in self._seen_in(name) if batch <= last}
        return sum(1 for path in _files_below(Path(self.path)) if path not in seen)

    def _seen_in(self, name: str) -> list[tuple[str, int]]:
        if not name.removesuffix(".compact").isdigit():
            return []
        text = self.files.read(f"{self.checkpoint}/sources/0/{name}") or ""
        entries = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return [(entry["path"], int(entry["batchId"])) for entry in entries]


def _is_gone(uri: str) -> bool:
    """Tell whether a file on this machine is gone; other stores are asked by Spark when it reads."""
    return urlparse(uri).scheme == "file" and not Path(_local(uri)).exists()


def _local(uri: str) -> str:
    return unquote(urlparse(uri).path)


def _files_below(root: Path) -> Iterator[str]:
    """Give the files that Spark reads below a directory: those whose names start with neither _ nor a dot."""
    for parent, directories, names in os.walk(root):
        directories[:] = [name for name in directories if not name.startswith(("_", "."))]
        yield from (os.path.join(parent, name) for name in names if not name.startswith(("_", ".")))  # noqa: PTH118


@dataclass(frozen=True)
class Topic:
    """What a broker says of a topic now: its id, and per partition the oldest and the next offset."""

    topic_id: str
    earliest: Mapping[str, int]
    latest: Mapping[str, int]


@dataclass(frozen=True)
class KafkaSource:
    """A Kafka topic. A position is the next offset of each partition."""

    topic: str
    describe: Callable[[], Topic]
    files: Files
    checkpoint: str

    def identity(self) -> Mapping[str, str]:
        """Give the topic's name and id; Kafka gives a topic that is made anew another id."""
        return {"kind": "kafka", "topic": self.topic, "topic_id": self.describe().topic_id}

    def first_position(self) -> str | None:
        """Give the offsets that the query found at its first start, from Spark's own record of them."""
        text = self.files.read(f"{self.checkpoint}/sources/0/0")
        return text.splitlines()[-1] if text else None

    def exhausted(self, at: str) -> bool:
        """Tell whether every partition was read up to its end."""
        read: dict[str, int] = json.loads(at).get(self.topic, {})
        return read == dict(self.describe().latest)

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Finding | None:
        """Say when the topic was made anew, ends before the position, or no longer holds it."""
        now = self.describe()
        was = recorded.get("topic_id") if recorded.get("kind", "kafka") == "kafka" else recorded.get("path")
        if was and was != now.topic_id:
            return Finding(
                State.SOURCE_REPLACED, f"topic {self.topic} has id {now.topic_id}, lines were taken from {was}"
            )
        at = json.loads(start or "{}")
        if at and set(at) != {self.topic}:
            return Finding(State.SOURCE_REPLACED, f"positions are of topic {', '.join(at)}, the source is {self.topic}")
        offsets: dict[str, int] = at.get(self.topic, {})
        planned: dict[str, int] = json.loads(end or "{}").get(self.topic, {})
        return self._beyond({**offsets, **planned}, now) or self._trimmed(offsets, now)

    def _beyond(self, offsets: Mapping[str, int], now: Topic) -> Finding | None:
        for partition, offset in offsets.items():
            if partition not in now.latest:
                return Finding(State.SOURCE_REPLACED, f"partition {partition} of {self.topic} is gone")
            if offset > now.latest[partition]:
                seen = f"{self.topic}/{partition} ends at {now.latest[partition]}, the stage has read up to {offset}"
                return Finding(State.SOURCE_REPLACED, seen)
        return None

    def _trimmed(self, offsets: Mapping[str, int], now: Topic) -> Finding | None:
        gone = [
            f"{self.topic}/{partition}/{offset} to {now.earliest[partition] - 1}"
            for partition, offset in offsets.items()
            if offset < now.earliest[partition]
        ]
        return Finding(State.SOURCE_TRIMMED, f"offsets {', '.join(gone)} are gone") if gone else None
