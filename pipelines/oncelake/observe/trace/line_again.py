"""A line of bronze, parsed again by today's format: a line of a file has no number by which silver's rows are found.

What is read without Spark is what Spark reads, or it is left to Spark: see `silver.plain_reader`.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.lake import BRONZE
from oncelake.common.table_rows import plain_rows, time_text
from oncelake.observe.trace.find import BronzeLine
from oncelake.silver.plain_reader import PlainReader, bounded
from oncelake.silver.plain_times import NeedsSparkError
from oncelake.silver.rules import Silver
from oncelake.silver.schema import EACH, SOURCE
from oncelake.silver.transform import accepted

# A line is read without Spark for at most this many seconds.
_SECONDS = 2.0
# Columns that are null in bronze's rows of whole lines of files.
_NOT_OF_FILES = ("topic", "timestamp", "headers")


@dataclass(frozen=True)
class LineAgain:
    """Parses a line of bronze again.

    Attributes:
        line: the line.
        silver: how silver's rows are made.
        spark: returns the session.
    """

    line: BronzeLine
    silver: Silver
    spark: Callable[[], SparkSession]

    def without_spark(self) -> list[dict[str, Any]] | None:
        """Return that by which silver's rows of a line of a file are recognized; None if that needs Spark.

        The suite's rules are left out, see `with_spark`. There is no row if the format refuses the line.
        """
        row = self.line.row
        if threading.current_thread() is not threading.main_thread():
            return None  # nothing would stop a pattern that takes for ever
        if self.line.content is None or any(row.get(name) is not None for name in _NOT_OF_FILES):
            return None
        modified = row.get("file_modified")
        try:
            reader = PlainReader(
                self.silver.parsers[self._source].declared,
                datetime.fromisoformat(modified) if modified is not None else None,
                self.silver.limits,
                self.line.ingested_at,
            )
            with bounded(_SECONDS, "the pattern"):
                read = reader.read(self.line.content.decode())
            if read.rules or read.log_time is None:
                return []
            events = {event.name: None for event in EACH} if self.silver.has_events else {}
            values = {"log_time": time_text(read.log_time), "level": read.level, "message": read.message}
            return [{**values, "fields": dict(read.fields), **events}]
        except (NeedsSparkError, ValueError, OverflowError):  # a text is not UTF-8, or Python has no such time
            return None

    def with_spark(self) -> list[dict[str, Any]]:
        """Return silver's rows of a line of a file as Spark makes them, see `plain_rows`.

        The suite's rules are left out: silver's rows are from the rules of their time.
        """
        silver = replace(self.silver, rules=())  # guard: later-rule-hides-no-row
        return plain_rows(accepted(silver.parse_source(self._source, self._bronze())).toArrow())

    def is_refused(self) -> bool:
        """Return True if the line breaks a rule of today, as Spark reads it."""
        return accepted(self.silver.parse(self._bronze())).isEmpty()

    @property
    def _source(self) -> str:
        return self.line.row.get(SOURCE.name) or BRONZE.name

    def _bronze(self) -> DataFrame:
        frame, source = self.spark().createDataFrame(self.line.table), self.line.row.get(SOURCE.name)
        return frame if source is None else frame.withColumn(SOURCE.name, F.lit(source))
