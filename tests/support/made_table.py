"""Make Delta tables batch by batch, with the commits that the chain would have made of them."""

import json
import shutil
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from oncelake.common.lake import Table
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.proven import ProvenTable
from oncelake.exactly_once.span import Span
from tests.support.memory import QUERY, metadata

# the time when a lake's first batch was planned, in milliseconds
EPOCH = 1_500_000_000_000


def delta(version: int, *, inside: bool = False) -> str:
    """Return the position of a query that has read everything below a version."""
    return json.dumps({"reservoirId": "id", "reservoirVersion": version, "index": 3 if inside else -1})


@dataclass
class MadeTable:
    """One table: its first version is empty, and each batch adds one."""

    spark: SparkSession
    root: Path
    table: Table
    schema: StructType
    version: int = 0
    commits: list[ChainCommit] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._write(self.spark.createDataFrame([], self.schema))

    @property
    def path(self) -> str:
        return str(self.root / self.table.layer / self.table.name)

    def copied(self, root: Path) -> Self:
        """Return a copy below another root, which a test may break."""
        other = copy(self)
        other.root, other.commits = root, [*self.commits]
        shutil.copytree(self.path, other.path)
        return other

    def batch(
        self,
        batch: int,
        rows: Iterable[dict[str, Any]] | DataFrame,
        before: str | None,
        end: str,
        lines: Mapping[str, int] | None = None,
    ) -> None:
        """Append a batch, planned `batch` seconds after the lake's first; `lines` are what its commit records."""
        frame = rows if isinstance(rows, DataFrame) else self.frame(rows)
        self._write(frame)
        self.version += 1
        self.metadata(batch, before, end, frame.count())
        last = self.commits[-1]
        self.commits[-1] = replace(last, metadata=replace(last.metadata, lines=lines or {}))

    def metadata(
        self, batch: int, before: str | None, end: str, rows: int, event: CommitKind = CommitKind.BATCH
    ) -> None:
        """Record a commit at the table's newest version."""
        planned = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": taken(batch)})
        said = metadata(
            batch, str(self.table), before=before, after=f"v1\n{planned}\n{end}", event=event, rows=self.rows
        )
        metrics = {"numOutputRows": str(rows)}
        self.commits.append(ChainCommit(self.version, "WRITE", {}, metrics, taken(batch), said, {}, changes_data=True))

    @property
    def rows(self) -> int:
        return sum(commit.rows_added for commit in self.commits)

    def edit(self, sql: str) -> None:
        """Change the table by hand: `DELETE FROM {} WHERE …`."""
        self.spark.sql(sql.format(f"delta.`{self.path}`"))
        self.version += 1

    def span(self, after: int | None = None) -> Span:
        """Return the span of the whole table, or of all after a batch."""
        if after is None:
            return Span(self.table, self.path, self.version, tuple(self.commits))
        proven = [commit for commit in self.commits if commit.metadata.batch_id <= after]
        start = ProvenTable("id", proven[-1].version, after, QUERY, proven[-1].metadata.end, 0)
        return Span(self.table, self.path, self.version, tuple(self.commits[len(proven) :]), start)

    def frame(self, rows: Iterable[dict[str, Any]]) -> DataFrame:
        """Return a frame of rows with the table's columns."""
        return frame(self.spark, self.schema, rows)

    def _write(self, rows: DataFrame) -> None:
        rows.coalesce(1).write.format("delta").mode("append").save(self.path)


def frame(spark: SparkSession, schema: StructType, rows: Iterable[dict[str, Any]]) -> DataFrame:
    """Return a frame of rows with some columns; `batch` is the number of the bronze batch that ingested a row."""
    times = [{**row, "ingested_at": datetime.fromtimestamp(taken(row["batch"]) / 1000, UTC)} for row in rows]
    return spark.createDataFrame([tuple(row.get(name) for name in schema.names) for row in times], schema)


def taken(batch: int) -> int:
    """Return the time when a batch was planned."""
    return EPOCH + 1000 * batch
