"""The contract of `quality/results`: the result of each expectation, once per table version and suite."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType, TimestampType

from oncelake.common import tables
from oncelake.common.lake import Table
from oncelake.common.spark.s3 import check_two_drivers
from oncelake.engine.graph import Target
from oncelake.engine.make_table import make_table
from oncelake.exactly_once.delta_log import DeltaLog

RESULTS_TABLE = Table("quality", "results")
RESULTS = StructType(
    [
        StructField("table", StringType(), metadata={"comment": "the table that was audited"}),
        StructField("table_id", StringType(), metadata={"comment": "its Delta id"}),
        StructField("version", LongType(), metadata={"comment": "its version"}),
        StructField("from_version", LongType(), metadata={"comment": "rows since this version; null: all rows"}),
        StructField("suite", StringType(), metadata={"comment": "a short hash of its suite"}),
        StructField("audited_at", TimestampType(), metadata={"comment": "when, UTC"}),
        StructField("rule", StringType(), metadata={"comment": "what the expectation is called"}),
        StructField("type", StringType(), metadata={"comment": "the expectation, as Great Expectations names it"}),
        StructField("columns", ArrayType(StringType()), metadata={"comment": "the columns that it names"}),
        StructField("severity", StringType(), metadata={"comment": "critical, warning or info"}),
        StructField("success", BooleanType(), metadata={"comment": "whether the table meets it"}),
        StructField("rows", LongType(), metadata={"comment": "rows that were looked at; null for some expectations"}),
        StructField("unexpected", LongType(), metadata={"comment": "rows that break it; null where none is judged"}),
        StructField("observed", StringType(), metadata={"comment": "what was found, where it is about a whole column"}),
        StructField("lines", ArrayType(StringType()), metadata={"comment": "some of the rows, as `trace` takes them"}),
        StructField("error", StringType(), metadata={"comment": "why it could not be judged; null when it was"}),
    ]
)
_TARGET = Target(RESULTS_TABLE, lambda _: RESULTS, {})


@dataclass(frozen=True)
class Result:
    """The result of one expectation; the columns of RESULTS that differ per expectation."""

    rule: str
    type: str
    columns: Sequence[str]
    severity: str
    success: bool
    rows: int | None = None
    unexpected: int | None = None
    observed: str | None = None
    lines: Sequence[str] = ()
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dict for JSON."""
        return {**asdict(self), "columns": list(self.columns), "lines": list(self.lines)}


@dataclass(frozen=True)
class AuditedRows:
    """The audited rows and the suite; `from_version` is None if all rows were audited."""

    table: Table
    table_id: str
    version: int
    from_version: int | None
    suite: str


def record(
    spark: SparkSession, path: str, commit_log: DeltaLog, audited: AuditedRows, results: Sequence[Result]
) -> bool:
    """Append an audit's results, unless this version and suite are already recorded.

    Args:
        spark: the session.
        path: the path of RESULTS_TABLE.
        commit_log: the Delta log of RESULTS_TABLE.
        audited: the audited rows and the suite.
        results: one result per expectation.

    Returns:
        True if the results were appended.

    Raises:
        OncelakeError: the table is on a store on which two drivers are not safe, or nothing can be put there.
    """
    check_two_drivers(spark, path)
    make_table(spark, _TARGET, path, commit_log)
    app_id = f"oncelake/validate/{audited.table}/{audited.table_id}/{audited.suite}"
    before, at = commit_log.newest(), datetime.now(UTC)
    common = {**asdict(audited), "table": str(audited.table), "audited_at": at}
    rows = spark.createDataFrame([_row({**common, **result.to_dict()}) for result in results], RESULTS).coalesce(1)
    tables.append(rows.write.option("txnAppId", app_id).option("txnVersion", audited.version), path)
    return commit_log.newest() != before


def last_audited(spark: SparkSession, path: str, commit_log: DeltaLog, table: Table, table_id: str) -> int | None:
    """Return the newest audited version of a table; None if no audit is recorded."""
    if commit_log.newest() is None:
        return None
    rows = tables.read(spark, path).where(f"table = '{table}' AND table_id = '{table_id}'")
    (newest,) = rows.agg({"version": "max"}).collect()[0]
    return int(newest) if newest is not None else None


def _row(values: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(values[name] for name in RESULTS.fieldNames())


def observed(value: Any) -> str | None:
    """Return an observed value as text."""
    return None if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
