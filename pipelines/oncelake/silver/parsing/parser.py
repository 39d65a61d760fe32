"""Parse lines by a log format: take each line apart, and read its time, its level and its typed columns.

Nothing else reads a format's declaration in Spark. A parser adds columns to bronze's rows and judges nothing:
`silver.transform` decides which line is refused for which rule.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from oncelake.bronze.records import BYTE_ORDER_MARK, Records
from oncelake.quality.suite_check import compiled
from oncelake.silver.parsing.check import check_pattern, check_time, check_zone
from oncelake.silver.parsing.columns import VALUES, cleared, read_value, text_of, type_of
from oncelake.silver.parsing.events import check_each, opened, with_line_fields
from oncelake.silver.parsing.format import LogFormat, TypedColumn, load_format
from oncelake.silver.parsing.inside import joined, with_inside
from oncelake.silver.parsing.level import level_of
from oncelake.silver.parsing.parts import (
    DEFAULT_PATTERN,
    DEFAULT_TIME,
    by_json,
    by_logfmt,
    by_pattern,
    by_width,
    texts_column,
    without_ansi,
)
from oncelake.silver.parsing.times import SPECIAL, log_time, names_year, unclear_zone, with_latest

_ALL = 2**31 - 1


@dataclass(frozen=True)
class Parser:
    """Parses lines by one log format.

    Attributes:
        declared: the format, as it is declared.
    """

    declared: LogFormat

    @property
    def record(self) -> Records | None:
        """The rule by which lines are put together into records; None if each line is a record."""
        return self.declared.record

    @property
    def pattern(self) -> str | None:
        """The regular expression that a line matches; None for lines of JSON or logfmt."""
        return self.declared.pattern

    @property
    def has_events(self) -> bool:
        """True if a line can have several events, each a row of silver."""
        return self.declared.each is not None

    @property
    def columns(self) -> Mapping[str, TypedColumn]:
        """The typed columns of silver, by name."""
        return self.declared.columns

    @property
    def column_fields(self) -> list[StructField]:
        """The fields of the typed columns in silver's table, in the order of their declaration."""
        return [
            StructField(
                name, type_of(column.type), metadata={"comment": f"{column.source} of the line, by the log format"}
            )
            for name, column in self.columns.items()
        ]

    @property
    def has_year(self) -> bool:
        """True if every time of a line has its year."""
        return all(pattern in SPECIAL or names_year(pattern) for pattern in self.declared.time)

    def check(self, spark: SparkSession) -> None:
        """Compile the format's pattern, datetime patterns and zone in the same way as Spark.

        Raises:
            ConfigError: Java rejects one of them; the message says which, where and why.
        """
        declared = self.declared
        check_zone(spark, declared.zone)
        if self.has_events:
            check_each()
        if self.pattern is not None:
            check_pattern(spark, self.pattern)
        if declared.record is not None:
            for name in ("starts", "lines", "part", "joint"):
                if getattr(declared.record, name) is not None:
                    compiled(spark, f"record.{name}", getattr(declared.record, name))
        of_columns = {f"columns.{name}.time": column.time for name, column in self.columns.items()}
        for key, patterns in {"time": declared.time, **of_columns}.items():
            for pattern in patterns:
                if pattern not in SPECIAL:
                    check_time(spark, key, pattern)

    def read(self, bronze: DataFrame, refused: Column, ahead: timedelta) -> DataFrame:
        """Add what is in each line to bronze's rows: its parts, its time and level, and the values of its columns.

        A line with several events becomes a row for each.

        Args:
            bronze: the rows.
            refused: the reasons of a line that is refused whatever is in it; null for none.
            ahead: how much later than a line's ingestion its Kafka timestamp may be.
        """
        lines = self._lines(bronze)
        if self.has_events:
            lines = opened(lines, self.declared.events_key, refused)
        parsed, inside = self._with_parts(lines, ahead), self.declared.inside
        if inside is not None:
            readers = {name: partial(inner._with_parts, ahead=ahead) for name, inner in self._inside.items()}
            parsed = with_inside(parsed, inside.by, readers, is_json=self._is_json)
        parsed = with_line_fields(parsed) if self.has_events else parsed
        return self._with_values(parsed) if self.columns else parsed

    @property
    def record_text(self) -> Column:
        """The text of a record in read rows, with all that is between its lines."""
        return F.col("line") if self.record is None or self.record.joint is None else F.col("as_read")

    def _lines(self, bronze: DataFrame) -> DataFrame:
        """Add `line`, the text of each row as the format reads it; null if joining its parts takes too many steps.

        Of records, also `is_started`: the first line is a start. Of lines that were cut, also `as_read`, the parts with
        what is between them.
        """
        text, line = bronze.withColumns({"line": F.make_valid_utf8(F.col("value").cast("string"))}), F.col("line")
        without_return = F.when(line.endswith("\r"), F.expr("substring(line, 1, length(line) - 1)")).otherwise(line)
        text = text.withColumns({"line": without_return})
        unmarked = F.when(line.startswith(BYTE_ORDER_MARK), F.substring(line, 2, _ALL)).otherwise(line)
        text = text.withColumns({"line": unmarked})
        if self.record is None:
            return text
        of_file = F.col("file").isNotNull()
        if self.record.joint is not None:
            whole = joined(line, self.record, is_json=self._is_json)
            text = text.withColumns({"as_read": line}).withColumns({"line": F.when(of_file, whole).otherwise(line)})
        return text.withColumns({"is_started": F.when(of_file, self.record.is_started(self.record_text))})

    @property
    def _inside(self) -> Mapping[str, "Parser"]:
        """The parsers of what the lines carry, by the value of the field that decides."""
        inside = self.declared.inside
        return {name: Parser(inner) for name, inner in inside.loaded.items()} if inside is not None else {}

    @property
    def _is_json(self) -> bool:
        return self.declared.json_keys is not None

    @property
    def is_fixed_width(self) -> bool:
        """True if splitting by width gives the same result as the format's regular expression."""
        return self.pattern == DEFAULT_PATTERN and self.declared.time == DEFAULT_TIME

    def _with_parts(self, lines: DataFrame, ahead: timedelta) -> DataFrame:
        """Add the parts of each line, and its time and level."""
        times, zone = self.declared.time, self.declared.zone
        of_columns = [pattern for column in self.columns.values() for pattern in column.time]
        return with_latest(self.take_apart(lines), (*times, *of_columns), ahead).withColumns(
            {
                "log_time": self._time,
                "level": self._level,
                "unclear": unclear_zone(F.col("time_text"), times, zone),
                "unmatched": self.unmatched_rule,
                "mixed": self.record.is_mixed(F.col("line")) if self.record is not None else F.lit(False),
            }
        )

    def take_apart(self, lines: DataFrame) -> DataFrame:
        """Add the parts of each line to rows with `line`, without colours if the format strips them: see `parts`."""
        if not self.declared.strip_ansi:
            return self._split(lines)
        frame = self._split(lines.withColumns({"line": without_ansi(F.col("line"))}))
        if self.pattern is not None:
            return frame
        texts = {name: without_ansi(F.col(name)) for name in ("time_text", "level_text", "message")}
        fields = F.transform_values("fields", lambda _, text: without_ansi(text))
        of_columns = {name: without_ansi(text_of(name)) for name in self.columns}
        # guard: colours-stripped-from-values
        return frame.withColumns({**texts, "fields": fields, **texts_column(of_columns)})

    def _split(self, lines: DataFrame) -> DataFrame:
        """Split each line in the cheapest way that the format allows."""
        declared = self.declared
        if declared.json_keys is not None:
            return by_json(lines, declared.json_keys, self.columns)
        if declared.logfmt is not None:
            return by_logfmt(lines, declared.logfmt, self.columns)
        if not self.is_fixed_width:
            return by_pattern(lines, self.pattern or "", self.columns)
        parts = {"time": F.col("time_text"), "level": F.col("level_text"), "message": F.col("message")}
        of_columns = {name: parts[column.source] for name, column in self.columns.items()}
        return by_width(lines, declared.zone).withColumns(texts_column(of_columns))

    @property
    def unmatched_rule(self) -> Column:  # guard: pattern-steps-rule
        """The name of the rule that a line breaks which the format does not match."""
        if self.pattern is None or self.is_fixed_width:
            return F.lit("pattern")
        return F.when(F.col("too_many_steps"), F.lit("pattern_steps")).otherwise(F.lit("pattern"))

    @property
    def _time(self) -> Column:
        if self.is_fixed_width:
            return F.when(F.col("matched"), F.col("at"))
        return log_time(F.when(F.col("matched"), F.col("time_text")), self.declared.time, self.declared.zone)

    @property
    def _level(self) -> Column:
        declared = self.declared
        return level_of(F.col("level_text"), declared.level_is, declared.levels, declared.default_level)

    def _with_values(self, lines: DataFrame) -> DataFrame:
        """Add the values of the columns, a struct, and clear their texts where there is no value."""
        texts = {name: cleared(text_of(name), column.type, column.null_is) for name, column in self.columns.items()}
        values = [
            read_value(text_of(name), column.type, self.declared.times_of(column), self.declared.zone).alias(name)
            for name, column in self.columns.items()
        ]
        return lines.withColumns(texts_column(texts)).withColumns({VALUES: F.struct(*values)})


def load_parser(
    name_or_path: str, directories: Sequence[Path], inside: object = None, zone: str | None = None
) -> Parser:
    """Read a log format, and return its parser.

    Args:
        name_or_path, directories, inside: see `load_format`.
        zone: the zone of times without one, instead of what the format says.

    Raises:
        ConfigError: the format does not exist or is wrong.
    """
    return Parser(load_format(name_or_path, directories, inside).in_zone(zone))
