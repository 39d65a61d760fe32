"""Readers of Delta tables, and filters on columns of each type that gold and a user's column can have.

DuckDB reads by its extension delta if it is installed (`duckdb-extension-delta`), or else files of an Arrow dataset.
"""

import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Protocol

import duckdb
import polars
import pyarrow
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

ROW = "row"
LONG = "x" * 70
NAN = math.nan

# Per type of Spark, its values: the least, the greatest, and those that writers or readers once got wrong.
VALUES: Mapping[str, Sequence[Any]] = {
    "string": ("", " ", "a", "a ", "é", "\uffff", "\U0010ffff", f"{LONG}a", f"{LONG}\U0010ffff", "nul\0"),
    "binary": (b"", b"\0", b"\x7f", b"\x80", b"\xff" * 70),
    "boolean": (False, True),
    "tinyint": (-(2**7), 0, 2**7 - 1),
    "smallint": (-(2**15), 0, 2**15 - 1),
    "int": (-(2**31), 0, 2**31 - 1),
    "bigint": (-(2**63), 0, 2**53 + 1, 2**63 - 1),
    "float": (-math.inf, 0.0, 1.401298464324817e-45, 3.4028234663852886e38, math.inf, NAN),
    "double": (-math.inf, 0.0, 5e-324, 1.7976931348623157e308, math.inf, NAN),
    "decimal(15,2)": (Decimal("-9999999999999.99"), Decimal("0.00"), Decimal("9999999999999.99")),
    "decimal(38,12)": (
        *(Decimal("-99999999999999999999999999.999999999999"), Decimal("-900719925474.993127000000")),
        *(Decimal("0.000000000001"), Decimal("99999999999999999999999999.999999999999")),
    ),
    "decimal(38,0)": (Decimal(-(10**38) + 1), Decimal(2**53 + 1), Decimal(10**38 - 1)),
    "date": (date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(1970, 1, 1), date(9999, 12, 31)),
    "timestamp": (
        *(datetime(1, 1, 1, tzinfo=UTC), datetime(1582, 10, 4, 23, 59, 59, 999999, UTC)),
        *(datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(2017, 7, 30, 14, 9, 8, 123456, UTC)),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
    ),
}
FILTERS = ("=", "<=", ">=", "IN", "IS NULL")
COLUMNS = {kind: f"c_{place}" for place, kind in enumerate(VALUES)}
_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
_TYPES = {"log_time": "timestamp", **{name: _NAMES.get(kind, kind) for kind, name in COLUMNS.items()}, ROW: "integer"}
SCHEMA = StructType.fromJson(
    {"fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _TYPES.items()]}
)


@dataclass(frozen=True)
class Filter:
    """A condition on a column.

    Attributes:
        kind: the column's type.
        operator: one of `FILTERS`.
        values: the values on its right side.
    """

    kind: str
    operator: str
    values: Sequence[Any] = ()

    @property
    def column(self) -> str:
        return COLUMNS[self.kind]

    def sql(self, literal: Callable[[Any, str], str]) -> str:
        """Return the condition in the SQL of an engine."""
        texts = [literal(value, self.kind) for value in self.values]
        right = f"({', '.join(texts)})" if self.operator == "IN" else "".join(texts)
        return f"{self.column} {self.operator} {right}".strip()

    def __str__(self) -> str:
        return f"{self.kind} {self.operator} {', '.join(map(repr, self.values))}".strip()


def filters() -> list[Filter]:
    """Return the filters: each value alone, each as the end of a range, two values of each type, and null."""
    return [each for kind, values in VALUES.items() for each in _filters(kind, values)]


def _filters(kind: str, values: Sequence[Any]) -> Iterator[Filter]:
    for place, value in enumerate(values):
        yield Filter(kind, "=", (value,))
        yield Filter(kind, "<=" if 2 * place < len(values) else ">=", (value,))
    yield Filter(kind, "IN", (values[0], values[-1]))
    yield Filter(kind, "IS NULL")


def rows() -> list[dict[str, Any]]:
    """Return the rows: in each, a column has one value of its type; after the last value it is null."""
    most = max(map(len, VALUES.values()))
    return [
        {
            "log_time": datetime(2017, 7, 30, tzinfo=UTC),
            **{COLUMNS[kind]: values[row] if row < len(values) else None for kind, values in VALUES.items()},
            ROW: row,
        }
        for row in range(most + 1)
    ]


class Reader(Protocol):
    """A reader that finds the rows of filters; each filter is a query of its own, so that it may skip files."""

    def found(self, path: Path, asked: Sequence[Filter]) -> list[frozenset[int]]:
        """Return the numbers of the rows that each filter finds in a table."""


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value.replace(tzinfo=None).isoformat(sep=' ', timespec='microseconds')}"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return value.isoformat() if isinstance(value, date) else str(value)


@dataclass(frozen=True)
class Spark:
    """Spark's SQL; several filters are one query of several scans."""

    spark: SparkSession
    together: int = 25

    def found(self, path: Path, asked: Sequence[Filter]) -> list[frozenset[int]]:
        found: list[set[int]] = [set() for _ in asked]
        self.spark.conf.set("spark.sql.codegen.wholeStage", "false")  # each query would be compiled
        table = self.spark.read.format("delta").load(str(path))
        scans = [table.where(each.sql(self._literal)).select(F.lit(number), ROW) for number, each in enumerate(asked)]
        for start in range(0, len(scans), self.together):
            for number, row in reduce(DataFrame.unionAll, scans[start : start + self.together]).collect():
                found[number].add(row)
        self.spark.conf.unset("spark.sql.codegen.wholeStage")
        return [*map(frozenset, found)]

    @staticmethod
    def _literal(value: Any, kind: str) -> str:
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        if isinstance(value, str):
            return f"CAST(X'{value.encode().hex()}' AS STRING)"
        zone = "Z" if isinstance(value, datetime) else ""
        return f"CAST('{_text(value)}{zone}' AS {kind})"


class DeltaRs:
    """The SQL of delta-rs, which is that of DataFusion."""

    _TYPES: Mapping[str, str] = {
        "string": "Utf8",
        "boolean": "Boolean",
        "tinyint": "Int8",
        "smallint": "Int16",
        "int": "Int32",
        "bigint": "Int64",
        "float": "Float32",
        "double": "Float64",
        "date": "Date32",
        "timestamp": 'Timestamp(Microsecond, Some("UTC"))',
    }

    def found(self, path: Path, asked: Sequence[Filter]) -> list[frozenset[int]]:
        engine = QueryBuilder().register("lake", DeltaTable(path))
        said = (engine.execute(f"SELECT {ROW} FROM lake WHERE {each.sql(self._literal)}") for each in asked)
        return [frozenset(pyarrow.table(each)[ROW].to_pylist()) for each in said]

    def _literal(self, value: Any, kind: str) -> str:
        if isinstance(value, bytes):
            return f"X'{value.hex()}'"
        text = f"arrow_cast(X'{value.encode().hex()}', 'Utf8')" if isinstance(value, str) else f"'{_text(value)}'"
        into = kind.replace("decimal", "Decimal128").replace(",", ", ")
        return f"arrow_cast({text}, '{self._TYPES.get(kind, into)}')"


class Polars:
    """Polars' lazy scan of a Delta table."""

    def found(self, path: Path, asked: Sequence[Filter]) -> list[frozenset[int]]:
        scan = polars.scan_delta(str(path))
        types = scan.collect_schema()
        plans = [scan.filter(self._condition(each, types[each.column])).select(ROW) for each in asked]
        return [frozenset(each[ROW].to_list()) for each in polars.collect_all(plans)]

    @staticmethod
    def _condition(asked: Filter, kind: polars.DataType) -> polars.Expr:
        column = polars.col(asked.column)
        if asked.operator == "IS NULL":
            return column.is_null()
        if asked.operator == "IN":
            return column.is_in(polars.lit(polars.Series(asked.values, dtype=kind)).implode())
        value = polars.lit(asked.values[0], dtype=kind)
        return {"=": column == value, "<=": column <= value, ">=": column >= value}[asked.operator]


class DuckDB:
    """DuckDB's scan of a Delta table, or of an Arrow dataset of its files."""

    @cached_property
    def extension(self) -> Path | None:
        """Return the file of the extension delta for this version of DuckDB; None if it is not installed."""
        package = importlib.util.find_spec("duckdb_extension_delta")
        if package is None or package.origin is None:
            return None
        place = Path(package.origin).parent / "extensions" / f"v{duckdb.__version__}" / "delta.duckdb_extension"
        return place if place.exists() else None

    def found(self, path: Path, asked: Sequence[Filter]) -> list[frozenset[int]]:
        with duckdb.connect(config={"autoinstall_known_extensions": False}) as connection:
            source = "lake"
            if self.extension is not None:
                connection.execute(f"LOAD '{self.extension}'")
                source = f"delta_scan('{path}')"
            else:
                connection.register("lake", DeltaTable(path).to_pyarrow_dataset())
            said = (f"SELECT {ROW} FROM {source} WHERE {each.sql(self._literal)}" for each in asked)
            return [frozenset(row for (row,) in connection.execute(each).fetchall()) for each in said]

    @staticmethod
    def _literal(value: Any, kind: str) -> str:
        if isinstance(value, bytes | str):
            raw = value if isinstance(value, bytes) else value.encode()
            blob = f"from_hex('{raw.hex()}')"
            return blob if isinstance(value, bytes) else f"decode({blob})"
        zone = "+00" if isinstance(value, datetime) else ""
        return f"CAST('{_text(value)}{zone}' AS {'TIMESTAMPTZ' if zone else kind})"


# Reads with Spark and each other reader; the table of docs/gold.md has their names.
READERS: Mapping[str, Callable[[SparkSession], Reader]] = {
    "Spark": Spark,
    "delta-rs": lambda _: DeltaRs(),
    "Polars": lambda _: Polars(),
    "DuckDB": lambda _: DuckDB(),
}
# Who writes the files of a batch: delta-rs, Spark for a commit of delta-rs, or Spark's Delta writer.
WRITERS = ("delta-rs", "files", "Spark")
# The columns with bounds in a Delta log, as silver and gold have them.
STATS = {"delta.dataSkippingStatsColumns": "log_time"}
