"""Made batches of a small gold table with keys: each changes some rows and adds some; the values show the batch."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql.types import (
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelake.common.lake import Table
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.gold.declaration import GoldTable
from oncelake.serving.rows import Rows
from oncelake.serving.served import Served
from oncelake.serving.sink import Row, Sink

NAME = "oncelake_sink_test"
DECLARED = GoldTable.model_validate(
    {
        "every": "1 minute",
        "by": {"level": "level", "note": "message"},
        "measures": {
            "lines": "count",
            "total": "sum(length(message))",
            "share": "max(length(message) / 3)",
            "latest": "max(log_time)",
        },
    }
)
SCHEMA = StructType(
    [
        StructField("log_time", TimestampType()),
        StructField("level", StringType()),
        StructField("note", StringType()),
        StructField("lines", LongType()),
        StructField("total", DecimalType(38, 0)),
        StructField("share", DoubleType()),
        StructField("latest", TimestampType()),
    ]
)
NAMES = ("_key", *SCHEMA.names)
# The rows of a batch, and the windows among which they change: each batch has some of the two before it.
ROWS, WINDOWS = 9, 12
_LEVELS = ("ERROR", "INFO", None)
_NOTES = ("plain", 'it\'s "quoted" \\ %s', "🔌 é", "")
_BEGIN = datetime(2026, 1, 1)
_TABLE_ID = "5d5f2a8e-0000-4000-8000-6f6e63656c61"

Content = Mapping[str, Row]


def rows_of(number: int) -> list[Row]:
    """Return the rows of a batch, in the order of their key."""
    found = {}
    for each in range(ROWS):
        window = (number * 3 + each) % WINDOWS if each else WINDOWS + number  # the first row is new
        level, note = _LEVELS[window % len(_LEVELS)], _NOTES[window % len(_NOTES)]
        key = hashlib.sha256(f"{window}".encode()).hexdigest()
        at = _BEGIN + timedelta(minutes=window * 197)
        values = (number * 1000 + window, Decimal(10) ** 37 + number, None if number % 3 else number / 3)
        found[key] = (key, at, level, note, *values, at + timedelta(microseconds=number + 1))
    return [found[key] for key in sorted(found)]


def content_after(batches: int) -> Content:
    """Return the rows that the table has after a number of batches, by key."""
    return {row[0]: row for number in range(batches) for row in rows_of(number)}


def batch_rows(number: int) -> Rows:
    """Return the rows of a batch as oncelake hands them to a served table."""
    rows = rows_of(number)

    def read() -> Iterator[tuple[Any, ...]]:
        return iter(rows)

    return Rows(NAMES, len(rows), 10, SCHEMA, read)


def metadata_of(number: int, query: str) -> CommitMetadata:
    """Return the metadata of a batch: version `number` of the followed table."""
    stage = f"serving.{NAME}"
    return CommitMetadata(
        stage=stage,
        table=stage,
        query_id=query,
        batch_id=number,
        before=_at(number) if number else None,
        after=f'v1\n{{"batchTimestampMs":{number}}}\n{_at(number + 1)}',
        rows=0,
        rules="made",
        run="sink test",
        source={"kind": "delta", "table_id": _TABLE_ID},
    )


def served_by(sink: Sink) -> Served:
    """Return the made table as served from a sink."""
    return Served(Table("serving", NAME), DECLARED, "idempotent", Table("gold", NAME), sink)


@dataclass(frozen=True)
class Seen:
    """What a sink holds.

    Attributes:
        batch_id: its last batch; None without one.
        query: the query of that batch.
        offset_log: the text from which a checkpoint is written again.
        version: the stored version.
        rows: its rows; None if it cannot read them.
    """

    batch_id: int | None
    query: str
    offset_log: str
    version: int
    rows: tuple[Row, ...] | None


def _at(version: int) -> str:
    return (
        f'{{"sourceVersion":1,"reservoirId":"{_TABLE_ID}","reservoirVersion":{version},"index":-1,'
        '"isStartingVersion":false}'
    )
