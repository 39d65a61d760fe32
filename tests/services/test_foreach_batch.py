"""A query of a topic counts each record once, also with a new checkpoint that begins where its table ends."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from oncelake import ExactlyOnceTable
from tests.support.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


def run(spark: SparkSession, broker: Broker, root: Path, table: ExactlyOnceTable, **options: str) -> None:
    """Process all records of the topic, at most two in a batch."""
    kafka = {"kafka.bootstrap.servers": broker.servers, "subscribe": "events", "startingOffsets": "earliest", **options}
    records = spark.readStream.format("kafka").options(**kafka, maxOffsetsPerTrigger="2").load()
    writer = records.selectExpr("CAST(value AS string) AS line").writeStream.foreachBatch(table.append)
    query = writer.option("checkpointLocation", str(root / "checkpoint")).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def counted(root: Path) -> Counter[str]:
    return Counter(row["line"] for row in DeltaTable(root / "table").to_pyarrow_table().to_pylist())


def test_a_topic_is_counted_once_over_replays_and_a_lost_checkpoint(
    broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    broker.make_topic("events", partitions=2)
    table, sent = ExactlyOnceTable(str(tmp_path / "table")), list[bytes]()

    def send(*lines: bytes) -> None:
        for number, line in enumerate(lines):
            broker.send("events", [line], partition=number % 2)
        sent.extend(lines)

    send(b"a", b"b", b"c", b"a", b"d")
    run(spark, broker, tmp_path, table)
    last = max(int(path.name) for path in (tmp_path / "checkpoint/commits").iterdir() if path.name.isdigit())
    for name in (f"{last}", f".{last}.crc"):
        (tmp_path / "checkpoint/commits" / name).unlink()
    send(b"e")
    run(spark, broker, tmp_path, table)
    assert counted(tmp_path) == Counter(line.decode() for line in sent)
    shutil.rmtree(tmp_path / "checkpoint")
    send(b"f", b"g")
    with pytest.raises(StreamingQueryException, match="foreign") as error:
        run(spark, broker, tmp_path, table)
    said = re.search(r"the position (\{.*\}), pass continue_after=(\d+)", str(error.value))
    assert said is not None
    shutil.rmtree(tmp_path / "checkpoint")
    continued = ExactlyOnceTable(str(tmp_path / "table"), continue_after=int(said[2]))
    run(spark, broker, tmp_path, continued, startingOffsets=said[1])
    assert counted(tmp_path) == Counter(line.decode() for line in sent)
