"""Rows of Delta tables by SQL that Spark and DuckDB understand alike: without Spark where that is possible.

delta-rs opens a table, and DuckDB reads its data files and computes, in a stream over the files. DuckDB is chosen over
Polars and over Arrow: it shares its SQL with Spark, and what does not fit into memory goes to disk. Where delta-rs
cannot read a table (a catalog, a store, a feature of Delta), or it or DuckDB is missing, Spark does all of it.

The data files are not read as a dataset of Arrow, nor values given to DuckDB as parameters: both import pandas, which
takes longer than most queries.
"""

import base64
import json
import re
import tempfile
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql import DataFrame, SparkSession

from oncelake.common import tables
from oncelake.common.errors import OncelakeError
from oncelake.common.lake import listed_files, local_path, micros, opened_by_delta_rs
from oncelake.common.spark.rows import Count

if TYPE_CHECKING:
    import pyarrow
    from deltalake import DeltaTable
    from duckdb import DuckDBPyConnection

# A value's place in the text of a query, and that of a table.
_VALUE, _TABLE = re.compile(r":([a-z]\w*)"), re.compile(r"\{(\w+)\}")
_PLACE = re.compile(f"{_VALUE.pattern}|{_TABLE.pattern}")
# What Delta's readers before its table features can do; version 2 adds the mapping of columns, which Arrow lacks.
_PLAIN_READER, _FEATURES = 1, frozenset({"timestampNtz"})
# The values of a query, by name.
Values = dict[str, Any]
# A table's path, or its quoted name in a catalog, and its version; None for the newest one.
TableVersion = tuple[str, int | None]
# A column of times, and the first and the last one that are asked for.
Between = tuple[str, datetime, datetime]
# The characters of a pattern in a path, as DuckDB reads it.
_PATTERN = re.compile(r"[*?\[]")
Answer = TypeVar("Answer")
# The rows of a stream that are in memory at once.
ROWS_AT_ONCE = 100_000
# Functions that DuckDB has under another name, or with other results before 1970 and at the ends of a timestamp.
_AS_IN_SPARK = (
    "explode(list) AS unnest(list)",
    "struct(a, b, c, d, e) AS row(a, b, c, d, e)",
    "get(list, number) AS list[number + 1]",
    "pmod(a, b) AS ((a % b) + b) % b",
    # DuckDB takes the first and the last moment for infinity
    "unix_micros(t) AS coalesce(epoch_us(t), CASE WHEN isinf(t) THEN "
    "CASE WHEN t > TIMESTAMPTZ '2000-01-01 00:00:00+00' THEN 9223372036854775807 ELSE -9223372036854775807 END END)",
    "unix_millis(t) AS (unix_micros(t) - pmod(unix_micros(t), 1000)) // 1000",
    "unix_seconds(t) AS (unix_micros(t) - pmod(unix_micros(t), 1000000)) // 1000000",
    "timestamp_millis(ms) AS make_timestamptz(ms * 1000)",
    "timestamp_micros(us) AS make_timestamptz(us)",
    "validate_utf8(t) AS decode(encode(t))",
    "monotonically_increasing_id() AS row_number() OVER ()",
    "xxhash64(a, b) AS CAST(hash(a, b) >> 1 AS BIGINT)",
)
# The name of a row's data file, as Spark has it.
_FILE = "file_name"
# Statistics of times are cut to milliseconds, which have this number of microseconds.
_CUT = 1000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 24 * 3600 * 1_000_000
# The Gregorian calendar repeats after 400 years, which have this number of days.
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
# The days of the years 1 to 9999, counted from 1970.
_DAYS = range((datetime.min.replace(tzinfo=UTC) - _EPOCH).days, (datetime.max.replace(tzinfo=UTC) - _EPOCH).days + 1)
_MICROSECOND = timedelta(microseconds=1)
# Delta's types in DuckDB, without those that have the same name there, and those with parts.
_TYPES = {
    "string": "VARCHAR",
    "long": "BIGINT",
    "short": "SMALLINT",
    "byte": "TINYINT",
    "binary": "BLOB",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
}
_NO_NUMBERS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


class SparkNeededError(Exception):
    """Raised when only Spark can answer a query whose values Spark's plans must not show."""


@dataclass(frozen=True)
class FileStatistics:
    """A data file of a table, as the Delta log describes it.

    Attributes:
        name: its name, without directories.
        path: its path.
        size: its bytes.
        rows: its rows; None if the log does not say it.
        times: by column of times, the first and the last one in microseconds since 1970, cut to milliseconds; a column
            whose times are not in the log is left out.
    """

    name: str
    path: str
    size: int
    rows: int | None
    times: Mapping[str, tuple[int, int]]

    def can_hold(self, between: Between) -> bool:
        """Return True if the file can have a row with one of some times."""
        column, begin, end = between
        first, last = self.times.get(column, (None, None))
        if first is None or last is None:
            return True
        return first - _CUT <= _micros(end) and _micros(begin) <= last + _CUT


# Chooses data files.
Chosen = Callable[[FileStatistics], bool]


@dataclass
class TableRows:
    """Answers queries over tables, each at its newest version when it is first asked for.

    Attributes:
        spark: returns the session; called only for a table that needs it.
        with_spark: True if Spark is to read every table.
    """

    spark: Callable[[], SparkSession]
    with_spark: bool = False
    _opened: dict[TableVersion, "_OpenTable | None"] = field(default_factory=dict, init=False, repr=False)

    def query(
        self,
        text: str,
        at: str,
        /,
        *,
        version: int | None = None,
        ingested_at: datetime | None = None,
        secret: bool = False,
        **values: Any,
    ) -> "pyarrow.Table":
        """Return the rows of a query.

        Args:
            text: the query in SQL that Spark and DuckDB understand alike: `{rows}` is the table, `:name` a value.
            at: the path of the table, or its quoted name in a catalog.
            version: a version of the table; None for the newest one.
            ingested_at: only rows with this time are asked for, so that other data files need not be opened; it is
                also a value of the query.
            secret: True if Spark, whose plans show the values, must not see them.
            values: the values, by name.

        Raises:
            SparkNeededError: only Spark can answer, and the values are secret.
        """
        return self.query_all(text, {"rows": (at, version)}, ingested_at=ingested_at, secret=secret, **values)

    def query_all(
        self,
        text: str,
        versions: Mapping[str, TableVersion],
        /,
        *,
        ingested_at: datetime | None = None,
        secret: bool = False,
        **values: Any,
    ) -> "pyarrow.Table":
        """Return the rows of a query over several tables, see `query`.

        Args:
            text: the query.
            versions: the tables, by their names in the text, without the braces.
            ingested_at: see `query`.
            secret: see `query`.
            values: the values, by name.

        Raises:
            SparkNeededError: only Spark can answer, and the values are secret.
        """
        values |= {"ingested_at": ingested_at} if ingested_at else {}
        answer = self._by_duckdb(_arrow_table, text, versions, values, _chosen(_at(ingested_at)))
        if answer is not None:
            return answer
        if secret:  # guard: secret-values-not-in-plan
            raise SparkNeededError
        return self._by_spark(text, {name: self.frame(*table) for name, table in versions.items()}, values)

    def records(
        self,
        text: str,
        versions: Mapping[str, TableVersion],
        /,
        *,
        between: Between | None = None,
        only_spark: bool = False,
        **values: Any,
    ) -> list[dict[str, Any]]:
        """Return the rows of a query over several tables whose columns are numbers, texts, bytes and truth values.

        A structure is a tuple. Unlike `query_all`, it needs no pyarrow, whose import takes longer than most queries.

        Args:
            text: the query.
            versions: see `query_all`.
            between: only rows with these times are asked for, so that other data files need not be opened.
            only_spark: True if the query has another answer in DuckDB than in Spark.
            values: the values, by name.
        """
        answer = None if only_spark else self.without_spark(text, versions, between=between, **values)
        if answer is not None:
            return answer
        frames = {name: self.frame(*table) for name, table in versions.items()}
        return [row.asDict() for row in self.spark().sql(text, _used(text, values), **frames).collect()]

    def without_spark(
        self,
        text: str,
        versions: Mapping[str, TableVersion],
        /,
        *,
        ingested_at: datetime | None = None,
        between: Between | None = None,
        files: Container[str] | None = None,
        **values: Any,
    ) -> list[dict[str, Any]] | None:
        """Return the rows of a query that only DuckDB needs to understand; None if it or a table needs Spark.

        Args:
            text: the query.
            versions: see `query_all`.
            ingested_at: see `query`.
            between: see `records`, as for the columns.
            files: the names of the data files to read; None for all.
            values: the values, by name.
        """
        values |= {"ingested_at": ingested_at} if ingested_at else {}
        return self._by_duckdb(_records, text, versions, values, _chosen(between or _at(ingested_at), files))

    def total(self, number: Count, column: str, at: TableVersion, condition: str) -> int:
        """Return a number of the rows of a table that meet a condition, in a stream over the values of a column."""
        table = self._table(*at)
        if table is not None:
            text = f"SELECT t.{column} FROM {{rows}} t WHERE {condition}"
            with suppress(*_failures()), self._answer(text, {"rows": table.sql()}, {}) as answer:
                return sum(map(number.of_table, answer.to_arrow_reader(ROWS_AT_ONCE)))
        return int(self.frame(*at).where(condition).agg(number.of_frame()).collect()[0][0])

    def frame(self, at: str, version: int | None = None) -> DataFrame:
        """Return a table's rows as Spark reads them."""
        spark = self.spark()
        return tables.read(spark, at) if version is None else tables.read_version(spark, at, version)

    def columns(self, at: str, version: int | None = None) -> Sequence[str]:
        """Return the names of a table's columns."""
        table = self._table(at, version)
        if table is None:
            return self.frame(at, version).columns
        return [column["name"] for column in table.columns]

    def files(self, at: str, version: int | None = None) -> list[FileStatistics] | None:
        """Return the data files of a table as the Delta log describes them; None if Spark reads the table."""
        table = self._table(at, version)
        if table is None:
            return None
        try:
            return table.files
        except _failures():
            return None

    def by_spark(self, at: str) -> bool:
        """Return True if Spark reads a table; its plans show the values of a query."""
        return self._table(at) is None

    def by_file(
        self, condition: str, at: str, names: Container[str], /, *, ingested_at: datetime | None = None, **values: Any
    ) -> dict[str, "pyarrow.Table"]:
        """Return the rows of some data files that meet a condition, by the file's name, see `query`."""
        text = f"SELECT * FROM {{rows}} t WHERE {condition}"
        values |= {"ingested_at": ingested_at} if ingested_at else {}
        chosen = [file.name for file in self.files(at) or () if file.name in names]
        by_name = {
            name: self._by_duckdb(_arrow_table, text, {"rows": (at, None)}, values, _chosen(_at(ingested_at), [name]))
            for name in chosen
        }
        parts = {name: part for name, part in by_name.items() if part is not None}
        if not self.by_spark(at) and len(parts) == len(chosen):
            return {name: part for name, part in parts.items() if part.num_rows}
        rows = self._by_spark(text, {"rows": self.frame(at).select("*", f"_metadata.{_FILE}")}, values)
        places = _places(rows[_FILE].to_pylist())
        return {name: rows.take(numbers) for name, numbers in places.items() if name in names}

    def _table(self, at: str, version: int | None = None) -> "_OpenTable | None":
        """Return the table as delta-rs has it open; None if Spark must read it."""
        if (at, version) not in self._opened:
            self._opened[at, version] = None if self.with_spark else _open(at, version)
        return self._opened[at, version]

    @cached_property
    def _spilled(self) -> "tempfile.TemporaryDirectory[str]":
        """A directory that no other process has, and nobody else can read."""
        return tempfile.TemporaryDirectory(prefix="oncelake-duckdb-")

    @cached_property
    def _connection(self) -> "DuckDBPyConnection":
        import duckdb  # noqa: PLC0415 - not everywhere

        connection = duckdb.connect(config={"temp_directory": self._spilled.name})
        connection.execute("SET TimeZone = 'UTC'")
        for macro in _AS_IN_SPARK:
            connection.execute(f"CREATE MACRO {macro}")
        return connection

    def _by_duckdb(
        self,
        read: "Callable[[DuckDBPyConnection], Answer]",
        text: str,
        versions: Mapping[str, TableVersion],
        values: Values,
        chosen: Chosen,
    ) -> Answer | None:
        """Return DuckDB's answer to a query; None if it or a table needs Spark."""
        opened = {name: self._table(*table) for name, table in versions.items()}
        readable = {name: table for name, table in opened.items() if table is not None}
        if len(readable) < len(versions):
            return None
        try:
            rows = {name: table.sql(chosen) for name, table in readable.items()}
            with self._answer(text, rows, values) as answer:
                return read(answer)
        except _failures():  # guard: failed-query-by-spark
            return None

    @contextmanager
    def _answer(self, text: str, rows: Mapping[str, str], values: Values) -> "Iterator[DuckDBPyConnection]":
        """Yield DuckDB's answer to a query over rows in its SQL."""

        def put(match: re.Match[str]) -> str:
            value, table = match.groups()
            return rows[table] if value is None else _literal(values[value])

        with self._connection.cursor() as connection:
            yield connection.execute(_PLACE.sub(put, text))

    def _by_spark(self, text: str, frames: Mapping[str, DataFrame], values: Values) -> "pyarrow.Table":
        if find_spec("pyarrow") is None:
            raise OncelakeError(
                "this Python has no pyarrow, in which rows are read; install pyarrow or oncelake[local]"
            )
        return self.spark().sql(text, _used(text, values), **frames).toArrow()


def _failures() -> tuple[type[Exception], ...]:
    """Return the errors of what reads and computes without Spark; Spark then says whether the table can be read."""
    import duckdb  # noqa: PLC0415 - not everywhere
    from deltalake.exceptions import DeltaError  # noqa: PLC0415 - not everywhere

    return duckdb.Error, DeltaError, OSError


def _used(text: str, values: Values) -> Values:
    """Return the values that a query names: both engines refuse others."""
    return {name: values[name] for name in _VALUE.findall(text)}


def named(values: Values, value: Any) -> str:
    """Add a value to those of a query; return its place in the text."""
    name = f"v{len(values)}"
    values[name] = value
    return f":{name}"


def same(column: str, value: Any, values: Values) -> str:
    """Return the condition that a column has a value, which may be null, and add the value to those of a query."""
    return f"{column} IS NULL" if value is None else f"{column} = {named(values, value)}"


def _places(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the places of each name."""
    places: dict[str, list[int]] = {}
    for number, name in enumerate(names):
        places.setdefault(name, []).append(number)
    return places


@dataclass(frozen=True)
class _OpenTable:
    """A version of a table that DuckDB can read.

    Attributes:
        at: its path.
        delta: the table as delta-rs has it open.
    """

    at: str
    delta: "DeltaTable"

    @cached_property
    def columns(self) -> list[dict[str, Any]]:
        """Its columns, with their types in Delta's words."""
        return list(json.loads(self.delta.schema().to_json())["fields"])

    @cached_property
    def files(self) -> list[FileStatistics]:
        """Its data files, as the Delta log describes them."""
        from arro3.core import DataType  # noqa: PLC0415 - delta-rs brings it

        actions = listed_files(self.delta)
        columns = (name.removeprefix("min.") for name in actions.column_names if name.startswith("min."))
        ends = {
            column: [micros(actions[f"{end}.{column}"]) for end in ("min", "max")]
            for column in columns
            if DataType.is_timestamp(actions[f"min.{column}"].type)
        }
        parts = (actions[name].to_pylist() for name in ("path", "size_bytes", "num_records"))
        files = []
        for number, (name, size, rows) in enumerate(zip(*parts, strict=True)):
            of_file = {column: (first[number], last[number]) for column, (first, last) in ends.items()}
            known = {column: (first, last) for column, (first, last) in of_file.items() if None not in (first, last)}
            path = str(Path(self.at, local_path(name)))  # a shallow clone has files of another table
            files.append(FileStatistics(name.rsplit("/", 1)[-1], path, size, rows, known))
        return files

    def sql(self, chosen: Chosen = bool) -> str:
        """Return in DuckDB's SQL the rows of some data files, with the columns and types of the table.

        DuckDB is not given the statistics in the Delta log, as they are not exact: times are cut to milliseconds,
        decimals may be floats, and bounds leave out NaN.

        Args:
            chosen: only files for which this is true.
        """
        paths = [file.path for file in self.files if chosen(file)]
        types = {column["name"]: _type(column["type"]) for column in self.columns}
        if not paths:
            empty = (f"CAST(NULL AS {kind}) AS {_quoted(name)}" for name, kind in types.items())
            return f"(SELECT {', '.join(empty)} WHERE false)"
        # a file from before a column was added lacks it
        columns = (
            f"{_literal(name)}: {{name: {_literal(name)}, type: {_literal(kind)}, default_value: NULL}}"
            for name, kind in types.items()
        )
        listed = ", ".join(_literal(_PATTERN.sub(r"[\g<0>]", path)) for path in paths)
        return f"read_parquet([{listed}], schema = MAP {{{', '.join(columns)}}})"


def _chosen(between: Between | None, names: Container[str] | None = None) -> Chosen:
    """Return what is true for files that can have a row with some times, and have one of some names; None for all."""
    return lambda file: (between is None or file.can_hold(between)) and (names is None or file.name in names)


def _arrow_table(answer: "DuckDBPyConnection") -> "pyarrow.Table":
    return answer.to_arrow_table()


def _records(answer: "DuckDBPyConnection") -> list[dict[str, Any]]:
    names = [column[0] for column in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def _type(kind: Any) -> str:
    """Return a type of Delta as DuckDB names it."""
    if isinstance(kind, str):
        return _TYPES.get(kind, kind)
    if kind["type"] == "array":
        return f"{_type(kind['elementType'])}[]"
    if kind["type"] == "map":
        return f"MAP({_type(kind['keyType'])}, {_type(kind['valueType'])})"
    parts = (f"{_quoted(part['name'])} {_type(part['type'])}" for part in kind["fields"])
    return f"STRUCT({', '.join(parts)})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: str | bytes | int | datetime | list[Any] | None) -> str:
    """Return a value in DuckDB's SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, datetime):
        return f"make_timestamptz({_micros(value)})"
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    if isinstance(value, str):  # a NUL would end the query
        return f"decode({_literal(value.encode())})" if "\0" in value else "'" + value.replace("'", "''") + "'"
    assert isinstance(value, int), f"a value of type {type(value).__name__} has no literal"
    return f"({value})"


def _open(at: str, version: int | None) -> _OpenTable | None:
    """Open a table with delta-rs; return None if its rows cannot be read without Spark."""
    if any(find_spec(name) is None for name in ("duckdb", "pyarrow")):
        return None
    table = opened_by_delta_rs(at, version)
    # guard: partitioned-table-by-spark
    if table is None or table.metadata().partition_columns:  # partitions' values are in the log, not in the files
        return None
    protocol = table.protocol()
    features = protocol.reader_features
    is_plain = protocol.min_reader_version == _PLAIN_READER
    has_features = is_plain or (features is not None and _FEATURES.issuperset(features))
    return _OpenTable(at, table) if has_features else None


def _at(ingested_at: datetime | None) -> Between | None:
    return None if ingested_at is None else ("ingested_at", ingested_at, ingested_at)


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


def plain_rows(rows: "pyarrow.Table") -> list[dict[str, Any]]:
    """Return rows as values for JSON: times in UTC as ISO 8601 with microseconds, bytes as base64, maps as objects."""
    return [
        dict(zip(rows.column_names, values, strict=True))
        for values in zip(*([plain(value) for value in column] for column in rows.columns), strict=True)
    ]


def plain(value: "pyarrow.Scalar") -> Any:
    """Return a value as `plain_rows` does."""
    if not value.is_valid:
        return None
    kind = str(value.type).split("[")[0].split("<")[0].split("(")[0]
    return _PLAIN.get(kind, lambda scalar: scalar.as_py())(value)


def picked(rows: "pyarrow.Table", mask: Sequence[bool]) -> "pyarrow.Table":
    """Return the rows for which a mask is true; Arrow's own filter imports pandas for a list."""
    import pyarrow  # noqa: PLC0415 - not everywhere

    parts = (rows.slice(number, 1) for number, is_wanted in enumerate(mask) if is_wanted)
    return pyarrow.concat_tables([rows.slice(0, 0), *parts])


def time_text(time: datetime) -> str:
    """Return a time as `plain_rows` does."""
    return _time(_micros(time))


def _number(value: "pyarrow.Scalar") -> float | int | str:
    """Return a number as Spark writes it in JSON, which has no NaN and no infinity."""
    text = str(value.cast("string"))  # the digits that the type has: 0.1 of 32 bits is not 0.10000000149
    if text in _NO_NUMBERS:
        return _NO_NUMBERS[text]
    return int(text) if text.lstrip("-").isdigit() and not isinstance(value.as_py(), float) else float(text)


def _time(micros: int) -> str:
    """Return a number of microseconds since 1970 as a text; Python's own times end with the year 9999."""
    days, of_day = divmod(micros, _DAY)
    cycles = 0 if days in _DAYS else days // _CYCLE_DAYS
    moment = _EPOCH + timedelta(days=days - cycles * _CYCLE_DAYS, microseconds=of_day)
    year = moment.year + cycles * _CYCLE_YEARS
    shown = f"{year:04d}" if 0 <= year <= 9999 else f"{year:+05d}"
    return f"{shown}-{moment:%m-%dT%H:%M:%S.%f}Z"


# By the name of the Arrow type, without its parameters.
_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "timestamp": lambda value: _time(value.value // {"us": 1, "ns": 1_000}[value.type.unit]),
    "date32": lambda value: value.as_py().isoformat(),
    "map": lambda value: {plain(pair["key"]): plain(pair["value"]) for pair in value.values},
    "struct": lambda value: {name: plain(item) for name, item in value.items()},
    **dict.fromkeys(("binary", "large_binary"), lambda value: base64.b64encode(value.as_py()).decode()),
    **dict.fromkeys(("list", "large_list"), lambda value: [plain(item) for item in value.values]),
    **dict.fromkeys(("float", "double", "halffloat", "decimal128", "decimal256"), _number),
}
