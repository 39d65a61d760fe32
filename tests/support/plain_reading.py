"""Compare how a format's lines are read without Spark with how Spark reads them, and example lines to compare."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.transform import from_files, line_reader
from oncelake.common.spark.session import spark_session
from oncelake.common.spark.settings import SparkSettings
from oncelake.quality.reasons import at_micros
from oncelake.silver.parsing.format import LogFormat, format_names
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.plain_reader import PlainReader
from oncelake.silver.transform import TimeLimits, parse
from tests.support.places import FORMATS, ROOT


def examples() -> list[str]:
    """Return the example lines of all shipped formats, which stand in their comments and in the documentation."""
    of_files = [text for name in format_names([FORMATS]) for text in examples_of(name)]
    of_docs = re.findall(r"^\|[^|]*\| `(.*?)`", (ROOT / "docs/formats.md").read_text(), re.MULTILINE)
    assert len(of_docs) > len(format_names([FORMATS]))
    return [*of_files, *of_docs]


def examples_of(name: str) -> list[str]:
    """Return the comments of a shipped format, most of which are example lines."""
    text = (FORMATS / f"{name}.yaml").read_text()
    return [re.sub(r" {2,}\([^)]*\)$", "", line[2:]) for line in text.split("\n") if line.startswith("# ")]


def disagreement(log_format: LogFormat, log: Path, spark: SparkSession | None = None) -> str | None:
    """Return the first line that the two read otherwise, and how; None if there is none.

    Args:
        log_format: the format.
        log: a file with lines.
        spark: the session; one is started if not given.
    """
    if spark is None:
        with spark_session(SparkSettings(), verbose=False, quick=True) as started:
            return disagreement(log_format, log, started)
    modified = datetime.fromtimestamp(log.stat().st_mtime, UTC)
    plain = PlainReader(log_format, modified).lines(log.read_bytes().decode("utf-8", "replace"))
    read = from_files(line_reader(spark, spark.read, log_format.record).load(f"file:{log}"), log_format.record)
    rows: list[Any] = (
        parse(read.coalesce(1), Parser(log_format), TimeLimits())
        .select(F.unix_micros("log_time").alias("at"), "level", "message", "fields", "reasons")
        .collect()
    )
    if len(plain) != len(rows):
        return f"{len(plain)} records without Spark, {len(rows)} with it"
    for line, row in zip(plain, rows, strict=True):
        rules = [reason["rule"] for reason in row["reasons"]]
        values = row["level"], row["message"], row["fields"]
        with_spark = (rules, None, None, "", {}) if rules else ([], at_micros(row["at"]), *values)
        without = (list(line.rules), line.log_time, line.level, line.message, line.fields)
        if with_spark != without:
            return f"{line.text!r}: {without} without Spark, {with_spark} with it"
    return None
