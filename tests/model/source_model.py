"""Model sources: a topic, a directory, and a table that the next stage reads.

Each gives Spark positions and rows, in the positions' own forms, and fails where Spark's real one does.
Their contents are in the texts too, so that a crash, a copy and a comparison include them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from oncelake.common.lake import BRONZE
from oncelake.sources.kafka.source import LastRecords, Topic
from tests.model import delta_model as delta
from tests.model.delta_model import Row, SparkError
from tests.model.process import Process, Texts

TOPIC, DIRECTORY, TAKEN, MORE = "input/topic", "input/directory", "input/lots", "input/more"
NAME = "alog"
# the numbers that arrive, in this order: odd ones go to quarantine, and the second lot has none
LOTS = ((0, 1, 2), (4, 6), (3, 8, 5), (7,), (10, 12, 9))


class Input(Protocol):
    """A source as Spark calls it."""

    def latest(self, start: str | None) -> str | None:
        """Return the end position of the next batch, None if the source is empty."""

    def rows(self, start: str | None, end: str, at: int) -> list[Row]:
        """Read a batch."""


def produced(texts: Texts) -> list[int]:
    """Return all that was ever put into the source."""
    numbers = [number for lot in LOTS[: lots(texts)] for number in lot]
    return [*numbers, *json.loads(texts.get(MORE, "[]"))]


def lots(texts: Texts) -> int:
    """Count the lots that were put into the source."""
    return int(texts.get(TAKEN, "0"))


def produce(texts: Texts, kind: str) -> None:
    """Put the next lot into the source: odd and even numbers into a partition each, or all as one file."""
    new = LOTS[lots(texts)]
    texts[TAKEN] = str(lots(texts) + 1)
    if kind == "kafka":
        topic = json.loads(texts.get(TOPIC) or new_topic("topic 0"))
        for number in new:
            topic["rows"][str(number % 2)].append(number)
        texts[TOPIC] = json.dumps(topic)
    else:
        held = json.loads(texts.get(DIRECTORY, "{}"))
        texts[DIRECTORY] = json.dumps({**held, f"file:///model/{new[0]}.log": new})


def new_topic(topic_id: str) -> str:
    return json.dumps({"id": topic_id, "earliest": {"0": 0, "1": 0}, "rows": {"0": [], "1": []}})


def describe(texts: Texts) -> Topic:
    """Describe the topic as a broker does."""
    topic = json.loads(texts.get(TOPIC) or new_topic("topic 0"))
    return Topic(topic["id"], topic["earliest"], {number: len(held) for number, held in topic["rows"].items()})


def compare_last(texts: Texts, ends: Mapping[str, Mapping[str, int]], *_: object) -> LastRecords:
    """Compare bronze's last row of each partition with the topic."""
    held: dict[str, list[int]] = json.loads(texts[TOPIC])["rows"]
    rows = {row[1]: row[0] for row in delta.rows(texts, f"lake/{BRONZE.layer}/{BRONZE.name}")}
    others = []
    for partition, end in ends[NAME].items():
        place = f"{partition}/{end - 1}"
        if rows.get(place, held[partition][end - 1]) != held[partition][end - 1]:
            others.append(f"{NAME}/{place} is another record than bronze has read there")
    return LastRecords(tuple(others))


@dataclass(frozen=True)
class KafkaInput:
    """Spark's Kafka source: it records the first offsets once, and keeps no other log of its own."""

    process: Process
    checkpoint: str

    def latest(self, start: str | None) -> str | None:
        now = describe(self.process.texts)
        if start is None:
            self._first(now)
        else:
            self._check(json.loads(start)[NAME], now.latest)
        return json.dumps({NAME: dict(now.latest)})

    def rows(self, start: str | None, end: str, at: int) -> list[Row]:
        topic = json.loads(self.process.texts.get(TOPIC) or new_topic("topic 0"))
        begins = self._first(describe(self.process.texts)) if start is None else json.loads(start)[NAME]
        ends = json.loads(end)[NAME]
        self._check(ends, {number: len(held) for number, held in topic["rows"].items()})
        for number, offset in begins.items():
            if offset < topic["earliest"][number] and offset < ends[number]:
                raise SparkError(f"failOnDataLoss: {NAME}/{number}/{offset} is gone")
        return [
            [topic["rows"][number][offset], f"{number}/{offset}", at]
            for number in sorted(ends)
            for offset in range(begins.get(number, 0), ends[number])
        ]

    def _first(self, now: Topic) -> dict[str, int]:
        path = f"{self.checkpoint}/sources/0/0"
        text = self.process.read(path)
        if text is None:
            text = "v1\n" + json.dumps({NAME: dict(now.earliest)})
            if not self.process.create(path, text):
                raise SparkError(f"{path} was written by another")
        try:
            return dict(json.loads(text.splitlines()[-1])[NAME])
        except (ValueError, IndexError):
            raise SparkError(f"Incomplete log file {path}") from None

    def _check(self, offsets: Mapping[str, int], held: Mapping[str, int]) -> None:
        for number, offset in offsets.items():
            if offset > held.get(number, -1):
                raise SparkError(f"failOnDataLoss: the offset of {NAME}/{number} was changed from {offset}")


@dataclass(frozen=True)
class FilesInput:
    """Spark's file source: a position is a number in its own log of files seen, written before the plan."""

    process: Process
    checkpoint: str

    def latest(self, start: str | None) -> str | None:
        del start  # the log says which files are new
        log = self._log()
        seen = {entry["path"] for entries in log.values() for entry in entries}
        new = sorted(path for path in json.loads(self.process.texts.get(DIRECTORY, "{}")) if path not in seen)
        last = max(log, default=-1)
        if new:
            last += 1
            entries = [json.dumps({"path": path, "timestamp": 1, "batchId": last}) for path in new]
            if not self.process.create(f"{self.checkpoint}/sources/0/{last}", "\n".join(["v1", *entries])):
                raise SparkError("concurrent writers of the log of files seen")
        return json.dumps({"logOffset": last}) if last >= 0 else None

    def rows(self, start: str | None, end: str, at: int) -> list[Row]:
        first = json.loads(start)["logOffset"] + 1 if start else 0
        last = json.loads(end)["logOffset"]
        if first > last + 1:
            raise SparkError("assertion failed: startOffset <= endOffset")
        log, held = self._log(), json.loads(self.process.texts.get(DIRECTORY, "{}"))
        if any(number not in log for number in range(first, last + 1)):
            raise SparkError("the log of files seen has a gap")
        paths = [entry["path"] for number in range(first, last + 1) for entry in log[number]]
        if any(path not in held for path in paths):
            raise SparkError("a file is gone")
        return [[number, f"{path}/{line}", at] for path in paths for line, number in enumerate(held[path])]

    def _log(self) -> dict[int, list[dict[str, Any]]]:
        where = f"{self.checkpoint}/sources/0"
        names = [name for name in self.process.names(where) if name.isdigit()]
        texts = {int(name): self.process.texts[f"{where}/{name}"] for name in names}
        if not all(text.startswith("v1") for text in texts.values()):
            raise SparkError(f"Incomplete log file in {where}")
        return {number: [json.loads(line) for line in text.splitlines()[1:]] for number, text in texts.items()}


@dataclass(frozen=True)
class TableInput:
    """Delta's source: a position is the first version that is not yet read whole."""

    process: Process
    table: str

    def latest(self, start: str | None) -> str | None:
        texts, newest = self.process.texts, delta.newest(self.process.texts, self.table)
        self._check(start)
        first = json.loads(start)["reservoirVersion"] if start else 0
        if start is None:
            filled = delta.rows(texts, self.table)
        else:
            filled = [row for version in range(first, newest + 1) for row in self._changes(version)]
        return self._at(newest + 1) if filled else start

    def rows(self, start: str | None, end: str, at: int) -> list[Row]:
        del at
        self._check(start)
        self._check(end)
        last = json.loads(end)["reservoirVersion"] - 1
        if last > delta.newest(self.process.texts, self.table):
            raise SparkError(f"{self.table} has no version {last}")
        if start is None:
            return delta.rows(self.process.texts, self.table, last)
        first = json.loads(start)["reservoirVersion"]
        return [row for version in range(first, last + 1) for row in self._changes(version)]

    def _changes(self, version: int) -> list[Row]:
        if delta.removes(self.process.texts, self.table, version):
            raise SparkError(f"DELTA_SOURCE_TABLE_IGNORE_CHANGES: version {version} of {self.table}")
        return delta.added(self.process.texts, self.table, version)

    def _check(self, at: str | None) -> None:
        if at and json.loads(at)["reservoirId"] != delta.table_id(self.process.texts, self.table):
            raise SparkError("DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE")

    def _at(self, version: int) -> str:
        made = delta.table_id(self.process.texts, self.table)
        position = {"sourceVersion": 1, "reservoirId": made, "reservoirVersion": version, "index": -1}
        return json.dumps({**position, "isStartingVersion": False})
