"""Lookup of the line to trace in bronze; if it is missing, the error says what bronze holds."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from oncelake.bronze.mask import Mask
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.table_rows import SparkNeededError, TableRows, Values, named, plain_rows, same
from oncelake.common.wording import count_of, listed, shown
from oncelake.silver.schema import SOURCE

if TYPE_CHECKING:
    import pyarrow

_POSITION = re.compile(r"([a-zA-Z0-9._-]{1,249})/(\d{1,10})/(\d{1,19})", re.ASCII)
_ACCEPTED = "topic/partition/offset, as alog/0/1234, or file:line, as 'app.log:2017-07-30 14:09:08 ERROR some message'"


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


class NoFileError(OncelakeError):
    """Raised when no file in a bronze table has the name that a query has.

    Attributes:
        place: the query for a message.
        names: the names of the files in the table.
    """

    def __init__(self, place: object, names: Sequence[str]) -> None:
        super().__init__(place, names)
        self.place, self.names = place, names


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
class BronzeRows:
    """The rows of a bronze table.

    Attributes:
        rows: answers queries over the lake's tables.
        at: the table's place.
        source: the name of the table's source, if silver's rows have one.
        secret: whether the values of the queries are secret, see `TableRows.query`.
    """

    rows: TableRows
    at: str
    source: str | None = None
    secret: bool = False

    def query(self, text: str, **values: Any) -> "pyarrow.Table":
        """Return the rows of a query, see `TableRows.query`."""
        return self.rows.query(text, self.at, secret=self.secret, **values)

    def column(self, text: str, **values: Any) -> list[Any]:
        """Return the only column of a query's rows."""
        (column,) = self.query(text, **values).to_pydict().values()
        return list(column)

    @property
    def columns(self) -> Sequence[str]:
        """The names of the table's columns."""
        return self.rows.columns(self.at)


@dataclass(frozen=True)
class BronzeLine:
    """A line in bronze.

    Attributes:
        table: one row of bronze, as Arrow has it.
        row: its values for JSON, and the name of its source if silver's rows have one.
        content: its bytes, None for a Kafka record without a value.
        ingested_at: when its batch was planned.
        equal: how many rows have the same line and origin; a file can have equal lines, as its lines have no number.
            Of a growing file, only those of the same batch.
        batches: how many batches these rows come from; a correct lake reads a position or a file in one batch.
    """

    table: "pyarrow.Table"
    row: Mapping[str, Any]
    content: bytes | None
    ingested_at: datetime
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


def find(bronze: BronzeRows, query: LineQuery, masks: Masks | None = None) -> BronzeLine:
    """Find a line in bronze.

    Args:
        bronze: bronze's rows.
        query: the line.
        masks: the rules that lines of the lake were masked with; None if no line was.

    Raises:
        NoFileError: the table has no such file.
        OncelakeError: the line is not in bronze, or several files contain it; the message says what bronze holds.
    """
    if isinstance(query, Position):
        return _record(bronze, query)
    try:
        return _line(replace(bronze, secret=masks is not None), query, masks, hashed=False)
    except SparkNeededError:
        return _line(bronze, query, masks, hashed=True)


def _record(bronze: BronzeRows, query: Position) -> BronzeLine:
    place = {"topic": query.topic, "partition": query.partition, "offset": query.offset}
    bronze_line = _bronze_line(bronze, "t.topic = :topic AND t.partition = :partition AND t.offset = :offset", place)
    if bronze_line is not None:
        return bronze_line
    bounds = bronze.query(
        "SELECT t.topic, t.partition, min(t.offset) AS first, max(t.offset) AS last FROM {rows} t "
        "WHERE t.topic IS NOT NULL GROUP BY t.topic, t.partition ORDER BY t.topic, t.partition"
    )
    ranges = ["{topic}/{partition}/{first} to {last}".format(**bound) for bound in bounds.to_pylist()]
    raise OncelakeError(f"{query} is not in bronze; {bronze_has(ranges) or 'bronze has no line from Kafka'}")


def _line(bronze: BronzeRows, query: FileLine, masks: Masks | None, *, hashed: bool) -> BronzeLine:
    """Find a line of a file; if lines are masked, no message has the line's own text, and Spark's plans have a hash."""
    files = bronze.column("SELECT DISTINCT t.file FROM {rows} t WHERE t.file IS NOT NULL ORDER BY t.file")
    candidates = {file: lines for file in files if (lines := query.lines_of(file))}
    if not candidates:
        raise NoFileError(query if masks is None else "LINE", sorted(map(_name, files)))
    values: Values = {}
    matches = [
        f"t.file = {named(values, file)} AND ({_is(form, values, hashed=hashed)})"
        for file, lines in candidates.items()
        for line in lines
        for form in (masks.forms(line) if masks is not None else [line])
    ]
    condition = " OR ".join(f"({match})" for match in matches)
    holding = bronze.column(f"SELECT DISTINCT t.file FROM {{rows}} t WHERE {condition} ORDER BY t.file", **values)
    some, lines = next(iter(candidates.items()))
    text = masks.shown(lines[0]) if masks is not None else shown(lines[0].decode("utf-8", "backslashreplace"))
    if len(holding) > 1:
        subject = query if masks is None else text
        raise OncelakeError(f"several files contain {subject}: {listed(holding)}; give more of the path")
    bronze_line = _bronze_line(bronze, condition, values)
    if bronze_line is not None:
        return bronze_line
    (size,) = bronze.column("SELECT count(*) FROM {rows} t WHERE t.file = :file", file=some)
    more = f" (nor of {len(candidates) - 1} more)" if len(candidates) > 1 else ""
    hint = "; name a line by its text, not by its number" if lines[0].strip().isdigit() else ""
    raise OncelakeError(f"no line of {some}{more} is {text}; bronze has {count_of(size, 'line')} of it{hint}")


def _bronze_line(bronze: BronzeRows, condition: str, values: Mapping[str, Any]) -> BronzeLine | None:
    """Return one row, always the same one, with the number of rows equal to it; None if there is no row."""
    order = "t.ingested_at, t.value NULLS FIRST"
    table = bronze.query(f"SELECT * FROM {{rows}} t WHERE {condition} ORDER BY {order} LIMIT 1", **values)
    if not table.num_rows:
        return None
    (row,) = plain_rows(table)
    row |= {SOURCE.name: bronze.source} if bronze.source is not None else {}
    line, ingested_at = table["value"][0].as_py(), datetime.fromisoformat(row["ingested_at"])
    values = {**values}
    of_line = f"({condition}) AND {same('t.value', line, values)}"
    batches = "count(DISTINCT t.ingested_at) AS batches"
    if row.get("file_id") is None:
        ((equal, seen),) = _rows(
            bronze.query(f"SELECT count(*) AS equal, {batches} FROM {{rows}} t WHERE {of_line}", **values)
        )
        return BronzeLine(table, row, line, ingested_at, equal, seen)
    # a growing file can get equal lines in several batches, but each of its bytes is read in one
    of_line, values = f"{of_line} AND t.file_id = :file_id", {**values, "file_id": row["file_id"]}
    per_byte = bronze.column(f"SELECT {batches} FROM {{rows}} t WHERE {of_line} GROUP BY t.file_offset", **values)
    (equal,) = bronze.column(
        f"SELECT count(*) FROM {{rows}} t WHERE {of_line} AND t.ingested_at = :ingested_at",
        ingested_at=ingested_at,
        **values,
    )
    return BronzeLine(table, row, line, ingested_at, equal, max(per_byte))


def _rows(table: "pyarrow.Table") -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _is(line: bytes, values: Values, *, hashed: bool) -> str:
    r"""Return the condition for a line, also with a trailing \r, which is lost when the line is copied from a screen.

    The first line of a record of several lines is enough.

    Args:
        line: the line.
        values: the values of the query; those of the condition are added.
        hashed: True to name the line by its hash only.
    """
    conditions = []
    for whole in (line, line + b"\r"):
        begun = whole + b"\n"
        if hashed:
            start = f"sha2(substring(t.value, 1, {len(begun)}), 256)"
            conditions.append(f"sha2(t.value, 256) = {named(values, sha256(whole).hexdigest())}")
            conditions.append(f"{start} = {named(values, sha256(begun).hexdigest())}")
        else:
            after = whole + bytes([begun[-1] + 1])  # the first text that begins in another way
            conditions.append(f"t.value = {named(values, whole)}")
            conditions.append(f"(t.value >= {named(values, begun)} AND t.value < {named(values, after)})")
    return " OR ".join(conditions)


def _name(file: str) -> str:
    return file.rsplit("/", 1)[-1]


def bronze_has(names: Sequence[str]) -> str:
    """Return what bronze has, for a message; empty if it has nothing."""
    return f"bronze has {listed(names)}" if names else ""
