"""Run a user's own streaming query into a Delta table, with `ExactlyOnceTable` as what writes its batches."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from delta.tables import DeltaMergeBuilder
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from oncelake import ExactlyOnceTable

SCHEMA = "key string, n bigint"
Write = Callable[[DataFrame, int], None]


def add(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
    """Add the number of a row of the batch to its row in the table."""
    return merge.whenMatchedUpdate(set={"n": "target.n + batch.n"}).whenNotMatchedInsertAll()


def merged(table: ExactlyOnceTable) -> Write:
    """Return the function that adds the counts of a batch to a table."""

    def write(batch: DataFrame, batch_id: int) -> None:
        rows = batch.groupBy("key").agg({"n": "sum"}).withColumnRenamed("sum(n)", "n")
        table.merge(rows, batch_id, "target.key = batch.key", add)

    return write


@dataclass
class OwnQuery:
    """A query of a directory of JSON files, or of a Delta table, each file in a batch of its own.

    Attributes:
        root: the directory of everything.
        checkpoint: the name of the checkpoint.
        source: the name of the directory, or of the Delta table, that it reads.
        kind: `json` or `delta`.
        options: further options of the source.
    """

    root: Path
    spark: SparkSession
    checkpoint: str = "checkpoint"
    source: str = "in"
    kind: str = "json"
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def table(self) -> str:
        """Return the path of the table."""
        return str(self.root / "counts")

    @property
    def place(self) -> Path:
        """Return the directory of the checkpoint."""
        return self.root / self.checkpoint

    def put(self, name: str, *keys: str) -> None:
        """Put rows into the source."""
        if self.kind == "delta":
            rows = self.spark.createDataFrame([(key, 1) for key in keys], SCHEMA).coalesce(1)
            rows.write.format("delta").mode("append").save(str(self.root / self.source))
            return
        directory = self.root / self.source
        directory.mkdir(exist_ok=True)
        (directory / f"{name}.json").write_text("".join(json.dumps({"key": key, "n": 1}) + "\n" for key in keys))

    def start(self, write: Write, *, once: bool = True) -> StreamingQuery:
        """Start the query."""
        reader = self.spark.readStream.options(maxFilesPerTrigger="1", **self.options)
        path = str(self.root / self.source)
        rows = reader.format("delta").load(path) if self.kind == "delta" else reader.schema(SCHEMA).json(path)
        writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(self.place))
        return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")).start()

    def run(self, write: Write | None = None) -> None:
        """Process all available input; raise the query's error."""
        query = self.start(write or ExactlyOnceTable(self.table).append)
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def forget_commit(self, batch: int) -> None:
        """Leave the checkpoint as a kill after the table's commit leaves it."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.place / "commits" / name).unlink()

    def copied(self, name: str) -> "OwnQuery":
        """Return the same query with a copy of its checkpoint."""
        shutil.copytree(self.place, self.root / name)
        return OwnQuery(self.root, self.spark, name, self.source, self.kind, self.options)

    def counts(self) -> Mapping[str, int]:
        """Return how often each key counts in the table."""
        counted: Counter[str] = Counter()
        for row in DeltaTable(self.table).to_pyarrow_table().to_pylist():
            counted[row["key"]] += row["n"]
        return dict(counted)

    def version(self) -> int:
        """Return the table's newest version."""
        return DeltaTable(self.table).version()
