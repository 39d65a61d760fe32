"""Model Spark's micro-batch engine: how it writes a checkpoint and calls back.

The order of its steps: `metadata` once; the source's own log; `offsets/N`; the callback; `commits/N`. A
restart plans the last batch of `offsets` again unless `commits` has it. Source:
org.apache.spark.sql.execution.streaming.MicroBatchExecution, populateStartOffsets.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Self

from oncelake.exactly_once.checkpoint import position
from tests.model import delta_model as delta
from tests.model.delta_model import Row, SparkError
from tests.model.process import Process
from tests.model.source_model import Input

Callback = Callable[[Any, int], None]


@dataclass(frozen=True)
class Frame:
    """A batch's rows, with as much of a DataFrame as the chain's own code uses."""

    process: Process
    rows: list[Row]
    rules: str = "rules"
    schema: None = None
    columns: tuple[str, ...] = ()

    def persist(self) -> "Frame":
        return self

    def unpersist(self) -> "Frame":
        return self

    @property
    def accepted(self) -> "Frame":
        """Return the even numbers, which keep the rules; multiples of four keep the stricter rules too."""
        return Frame(self.process, [row for row in self.rows if not self._breaks(row)])

    @property
    def quarantined(self) -> "Frame":
        return Frame(self.process, [row for row in self.rows if self._breaks(row)])

    def _breaks(self, row: Row) -> bool:
        return bool(row[0] % (2 if self.rules == "rules" else 4))

    @property
    def counts(self) -> list[Row]:
        """Count the numbers per remainder."""
        found = delta.counted([[row[0] % 3, 1] for row in self.rows])
        return [[key, found[key]] for key in sorted(found)]

    def observe(self, observation: Any, *_: object) -> Self:
        observation.get = self._seen
        return self

    def agg(self, *_: object) -> Any:
        return SimpleNamespace(collect=lambda: [SimpleNamespace(asDict=lambda: self._seen)])

    @property
    def _seen(self) -> dict[str, int]:
        return {"lines": len(self.rows), "refused": len(self.quarantined.rows)}


@dataclass
class Query:
    """One streaming query over all available input; `start` runs it to its end."""

    process: Process
    checkpoint: str
    source: Input
    callback: Callback
    error: Exception | None = None
    isActive: bool = field(default=False, init=False)  # noqa: N815

    def exception(self) -> Exception | None:
        return self.error

    def start(self) -> Self:
        try:
            self._run()
        except Exception as error:
            self.error = error
        return self

    def _run(self) -> None:
        self._identify()
        planned, committed = self._last("offsets"), self._last("commits")
        start, batch = None, 0
        if planned is not None:
            start = self._offsets(planned - 1) if planned else None
            if planned != committed:
                self._execute(planned, start, self._offsets(planned))
            start, batch = self._offsets(planned), planned + 1
        while (end := self.source.latest(start)) is not None and end != start:
            self._plan(batch, end)
            self._execute(batch, start, end)
            start, batch = end, batch + 1

    def _identify(self) -> None:
        path, given = f"{self.checkpoint}/metadata", f"made/{self.checkpoint}"
        if self.process.read(path) is not None:
            return
        number = int(self.process.texts.get(given, "0"))
        if not self.process.create(path, json.dumps({"id": f"{self.checkpoint}#{number}"})):
            raise SparkError(f"{path} was written by another")
        self.process.texts[given] = str(number + 1)

    def _plan(self, batch: int, end: str) -> None:
        said = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1000 * (batch + 1)})
        self._log("offsets", batch, f"v1\n{said}\n{end}")

    def _execute(self, batch: int, start: str | None, end: str) -> None:
        self.callback(Frame(self.process, self.source.rows(start, end, self._timestamp(batch))), batch)
        self._log("commits", batch, 'v1\n{"nextBatchWatermarkMs":0}')

    def _log(self, log: str, batch: int, text: str) -> None:
        if not self.process.create(f"{self.checkpoint}/{log}/{batch}", text):
            raise SparkError(f"CONCURRENT_STREAM_LOG_UPDATE: {log}/{batch}")

    def _last(self, log: str) -> int | None:
        names = self.process.names(f"{self.checkpoint}/{log}")
        return max((int(name) for name in names if name.isdigit()), default=None)

    def _offsets(self, batch: int) -> str:
        text = self.process.read(f"{self.checkpoint}/offsets/{batch}")
        found = position(text) if text is not None else None
        if found is None:
            raise SparkError(f"Incomplete log file offsets/{batch}")
        return found

    def _timestamp(self, batch: int) -> int:
        text = self.process.texts[f"{self.checkpoint}/offsets/{batch}"]
        return int(json.loads(text.splitlines()[1])["batchTimestampMs"])


@dataclass
class Stream:
    """What a stage reads, and the writer that its query is started from."""

    open: Callable[[str], Input]
    process: Process
    checkpoint: str = ""
    callback: Callback = lambda *_: None

    @property
    def writeStream(self) -> Self:  # noqa: N802
        return self

    def queryName(self, name: str) -> Self:  # noqa: N802
        del name
        return self

    def option(self, key: str, value: str) -> Self:
        assert key == "checkpointLocation"
        self.checkpoint = value.removeprefix("file:")
        return self

    def trigger(self, **given: object) -> Self:
        assert given == {"availableNow": True}
        return self

    def foreachBatch(self, callback: Callback) -> Self:  # noqa: N802
        self.callback = callback
        return self

    def start(self) -> Query:
        return Query(self.process, self.checkpoint, self.open(self.checkpoint), self.callback).start()
