"""Find the line of bronze that a row of silver was made of, so that the page can name it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import functions as F

from oncelake.common.lake import Table
from oncelake.common.table_rows import TableRows
from oncelake.engine.chain import Chain
from oncelake.engine.sources import bronze_tables
from oncelake.gold.declaration import LOG_TIME
from oncelake.observe.report.templates import LONGEST
from oncelake.quality.reasons import at_micros
from oncelake.silver.parsing.events import by_event
from oncelake.silver.plain_reader import PlainReader, bounded
from oncelake.silver.plain_times import NeedsSparkError
from oncelake.silver.schema import SOURCE
from oncelake.silver.transform import is_accepted

# The beginning of a message in SQL: what is shown of it.
BEGINNING = f"substring(coalesce({{}}, ''), 1, {LONGEST})"
# At most this many lines are read without Spark, for at most this many seconds.
_LINES, _SECONDS = 10_000, 2.0
# The lines of a file in a batch that have the text of a message. Only DuckDB is asked this.
_WITH_TEXT = f"""
SELECT t.value, unix_micros(coalesce(t.file_modified, t.ingested_at)) AS modified FROM {{rows}} t
WHERE t.ingested_at = :ingested_at AND t.file = :file AND contains(try(decode(t.value)), :message) LIMIT {_LINES}
"""


@dataclass(frozen=True)
class RawLines:
    """Finds lines of bronze.

    Attributes:
        chain: the chain.
        rows: answers queries over the tables; Spark reads lines again that cannot be read without it.
    """

    chain: Chain
    rows: TableRows

    def line(self, row: Mapping[str, Any]) -> bytes | None:
        """Return the first line of the record that a row of silver was made of; None if it is not found.

        Args:
            row: the row: `file`, `level`, the beginning of its `message`, its times `log_micros` and `ingested_micros`
                in microseconds since 1970, and in a lake with several sources the name of its source.
        """
        for table in self._tables(row):
            value = self._without_spark(row, table) or self._by_spark(row, table)
            if value is not None:
                return value.split(b"\n", 1)[0].removesuffix(b"\r")
        return None

    def _tables(self, row: Mapping[str, Any]) -> Iterator[Table]:
        """Yield the bronze tables that a row of silver can come from."""
        named = row.get(SOURCE.name)
        for table in bronze_tables(self.chain):
            known = table.name in self.chain.silver.parsers and self.chain.commit_log(table).newest() is not None
            if known and named in (None, table.name):
                yield table

    def _without_spark(self, row: Mapping[str, Any], table: Table) -> bytes | None:
        """Return the record, as its format is read without Spark; None if it is not found so."""
        silver, values = self.chain.silver, {"file": row["file"], "message": row["message"]}
        ingested_at = at_micros(row["ingested_micros"])
        lines = self.rows.without_spark(
            _WITH_TEXT, {"rows": (self.chain.lake.at(table), None)}, ingested_at=ingested_at, **values
        )
        if not lines:
            return None
        try:
            modified = at_micros(lines[0]["modified"])
            reader = PlainReader(silver.parsers[table.name].declared, modified, silver.limits, ingested_at)
            with bounded(_SECONDS, "the pattern"):
                for value in (bytes(line["value"]) for line in lines):
                    line = reader.read(value.decode())
                    is_same = line.log_time == at_micros(row["log_micros"]) and line.level == row["level"]
                    if is_same and line.message[:LONGEST] == row["message"]:
                        return value
        except NeedsSparkError:
            pass
        return None

    def _by_spark(self, row: Mapping[str, Any], table: Table) -> bytes | None:
        bronze = self.rows.frame(self.chain.lake.at(table))
        same = (F.col("file") == F.lit(row["file"])) & (F.unix_micros("ingested_at") == row["ingested_micros"])
        rows = bronze.where(same & (F.col("ingested_at") == F.lit(at_micros(row["ingested_micros"]))))
        rows = rows.withColumn(SOURCE.name, F.lit(table.name)) if self.chain.silver.named else rows
        lines = by_event(self.chain.silver.parse(rows)).where(is_accepted())
        lines = lines.where((F.unix_micros(LOG_TIME) == row["log_micros"]) & (F.col("level") == row["level"]))
        matches = lines.where(F.expr(BEGINNING.format("message")) == F.lit(row["message"])).select("value")
        return next((bytes(match["value"]) for match in matches.limit(1).collect()), None)
