"""This is where a line that `trace` is asked for is found in bronze, or it is said what is there instead."""

import base64
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.models import shown
from oncelake.common.wording import count_of, listed

_POSITION = re.compile(r"([a-zA-Z0-9._-]{1,249})/(\d{1,10})/(\d{1,19})", re.ASCII)
_ACCEPTED = "topic/partition/offset, as alog/0/1234, or file:line, as 'app.log:2017-07-30 14:09:08 ERROR some message'"
_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


@dataclass(frozen=True)
class Position:
    """A record of a Kafka topic."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True)
class FileLine:
    """A file's name or end of its path, a colon, and a line; as both may hold colons, bronze tells them apart."""

    text: str

    def lines_of(self, file: str) -> list[bytes]:
        """Give the lines that can be meant if the file is this one: what stands behind each colon that follows it.

        Args:
            file: the file's URI, as bronze has it.
        """
        names = _spellings(file)
        colons = [at for at, mark in enumerate(self.text) if mark == ":" and at]
        return [os.fsencode(self.text[at + 1 :]) for at in colons if _ends_one_of(names, self.text[:at])]

    def __str__(self) -> str:
        return shown(self.text)


Asked = Position | FileLine


def read_asked(text: str) -> Asked:
    """Read what a user asks for.

    Raises:
        ConfigError: it is neither of the two forms.
    """
    match = _POSITION.fullmatch(text)
    if match:
        position = Position(match[1], int(match[2]), int(match[3]))
        if position.partition < 2**31 and position.offset < 2**63:
            return position
    elif ":" in text[1:]:
        return FileLine(text)
    raise ConfigError(f"what to trace is {_ACCEPTED}; not {shown(text)}")


def _spellings(file: str) -> set[str]:
    """Give a file as its URI and as its path, with what is encoded in the URI also decoded."""
    parsed = urlparse(file)
    path = unquote(parsed.path)
    return {file, unquote(file), path} | ({f"file://{path}"} if parsed.scheme == "file" else set())


def _ends_one_of(names: set[str], end: str) -> bool:
    return any(name == end or name.endswith(f"/{end.removeprefix('/')}") for name in names)


@dataclass(frozen=True)
class FoundLine:
    """A line in bronze.

    Attributes:
        frame: one row of bronze.
        row: its values.
        line: its bytes, None for a Kafka record without a value.
        equal: how many rows are the same line of the same origin; a file's lines have no number.
        batches: from how many batches they are; a position and a file are read by one.
    """

    frame: DataFrame
    row: Mapping[str, Any]
    line: bytes | None
    equal: int
    batches: int

    @property
    def text(self) -> str | None:
        """The line as text, with bytes that are no UTF-8 escaped."""
        return None if self.line is None else self.line.decode("utf-8", "backslashreplace")


def find(bronze: DataFrame, asked: Asked) -> FoundLine:
    """Find a line.

    Raises:
        OncelakeError: it is not there, or several files hold it; says what is there.
    """
    return _record(bronze, asked) if isinstance(asked, Position) else _line(bronze, asked)


def values(rows: DataFrame) -> list[dict[str, Any]]:
    """Read rows as plain values: times in UTC as ISO 8601, bytes as base64."""
    texts = rows.select(F.to_json(F.struct(*(F.col(f"`{name}`") for name in rows.columns)), _JSON)).collect()
    return [json.loads(text) for (text,) in texts]


def _record(bronze: DataFrame, asked: Position) -> FoundLine:
    here = (F.col("partition") == F.lit(asked.partition).cast("int")) & (
        F.col("offset") == F.lit(asked.offset).cast("bigint")
    )
    found = _found(bronze.where((F.col("topic") == F.lit(asked.topic)) & here))
    if found is not None:
        return found
    ends = bronze.where(F.col("topic").isNotNull()).groupBy("topic", "partition")
    held = ends.agg(F.min("offset"), F.max("offset")).orderBy("topic", "partition").collect()
    ranges = [f"{topic}/{partition}/{first} to {last}" for topic, partition, first, last in held]
    raise OncelakeError(f"{asked} is not in bronze; {_held(ranges) or 'no line there is from Kafka'}")


def _line(bronze: DataFrame, asked: FileLine) -> FoundLine:
    meant = {file: lines for file in _files(bronze, asked) if (lines := asked.lines_of(file))}
    if not meant:
        files = [file for (file,) in bronze.where(F.col("file").isNotNull()).select("file").distinct().collect()]
        there = _held(sorted(map(_name, files))) or "no line there is from a file"
        raise OncelakeError(f"no file in bronze ends with what stands before a colon in {asked}; {there}")
    rows = bronze.where(reduce(or_, (_is(file, line) for file, lines in meant.items() for line in lines)))
    holding = sorted(file for (file,) in rows.select("file").distinct().collect())
    if len(holding) > 1:
        raise OncelakeError(f"several files hold {asked}: {listed(holding)}; give more of the path")
    found = _found(rows)
    if found is not None:
        return found
    some, lines = next(iter(meant.items()))
    size = bronze.where(F.col("file") == F.lit(some)).count()
    more = f" (nor of {len(meant) - 1} more)" if len(meant) > 1 else ""
    text = lines[0].decode("utf-8", "backslashreplace")
    raise OncelakeError(f"no line of {some}{more} is {shown(text)}; bronze holds {count_of(size, 'line')} of it")


def _found(rows: DataFrame) -> FoundLine | None:
    """Take one row, always the same one, and count those that are equal to it."""
    frame = rows.orderBy("ingested_at", "value").limit(1).localCheckpoint()
    row = next(iter(values(frame)), None)
    if row is None:
        return None
    line = None if row["value"] is None else base64.b64decode(row["value"])
    same = rows.where(F.col("value").eqNullSafe(F.lit(line)))
    equal, batches = same.agg(F.count(F.lit(1)), F.count_distinct("ingested_at")).collect()[0]
    return FoundLine(frame, row, line, equal, batches)


def _files(bronze: DataFrame, asked: FileLine) -> list[str]:
    """Give the files of bronze whose name stands before a colon in what was asked, encoded or not."""
    file = F.col("file")
    decoded = F.coalesce(F.try_url_decode(F.replace(file, F.lit("+"), F.lit("%2B"))), file)
    text = F.lit(os.fsencode(asked.text).decode("utf-8", "replace"))  # Spark takes no half characters
    named = (F.contains(text, F.concat(_after_slash(each), F.lit(":"))) for each in (file, decoded))
    found = bronze.where(file.isNotNull()).select("file").distinct().where(reduce(or_, named)).collect()
    return sorted(name for (name,) in found)


def _after_slash(file: Column) -> Column:
    return F.substring_index(file, "/", -1)


def _is(file: str, line: bytes) -> Column:
    """Match a line as it was copied from a screen, where the \\r before its end is not seen."""
    value = F.col("value")
    return (F.col("file") == F.lit(file)) & ((value == F.lit(line)) | (value == F.lit(line + b"\r")))


def _name(file: str) -> str:
    return file.rsplit("/", 1)[-1]


def _held(names: list[str]) -> str:
    return f"it holds {listed(names)}" if names else ""
