"""Lookup of the line to trace in bronze; if it is missing, the error says what bronze holds."""

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from oncelake.bronze.mask import Mask
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
    """A file's name or the end of its path, a colon, and a line.

    Both parts may contain colons; the file names in bronze decide which colon separates them.
    """

    text: str

    def lines_of(self, file: str) -> list[bytes]:
        """Return the possible lines for one file: the text after each colon that follows an end of its path.

        Args:
            file: the file's URI, as stored in bronze.
        """
        names = _spellings(file)
        colons = [at for at, mark in enumerate(self.text) if mark == ":" and at]
        return [os.fsencode(self.text[at + 1 :]) for at in colons if _ends_one_of(names, self.text[:at])]

    def __str__(self) -> str:
        return shown(self.text)


LineQuery = Position | FileLine


def parse_line_query(text: str) -> LineQuery:
    """Parse the user's LINE argument.

    Raises:
        ConfigError: the argument has neither of the two forms.
    """
    match = _POSITION.fullmatch(text)
    if match:
        position = Position(match[1], int(match[2]), int(match[3]))
        if position.partition < 2**31 and position.offset < 2**63:
            return position
    elif ":" in text[1:]:
        return FileLine(text)
    raise ConfigError(f"LINE must be {_ACCEPTED}; not {shown(text)}")


def refuse_catalog(catalog: str | None) -> None:
    """Raise ConfigError if the tables are in a catalog."""
    if catalog is not None:
        raise ConfigError(
            f"lake.catalog {catalog}: trace finds a line by the files that commits added, which a "
            "catalog does not name; find the line with SQL, by topic, partition and offset, or by file"
        )


def _spellings(file: str) -> set[str]:
    """Return the spellings of a file: its URI, percent-encoded and decoded, and its decoded path."""
    parsed = urlparse(file)
    path = unquote(parsed.path)
    return {file, unquote(file), path} | ({f"file://{path}"} if parsed.scheme == "file" else set())


def _ends_one_of(names: set[str], end: str) -> bool:
    return any(name == end or name.endswith(f"/{end.removeprefix('/')}") for name in names)


@dataclass(frozen=True)
class BronzeLine:
    """A line in bronze.

    Attributes:
        frame: one row of bronze.
        row: its values.
        content: its bytes, None for a Kafka record without a value.
        equal: how many rows have the same line and origin; a file can have equal lines, as its lines have no number.
            Of a growing file, only those of the same batch.
        batches: how many batches these rows come from; a correct lake reads a position or a file in one batch.
    """

    frame: DataFrame
    row: Mapping[str, Any]
    content: bytes | None
    equal: int
    batches: int

    @property
    def text(self) -> str | None:
        """The line as text; bytes that are not UTF-8 are escaped."""
        return None if self.content is None else self.content.decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Masks:
    """The rules that bronze's lines were masked with; a query may have the source's or bronze's form of a line.

    Attributes:
        versions: all versions that can be applied.
    """

    versions: Sequence[Mask]

    def forms(self, line: bytes) -> list[bytes]:
        """Return the forms that a line can have in bronze."""
        return list(dict.fromkeys([line, *(version.value(line) for version in self.versions)]))

    def shown(self, line: bytes) -> str:
        """Return a line for a message, masked with every version."""
        for version in self.versions:
            line = version.value(line)
        return shown(line.decode("utf-8", "backslashreplace"))


def find(bronze: DataFrame, query: LineQuery, masks: Masks | None = None) -> BronzeLine:
    """Find a line in bronze.

    Args:
        bronze: bronze's rows.
        query: the line.
        masks: the rules that lines of the lake were masked with; None if no line was.

    Raises:
        OncelakeError: the line is not in bronze, or several files contain it; the message says what bronze holds.
    """
    if isinstance(query, Position):
        return _record(bronze, query)
    return _line(bronze, query, masks)


def values(rows: DataFrame) -> list[dict[str, Any]]:
    """Return rows as plain values: times in UTC as ISO 8601, bytes as base64."""
    texts = rows.select(F.to_json(F.struct(*(F.col(f"`{name}`") for name in rows.columns)), _JSON)).collect()
    return [json.loads(text) for (text,) in texts]


def _record(bronze: DataFrame, query: Position) -> BronzeLine:
    here = (F.col("partition") == F.lit(query.partition).cast("int")) & (
        F.col("offset") == F.lit(query.offset).cast("bigint")
    )
    bronze_line = _bronze_line(bronze.where((F.col("topic") == F.lit(query.topic)) & here))
    if bronze_line is not None:
        return bronze_line
    ends = bronze.where(F.col("topic").isNotNull()).groupBy("topic", "partition")
    bounds = ends.agg(F.min("offset"), F.max("offset")).orderBy("topic", "partition").collect()
    ranges = [f"{topic}/{partition}/{first} to {last}" for topic, partition, first, last in bounds]
    raise OncelakeError(f"{query} is not in bronze; {_bronze_has(ranges) or 'bronze has no line from Kafka'}")


def _has_hash(file: str, line: bytes) -> Column:
    """Match as `_is` does, by hashes."""
    value, ends = F.col("value"), (b"", b"\r")
    whole = (F.sha2(value, 256) == hashlib.sha256(line + end).hexdigest() for end in ends)
    begun = (
        F.sha2(F.substring(value, 1, len(line + end) + 1), 256) == hashlib.sha256(line + end + b"\n").hexdigest()
        for end in ends
    )
    return (F.col("file") == F.lit(file)) & reduce(or_, (*whole, *begun))


def _line(bronze: DataFrame, query: FileLine, masks: Masks | None) -> BronzeLine:
    """Find a line of a file; if lines are masked, no message has the line's own text, and plans have only its hash."""
    named_files = _all_files(bronze) if masks is not None else _files(bronze, query)
    candidates = {file: lines for file in named_files if (lines := query.lines_of(file))}
    if not candidates:
        content = _bronze_has(sorted(map(_name, _all_files(bronze)))) or "bronze has no line from a file"
        place = query if masks is None else "LINE"
        raise OncelakeError(f"no file path in bronze ends with the text before a colon in {place}; {content}")
    if masks is None:
        matches = [_is(file, line) for file, lines in candidates.items() for line in lines]
    else:
        matches = [
            _has_hash(file, form) for file, lines in candidates.items() for line in lines for form in masks.forms(line)
        ]
    rows = bronze.where(reduce(or_, matches))
    holding = sorted(file for (file,) in rows.select("file").distinct().collect())
    some, lines = next(iter(candidates.items()))
    text = masks.shown(lines[0]) if masks is not None else shown(lines[0].decode("utf-8", "backslashreplace"))
    if len(holding) > 1:
        subject = query if masks is None else text
        raise OncelakeError(f"several files contain {subject}: {listed(holding)}; give more of the path")
    bronze_line = _bronze_line(rows)
    if bronze_line is not None:
        return bronze_line
    size = bronze.where(F.col("file") == F.lit(some)).count()
    more = f" (nor of {len(candidates) - 1} more)" if len(candidates) > 1 else ""
    raise OncelakeError(f"no line of {some}{more} is {text}; bronze has {count_of(size, 'line')} of it")


def _all_files(bronze: DataFrame) -> list[str]:
    return [file for (file,) in bronze.where(F.col("file").isNotNull()).select("file").distinct().collect()]


def _bronze_line(rows: DataFrame) -> BronzeLine | None:
    """Return one row, always the same one, with the number of rows equal to it; None if there is no row."""
    frame = rows.orderBy("ingested_at", "value").limit(1).localCheckpoint()
    row = next(iter(values(frame)), None)
    if row is None:
        return None
    line = None if row["value"] is None else base64.b64decode(row["value"])
    same = rows.where(F.col("value").eqNullSafe(F.lit(line)))
    if row.get("file_id") is None:
        equal, batches = same.agg(F.count(F.lit(1)), F.count_distinct("ingested_at")).collect()[0]
        return BronzeLine(frame, row, line, equal, batches)
    # a growing file can get equal lines in several batches, but each of its bytes is read in one
    same = same.join(frame.select("file_id"), "file_id", "left_semi")
    batches = max(group[1] for group in same.groupBy("file_offset").agg(F.count_distinct("ingested_at")).collect())
    equal = same.join(frame.select("ingested_at"), "ingested_at", "left_semi").count()
    return BronzeLine(frame, row, line, equal, batches)


def _files(bronze: DataFrame, query: FileLine) -> list[str]:
    """Return the files of bronze whose name, encoded or decoded, is before a colon in the argument."""
    file = F.col("file")
    decoded = F.coalesce(F.try_url_decode(F.replace(file, F.lit("+"), F.lit("%2B"))), file)
    text = F.lit(os.fsencode(query.text).decode("utf-8", "replace"))  # Spark accepts only valid UTF-8
    named = (F.contains(text, F.concat(_after_slash(column), F.lit(":"))) for column in (file, decoded))
    files = bronze.where(file.isNotNull()).select("file").distinct().where(reduce(or_, named)).collect()
    return sorted(name for (name,) in files)


def _after_slash(file: Column) -> Column:
    return F.substring_index(file, "/", -1)


def _is(file: str, line: bytes) -> Column:
    """Match a line, also with a trailing \\r, which is lost when the line is copied from a screen.

    The first line of a record of several lines is enough.
    """
    value, ends = F.col("value"), (b"", b"\r")
    whole = reduce(or_, (value == F.lit(line + end) for end in ends))
    begun = reduce(or_, (value.startswith(F.lit(line + end + b"\n")) for end in ends))
    return (F.col("file") == F.lit(file)) & (whole | begun)


def _name(file: str) -> str:
    return file.rsplit("/", 1)[-1]


def _bronze_has(names: list[str]) -> str:
    return f"bronze has {listed(names)}" if names else ""
