"""Records of several lines: how a log format declares them, and how our reader reads them, or lines, from files."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from pydantic import ByteSize, Field, model_validator
from pyspark.sql import Column, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

from oncelake.bronze.stand_in import COLUMNS, MAX_LINE
from oncelake.common.ansi import SEQUENCES
from oncelake.common.errors import ConfigError
from oncelake.common.models import Strict, later
from oncelake.common.spark.compiled import is_here, is_on_executors, jar, left_out
from oncelake.common.spark.line_functions import contains_match, first_line_contains_match, replaced
from oncelake.common.spark.rows import Count
from oncelake.common.spark.runtime import AUTO_LOADER, has_auto_loader, has_class, is_given

if TYPE_CHECKING:
    import pyarrow

_READER = "oncelake.RecordFormat"
# How many characters of a line are searched for a start; Records.java has the same number.
SEARCHED = 1024
# Before the first line of a text, also within a file, where files were put together.
BYTE_ORDER_MARK = "\ufeff"

# How lines of other programs begin: with a date and a time of day, perhaps behind a mark; with a time of day or a level
# as Logback, Python and uvicorn write them; with the letter of klog; as access logs do. JSON and logfmt lines have keys
# of a time and of a level or message.
_CLOCK = r"\d\d:\d\d:\d\d"
_DAY = (
    r"\d{4}[-/.]\d\d?[-/.]\d\d?",
    r"\d{8}",
    r"\d\d?[-/. ](?:[A-Z][a-z]{2}|\d\d?)[-/. ](?:\d{4}|\d\d)",
    r"(?:[A-Z][a-z]{2},? )?[A-Z][a-z]{2} [ \d]?\d(?:,? \d{4},?)?",
)
_KEYS = {
    "time": r"(?:time|timestamp|@timestamp|@t|ts|datetime|asctime|t)",
    "level": r"(?:level|severity|log\.level|levelname|loglevel|lvl|stream|@l|@mt|@m|msg|v)",
}
_LEVEL = r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)"
_BEGINNINGS = (
    rf"(?:<\d{{1,3}}>1? ?)?[\[(<\"']?(?:{'|'.join(_DAY)})[T :,]{{1,3}}\d?\d:\d\d(?::\d\d|[ \])])",
    rf"{_CLOCK}[.,]\d{{3}} \[",
    rf"{_LEVEL}:(?:[\w.]++:| {{2,}}\S)",
    rf"[IWEF]\d{{4}}(?:\d{{4}})? {_CLOCK}\.",
    rf"[^\s\[][^\n\[]{{0,400}} \[\d\d/[A-Z][a-z]{{2}}/\d{{4}}[: ]{_CLOCK}(?: [+-]\d{{4}})?\] \"",
    rf"\{{(?=[^\n]*\"{_KEYS['time']}\"\s*:)(?=[^\n]*\"{_KEYS['level']}\"\s*:)",
    rf"(?=\w+=)(?=(?:[^\n]*\s)?{_KEYS['time']}=)(?=(?:[^\n]*\s)?{_KEYS['level']}=)",
)
# Colours, a byte order mark, a zero width space and a lone \r are not seen by people.
_UNSEEN = rf"(?:[\uFEFF\u200B\r]|{SEQUENCES})*+"
# A Java regular expression for the beginning of a line that is a record of its own, whatever the format.
OWN_RECORD = rf"{_UNSEEN}(?:{'|'.join(_BEGINNINGS)})"

Reader = TypeVar("Reader", DataStreamReader, DataFrameReader)


class Records(Strict):
    """The section `record` of a log format: which lines are one record, and how long it may be."""

    starts: str | None = Field(
        None,
        min_length=1,
        description="a Java regular expression that is found in a record's first line and in no other",
    )
    lines: str | None = later(
        None,
        min_length=1,
        description="with `starts`: a Java regular expression that is found at the beginning of each later line; a "
        "record with another line is refused. Unset: with a line that begins as one of a shipped format does",
    )
    max_lines: int = Field(1_000, gt=0, description="a record with more lines goes to quarantine")
    max_bytes: ByteSize = Field(
        ByteSize(1024**2), gt=0, le=1024**3, description="a record with more bytes goes to quarantine"
    )
    part: str | None = later(
        None,
        min_length=1,
        description="instead of `starts`, for lines that were cut: a Java regular expression whose group `more` is "
        "found in a line that goes on in the next one; both have the same text in the group `of`",
    )
    joint: str | None = later(
        None, min_length=1, description="with `part`: what is between two parts, with the line end; it is removed"
    )

    content: str | None = later(
        None,
        min_length=1,
        description="with `part`: a Java regular expression for what stands before the content of a line; needed for "
        "records inside",
    )
    inside: str | None = later(None, exclude=True)

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        if (self.starts is None) == (self.part is None):
            raise ValueError("needs starts or part, exactly one of them")
        if self.lines is not None and self.starts is None:
            raise ValueError("lines goes together with starts; remove it")
        if self.content is not None and self.part is None:
            raise ValueError("content goes together with part; remove it")
        if self.inside is not None:
            raise ValueError("inside is a key of the format, not of its record; move it")
        if (self.joint is None) != (self.part is None):
            raise ValueError("part and joint belong together; set both, or neither")
        missing = {"of", "more"} - set(re.findall(r"\(\?<(\w+)>", self.part or "(?<of>)(?<more>)"))
        if missing:
            raise ValueError(f"part has no group {', '.join(f'(?<{name}>...)' for name in sorted(missing))}")
        return self

    @property
    def options(self) -> Mapping[str, str]:
        """The options of a reader of ours that say what a record is.

        A record that is longer than allowed comes in several rows. The first one is too long as well, so `is_too_long`
        finds it.
        """
        bounds = {"maxlines": str(self.max_lines), "maxbytes": str(int(self.max_bytes))}
        found_by = {"starts": self.starts} if self.starts is not None else {"part": self.part or ""}
        within = {"content": self.content or "", "inside": self.inside} if self.inside is not None else {}
        return {**found_by, **within, **bounds}

    def joined(self, record: Column) -> Column:
        """Return a record's text as the format reads it: a line that was cut into parts is whole again.

        Null if the search for the joints takes too many steps.
        """
        if self.joint is None:
            return record
        whole = replaced(record, f"(?m:{self.joint})")
        return F.when(record.contains("\n"), whole).otherwise(record)

    def is_too_long(self, record: Column) -> Column:
        """Return a condition on a record's text: it is longer than allowed."""
        return (_ends_in(record) >= self.max_lines) | (F.octet_length(record) > int(self.max_bytes))

    def is_mixed(self, record: Column) -> Column:
        """Return a condition on a record's text: it has a line that begins another record, or may not stand in one."""
        return (
            F.lit(False)
            if self.starts is None
            else record.contains("\n") & F.coalesce(contains_match(record, self.other_line), F.lit(True))
        )

    @property
    def other_line(self) -> str:
        """A Java regular expression for a line end with a line behind it that is not part of a record."""
        return rf"\n{OWN_RECORD}" if self.lines is None else rf"\n(?!(?m:{self.lines}))"

    def is_started(self, record: Column) -> Column:
        """Return a condition on a record's text: its first line is a start; null if that takes too many steps.

        Of lines that were cut: true; null if the search for what goes on takes too many steps.
        """
        own = first_line_contains_match(record, self.starts or self.part or "", SEARCHED, tail=self.part is not None)
        if self.starts is None:
            # nothing else is asked of the text: Records.java has put its parts together
            return F.lit(True) if own is None else F.when(own.isNotNull(), F.lit(True))
        if own is not None:
            return own
        first = F.regexp_replace(F.substring_index(record, "\n", 1), r"\r\z", "")
        visible = F.regexp_replace(F.substring(first, 1, SEARCHED), rf"\A\uFEFF|{SEQUENCES}", "")
        return visible.rlike(self.starts)


def line_ends() -> Column:
    """Return the number of line ends within the records of some rows; a record has one line more."""
    return F.coalesce(F.sum(_ends_in(F.col("value").cast("string"))), F.lit(0))


def _ends_in(text: Column) -> Column:
    """Return the number of line ends in a text."""
    return F.octet_length(text) - F.octet_length(F.replace(text, F.lit("\n"), F.lit("")))


def _collected_line_ends(rows: "pyarrow.Table") -> int:
    import pyarrow.compute as pc  # noqa: PLC0415 - a run that collects nothing need not have it

    return pc.sum(pc.count_substring(rows["value"], "\n")).as_py() or 0


# How many line ends are within the records of a batch.
COUNT_OF_LINE_ENDS = Count("line_ends", line_ends, _collected_line_ends)


def bounded_reader(
    reader: Reader,
    records: Records | None = None,
    max_line: int = MAX_LINE,
    value: Literal["binary", "string"] = "binary",
) -> Reader:
    """Return our reader of files; columns: `value`, `start` bigint, its first byte in the file, and `headers`.

    Args:
        reader: Spark's reader.
        records: how lines are put together; None if each line is a record.
        max_line: a longer line is a stand-in, and so are NUL bytes before a line.
        value: the type of `value`; a string keeps every byte too, and is faster.
    """
    options = {**(records.options if records is not None else {}), "maxline": str(int(max_line))}
    return reader.format(_READER).schema(f"value {value}, start bigint, {COLUMNS}").options(**options)


def is_bounded(spark: SparkSession) -> bool:
    """Return True if a session has our reader of files."""
    return has_class(spark, _READER) and is_on_executors(spark.sparkContext)


def check_reader(spark: SparkSession) -> None:
    """Raise ConfigError if a session cannot read records of several lines from files."""
    problem = why_not_read(spark)
    if problem is not None:
        raise ConfigError(problem)


def why_not_read(spark: SparkSession) -> str | None:
    """Return why a session cannot read records of several lines from files, and what to do; None if it can."""
    if has_auto_loader(spark):
        return (
            f"the log format has a section record, but Databricks' Auto Loader ({AUTO_LOADER}) reads files line by "
            "line; send each record as one Kafka message, or run oncelake outside Databricks"
        )
    return why_not_on_class_path(spark, _READER, "the log format has a section record")


def why_not_on_class_path(spark: SparkSession, reader: str, needed: str) -> str | None:
    """Return why a session lacks a reader of ours, and what to do; None if it has it.

    Args:
        spark: the session.
        reader: the reader's Java class.
        needed: why it is needed, as the first half of a sentence.
    """
    if has_class(spark, reader) and is_on_executors(spark.sparkContext):
        return None
    way = "run: python -m oncelake.set_up"
    if is_given():
        way = f"start it with --jars {jar()}, which python -m oncelake.set_up writes"
    elif is_here() and (why := left_out().get(reader.removeprefix("oncelake."))):
        way = f"use another version of PySpark, the class does not fit this one: {why}"
    return f"{needed}, but this Spark session lacks oncelake's Java classes; {way}"
