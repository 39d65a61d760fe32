"""Generated gold tables and their batches: each batch changes rows and adds rows, and its values show its number.

`MAIN` has a few columns with keys. `values_table` has a column of each type, and rows that differ from each other in
one value only, at the bounds of its type. `WINDOWS` has no keys, so its rows are found by their time.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
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
from oncelake.serving.sink import KEY, LOG_TIME, Row, Sink, SinkBatch

NAME = "oncelake_sink_test"
# A batch is handed over in parts of this many rows, so that it has several.
PART = 3
# The rows of a batch, and the windows among which they change: each batch has some of the two before it.
ROWS, WINDOWS_OF_MAIN = 9, 12
_LEVELS = ("ERROR", "INFO", None)
_NOTES = ("plain", 'it\'s "quoted" \\ %s', "🔌 é", "")
_BEGIN = datetime(2026, 1, 1)
_TABLE_ID = "5d5f2a8e-0000-4000-8000-6f6e63656c61"

Content = Mapping[str | datetime, Row]


@dataclass(frozen=True)
class MadeBatch:
    """A batch of a made table.

    Attributes:
        rows: the rows that it writes, or the keys that it removes as tuples of one value; in the order of their key.
        removes: True if it removes rows.
        labels: key -> what is special about its row.
    """

    rows: list[Row]
    removes: bool = False
    labels: Mapping[str | datetime, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MadeTable:
    """A made gold table.

    Attributes:
        name: its name.
        declared: its declaration.
        schema: its columns.
        batch: returns the batch of a number.
    """

    name: str
    declared: GoldTable
    schema: StructType
    batch: Callable[[int], MadeBatch]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of its rows."""
        return (*([KEY] if self.declared.by else []), *self.schema.names)

    def content_after(self, batches: int) -> Content:
        """Return the rows that the table has after a number of batches, by key."""
        content: dict[str | datetime, Row] = {}
        for number in range(batches):
            batch = self.batch(number)
            for row in batch.rows:
                if batch.removes:
                    content.pop(row[0], None)
                else:
                    content[row[0]] = row
        return content

    def label(self, key: str | datetime, batches: int) -> str:
        """Return what is special about the row of a key after a number of batches; empty for nothing."""
        labels = [batch.labels[key] for batch in map(self.batch, range(batches)) if key in batch.labels]
        return labels[-1] if labels else ""

    def rows(self, number: int, broken_at: int | None = None) -> Rows:
        """Return the rows of a batch as oncelake hands them to a served table.

        Args:
            number: the batch.
            broken_at: the number of the row at which reading them raises MadeError; None for nowhere.
        """
        rows = self.batch(number).rows

        def read() -> Iterator[tuple[Any, ...]]:
            for at, row in enumerate(rows):
                if at == broken_at:
                    raise MadeError("the rows cannot be read further: an error made by the test")
                yield row

        return Rows(self.names, len(rows), 10, self.schema, read)

    def metadata(self, number: int, query: str) -> CommitMetadata:
        """Return the metadata of a batch: version `number` of the followed table."""
        stage = f"serving.{self.name}"
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

    def served_by(self, sink: Sink) -> Served:
        """Return the table as served from a sink."""
        return Served(Table("serving", self.name), self.declared, "idempotent", Table("gold", self.name), sink)


class MadeError(Exception):
    """Raised by the test itself, in the rows of a batch or at a line of the sink's code."""


@dataclass(frozen=True)
class SinkContents:
    """What a sink holds.

    Attributes:
        last: its last batch, or the mark of a rebuild; None without one.
        offset_log: the text from which a checkpoint is written again.
        rows: its rows; None if it cannot read them.
    """

    last: SinkBatch | None
    offset_log: str
    rows: tuple[Row, ...] | None

    @property
    def batch_id(self) -> int | None:
        """The number of the last batch; None without one."""
        return self.last.batch_id if self.last else None

    @property
    def query(self) -> str:
        """The query of the last batch."""
        return self.last.query_id if self.last else ""

    @property
    def version(self) -> int:
        """The stored version."""
        return self.last.version if self.last else 0


def main_batch(number: int) -> MadeBatch:
    """Return a batch of MAIN."""
    rows = {}
    for index in range(ROWS):
        # the first row is new
        window = (number * 3 + index) % WINDOWS_OF_MAIN if index else WINDOWS_OF_MAIN + number
        level, note = _LEVELS[window % len(_LEVELS)], _NOTES[window % len(_NOTES)]
        key = hashlib.sha256(f"{window}".encode()).hexdigest()
        at = _BEGIN + timedelta(minutes=window * 197)
        values = (number * 1000 + window, Decimal(10) ** 37 + number, None if number % 3 else number / 3)
        rows[key] = (key, at, level, note, *values, at + timedelta(microseconds=number + 1))
    return MadeBatch([rows[key] for key in sorted(rows)])


def _schema(types: Mapping[str, DataType]) -> StructType:
    return StructType([StructField(LOG_TIME, TimestampType()), *(StructField(*item) for item in types.items())])


MAIN = MadeTable(
    NAME,
    GoldTable.model_validate(
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
    ),
    _schema(
        {
            "level": StringType(),
            "note": StringType(),
            "lines": LongType(),
            "total": DecimalType(38, 0),
            "share": DoubleType(),
            "latest": TimestampType(),
        }
    ),
    main_batch,
)

# --- a column of each type ---

_KEYS: Mapping[str, DataType] = {
    "level": StringType(),
    "body": StringType(),
    "flag": BooleanType(),
    "raw": BinaryType(),
    "day": DateType(),
}
_MEASURES: Mapping[str, DataType] = {
    "lines": LongType(),
    "note": StringType(),
    "tiny": ByteType(),
    "small": ShortType(),
    "medium": IntegerType(),
    "large": LongType(),
    "wide": DecimalType(38, 0),
    "fine": DecimalType(38, 18),
    "share": DoubleType(),
    "latest": TimestampType(),
}
_BASE: Mapping[str, Any] = {
    LOG_TIME: _BEGIN,
    "level": "ERROR",
    "body": "base",
    "flag": False,
    "raw": b"\x01",
    "day": date(2026, 1, 1),
    "lines": 1,
    "note": "base",
    "tiny": 1,
    "small": 1,
    "medium": 1,
    "large": 1,
    "wide": Decimal(1),
    "fine": Decimal(1),
    "share": 1.0,
    "latest": _BEGIN,
}
_FIRST, _LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)
_TIMES: Mapping[str, datetime] = {
    "the first time": _FIRST,
    "a time before 1582": datetime(1500, 2, 28, 1, 2, 3),
    "a time before 1970": datetime(1969, 12, 31, 23, 59, 59),
    "a time in an hour that clocks skip": datetime(2026, 3, 29, 2, 30),
    "a time after 2038": datetime(2038, 1, 19, 3, 14, 8),
    "the last time": _LAST,
}
_TEXTS: Mapping[str, str] = {
    "an empty text": "",
    "another case": "BASE",
    "trailing blanks": "base  ",
    "leading blanks": "  base",
    "a tab at the end": "base\t",
    "a line break": "ba\r\nse\n",
    "quotes and escapes": 'it\'s "quoted" \\ %s {} `x` ; --',
    "the word NULL": "NULL",
    "digits": "007",
    "a character of four bytes": "🔌🧵",
    "an accent of its own": "e\u0301",
    "an accent in its letter": "\u00e9",
    "a sharp s": "stra\u00dfe",
    "two s": "strasse",
    "a text from right to left": "\u200f\u0627\u0628",
    "the last character of two bytes": "\uffff",
    "a text of 255 characters": "x" * 255,
    "a text of 256 characters": "x" * 256,
    "a text of 70,000 characters": "y" * 70_000,
    "a text of 4,000 characters of four bytes": "🔌" * 4_000,
}


def _cases(*, nul: bool) -> list[tuple[str, Mapping[str, Any]]]:
    """Return rows that each differ from a first one in one value: what is special about it, and the value."""
    diffs: list[tuple[str, str, Any]] = [(text, "body", value) for text, value in _TEXTS.items()]
    diffs += [(text, "note", value) for text, value in _TEXTS.items()]
    diffs += [("U+0000", name, "a\0b") for name in ("body", "note") if nul]
    diffs += [("NULL", name, None) for name in (*_KEYS, *_MEASURES) if name != "lines"]
    diffs += [("another text", "level", "INFO"), ("true", "flag", True)]
    diffs += [("no byte", "raw", b""), ("each byte", "raw", bytes(range(256))), ("a byte 0", "raw", b"\x01\x00")]
    diffs += [("the first day", "day", _FIRST.date()), ("the last day", "day", _LAST.date())]
    diffs += [("a day before 1970", "day", date(1969, 12, 31)), ("no line", "lines", 0)]
    diffs += [("the largest count", "lines", 2**63 - 1)]
    for bits, name in ((8, "tiny"), (16, "small"), (32, "medium"), (64, "large")):
        diffs += [("the smallest", name, -(2 ** (bits - 1))), ("the largest", name, 2 ** (bits - 1) - 1)]
        diffs += [("-1", name, -1), ("0", name, 0)]
    diffs += [("a number that 32 bits do not hold", "large", 2**31), ("one that no float holds", "large", 2**53 + 1)]
    for name, most in (("wide", Decimal("9" * 38)), ("fine", Decimal("9" * 20 + "." + "9" * 18))):
        diffs += [("38 digits", name, most), ("38 digits below 0", name, most.copy_negate()), ("0", name, Decimal(0))]
    diffs += [
        ("the smallest step", "fine", Decimal("1E-18")),
        ("18 digits after the point", "fine", Decimal("0." + "3" * 18)),
    ]
    diffs += [("a third", "share", 1 / 3), ("-0.0", "share", -0.0), ("0.1 + 0.2", "share", 0.1 + 0.2)]
    diffs += [("the largest", "share", sys.float_info.max), ("the least", "share", -sys.float_info.max)]
    diffs += [("the smallest above 0", "share", sys.float_info.min), ("2^53 - 1", "share", 2.0**53 - 1)]
    diffs += [(text, name, value) for text, value in _TIMES.items() for name in (LOG_TIME, "latest")]
    diffs += [("a microsecond", "latest", _BEGIN + timedelta(microseconds=1))]
    diffs += [("the last microsecond", "latest", _LAST + timedelta(microseconds=999_999))]
    cases = [("the first row", _BASE)]
    for text, name, value in diffs:
        cases.append((f"{name}: {text}", {**_BASE, name: value}))
    return cases


def _key_of(number: int) -> str:
    """Return a key: most differ from each other in the last characters, and some in the first one only."""
    same = hashlib.sha256(b"made").hexdigest()
    return f"{same[:60]}{number:04x}" if number % 8 else f"{number // 8 % 16:x}{number // 128:x}{same[2:]}"


# The batches of the table: values, other values, none, none, one part, ten parts, a hundred parts, then removals.
VALUES, SIZES, REMOVED = 2, 7, 7
_PARTS = {4: 1, 5: 10, 6: 100}
_SOME, _NOWHERE = 30, 40_000


def values_table(*, nul: bool) -> MadeTable:
    """Return the table with a column of each type.

    Args:
        nul: True if texts may have the character U+0000.
    """
    cases = _cases(nul=nul)

    def written(numbers: range, shift: int) -> MadeBatch:
        rows: dict[str, Row] = {}
        labels: dict[str | datetime, str] = {}
        for number in numbers:
            key, (own, same) = _key_of(number), cases[number % len(cases)]
            label, values = cases[(number + shift) % len(cases)]
            labels[key] = f"{label}; {own}" if shift else own  # window and keys of a row never change
            rows[key] = (key, *(same[name] if name in (LOG_TIME, *_KEYS) else values[name] for name in values))
        return MadeBatch([rows[key] for key in sorted(rows)], labels=labels)

    def removed(numbers: range) -> MadeBatch:
        keys = sorted({_key_of(number) for number in (*numbers, _NOWHERE)}) if numbers else []
        return MadeBatch([(key,) for key in keys], removes=True)

    def batch(number: int) -> MadeBatch:
        if number < VALUES:
            return written(range(len(cases)), number)
        if number < SIZES:
            return written(range(_PARTS.get(number, 0) * PART), number)
        if number == REMOVED:
            return removed(range(0, _SOME, 3))
        if number == REMOVED + 2:
            return removed(range(0))
        return written(range(0, 12, 3), number) if (number - REMOVED) % 2 else removed(range(0, 12, 3))

    by = dict.fromkeys(_KEYS, "level")
    measures = {name: "count" if name == "lines" else "max(level)" for name in _MEASURES}
    declared = GoldTable.model_validate({"every": "1 second", "by": by, "measures": measures})
    return MadeTable(f"{NAME}_values", declared, _schema({**_KEYS, **_MEASURES}), cache(batch))


# --- a table without keys ---


def _windows_batch(number: int) -> MadeBatch:
    """Return a batch of WINDOWS: the first one has no rows."""
    near = {f"a window {count} s later": _BEGIN + timedelta(seconds=count) for count in (0, 1, 60, 3600, 86_400)}
    labels: dict[str | datetime, str] = {at: label for label, at in (*_TIMES.items(), *near.items()) if number}
    return MadeBatch([(at, number * 100 + index) for index, at in enumerate(sorted(labels, key=str))], labels=labels)


WINDOWS = MadeTable(
    f"{NAME}_windows",
    GoldTable.model_validate({"every": "1 second", "measures": {"lines": "count"}}),
    _schema({"lines": LongType()}),
    _windows_batch,
)


def _at(version: int) -> str:
    return (
        f'{{"sourceVersion":1,"reservoirId":"{_TABLE_ID}","reservoirVersion":{version},"index":-1,'
        '"isStartingVersion":false}'
    )
