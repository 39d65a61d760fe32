"""Turn bronze's lines into silver's typed rows, or into quarantine's rows with their reasons.

The result depends only on the row, so a replay gives the same result. Nothing throws on any row, with
spark.sql.ansi.enabled on or off.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from pydantic import AwareDatetime, Field
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from oncelake.bronze.schema import BRONZE
from oncelake.bronze.stand_in import bytes_in_file, digest, is_stand_in
from oncelake.common.models import Duration, Strict
from oncelake.quality.split import MARKS, Broken, at, broken_rules, listed, names_of, reason
from oncelake.quality.suite import EACH_RULES, FORMAT_RULES, RECORD_RULES, STAND_IN_RULES, Rule
from oncelake.silver.columns import read_value
from oncelake.silver.each import OF_LINE, as_lines, by_event, columns_of_event, opened, with_line_fields
from oncelake.silver.format import LEVELS, LogFormat, TypedColumn, column_rule
from oncelake.silver.inside import joined, with_inside
from oncelake.silver.lines import is_fixed_width, read_lines, unmatched_rule
from oncelake.silver.pattern import whole_line
from oncelake.silver.schema import QUARANTINE, REASONS, columns, silver_columns
from oncelake.silver.times import log_time, unclear_zone, with_latest

_PARSED = ("log_time", "level", "message", "fields")
# RFC 5424, table 2: 0 emergency, 1 alert, 2 critical, 3 error, 4 warning, 5 notice, 6 informational, 7 debug
SEVERITY = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")
HIGHEST_PRIORITY = 191
# What stands for a status where there is none: a hyphen, or a number that is no status.
NO_STATUS = r"(?:-|\d{1,9})?"
# The struct of the values of the format's columns, before they are columns.
_VALUES = "values"
# A byte order mark before a line, where files were put together.
_MARK, _ALL = "\ufeff", 2**31 - 1


class TimeLimits(Strict):
    """The accepted range of times, both ends included."""

    earliest: AwareDatetime = Field(
        datetime(1970, 1, 1, tzinfo=UTC), description="a line with an earlier time goes to quarantine"
    )
    ahead: Duration = Field(
        timedelta(days=1), ge=timedelta(0), description="how much later than its ingestion a line's time may be"
    )


def parse(
    bronze: DataFrame,
    fmt: LogFormat,
    limits: TimeLimits,
    rules: Sequence[Rule] = (),
    others: Sequence[StructField] = (),
) -> DataFrame:
    """Add log_time, level, message, fields, warnings, reasons and the formats' columns to bronze's rows.

    `reasons` is never null. If the format has `each`, what was read is in `_events`: see `each.as_lines`.

    Args:
        bronze: bronze's rows; columns that an older oncelake did not write may be missing.
        fmt: the log format.
        limits: the accepted range of times.
        rules: the suite's rules, for the lines that break no rule of the format.
        others: the columns of other formats in the same lake, which are null.
    """
    missing = {field.name: F.lit(None).cast(field.dataType) for field in BRONZE if field.name not in bronze.columns}
    bronze = bronze.withColumns(missing) if missing else bronze
    text, line = bronze.withColumns({"line": F.make_valid_utf8(F.col("value").cast("string"))}), F.col("line")
    without_return = F.when(line.endswith("\r"), F.expr("substring(line, 1, length(line) - 1)")).otherwise(line)
    text = text.withColumns({"line": without_return})
    text = text.withColumns({"line": F.when(line.startswith(_MARK), F.substring(line, 2, _ALL)).otherwise(line)})
    if fmt.record is not None and fmt.record.joint is not None:
        whole = F.when(F.col("file").isNotNull(), joined(F.col("line"), fmt)).otherwise(F.col("line"))
        text = text.withColumns({"as_read": F.col("line")}).withColumns({"line": whole})
    if fmt.record is not None:
        record = F.col("line") if fmt.record.joint is None else F.col("as_read")
        text = text.withColumns({"is_started": F.when(F.col("file").isNotNull(), fmt.record.is_started(record))})
    of_line, of_event = bronze.columns, columns_of_event() if fmt.each is not None else []
    if fmt.each is not None:
        text = opened(text, fmt, _refusal(fmt))
    typed = with_inside(_with_parts(text, fmt, limits), fmt, partial(_with_parts, limits=limits))
    typed = with_line_fields(typed) if fmt.each is not None else typed
    if fmt.columns:
        typed = _with_values(typed, fmt)
    microsecond = timedelta(microseconds=1)
    earliest = (limits.earliest - datetime(1970, 1, 1, tzinfo=UTC)) // microsecond
    # numbers, as Spark adds an interval to a time by way of a date in a zone
    latest = F.try_add(F.unix_micros("ingested_at"), F.lit(limits.ahead // microsecond))
    in_range = F.unix_micros("log_time").between(F.lit(earliest), latest)
    judged = typed.withColumns({"in_range": F.coalesce(in_range, F.lit(False))})
    nothing = {field.name: F.lit(None).cast(field.dataType) for field in others}
    column_of = partial(_column_of, {**nothing, **{name: _value(name) for name in fmt.columns}})
    of_suite = {severity: broken_rules(rules, severity, column_of) for severity in ("warning", "critical")}
    broken = {severity: [*_misfits(fmt, severity), *found] for severity, found in of_suite.items()}
    warnings = names_of(broken["warning"]).alias(MARKS)
    reasons = _stays_here(_reasons(fmt, broken["critical"])).alias("reasons")
    parsed = judged.select(
        *of_line,
        *_PARSED,
        warnings,
        reasons,
        *(_value(name).alias(name) for name in fmt.columns),
        *(value.alias(name) for name, value in nothing.items()),
        *of_event,
    )
    return as_lines(parsed, of_line, [*fmt.columns, *nothing]) if fmt.each is not None else parsed


def _with_parts(lines: DataFrame, fmt: LogFormat, limits: TimeLimits) -> DataFrame:
    """Add the parts of each line, and its time and level."""
    of_columns = [pattern for each in fmt.columns.values() for pattern in each.time]
    lines = with_latest(read_lines(lines, fmt), (*fmt.time, *of_columns), limits.ahead)
    return lines.withColumns(
        {
            "log_time": _log_time(fmt),
            "level": _level(F.col("level_text"), fmt),
            "unclear": unclear_zone(F.col("time_text"), fmt.time, fmt.zone),
            "unmatched": unmatched_rule(fmt),
            "mixed": fmt.record.is_mixed(F.col("line")) if fmt.record is not None else F.lit(False),
        }
    )


def _with_values(lines: DataFrame, fmt: LogFormat) -> DataFrame:
    """Add the values of the format's columns, a struct, and clear their texts where there is no value."""
    texts = {name: _cleared(F.col("texts")[name], each) for name, each in fmt.columns.items()}
    lines = lines.withColumns({"texts": F.struct(*(text.alias(name) for name, text in texts.items()))})
    values = []
    for name, each in fmt.columns.items():
        values.append(read_value(F.col("texts")[name], each.type, fmt.times_of(each), fmt.zone).alias(name))
    return lines.withColumns({_VALUES: F.struct(*values)})


def _cleared(text: Column, column: TypedColumn) -> Column:
    """Return a column's text without spaces around it; null if it means that there is no value."""
    if column.type != "string":
        text = F.nullif(F.trim(text), F.lit(""))
    return F.when(~text.isin(list(column.null_is)), text) if column.null_is else text


def _value(name: str) -> Column:
    return F.col(_VALUES)[name]


def _misfits(fmt: LogFormat, severity: str) -> list[Broken]:
    """Return the rules of a severity on the format's columns."""
    found = []
    for name, each in fmt.columns.items():
        if each.type != "string" and _severity(each) == severity:
            text = F.col("texts")[name]
            found.append(Broken(column_rule(name), name, text.isNotNull() & _value(name).isNull(), text))
    return found


def _column_of(values: Mapping[str, Column], name: str) -> Column:
    return values[name] if name in values else at(name)


def _severity(column: TypedColumn) -> str:
    return "critical" if column.misfit == "quarantine" else "warning"


def _stays_here(value: Column) -> Column:
    """Return the value, wrapped so that Spark's optimizer does not push a filter on it down.

    A pushed filter would parse every line once more. A filter is not pushed past a non-deterministic expression, and a
    partition ID is never below zero.
    Source: Spark's PushPredicateThroughNonJoin, `canPushThrough` and the case of Project.
    """
    return F.when(F.spark_partition_id() >= 0, value)


def accepted(parsed: DataFrame) -> DataFrame:
    """Return silver's rows: those that broke no rule."""
    rows = by_event(parsed.where(is_accepted()))
    return rows.select(*silver_columns(rows.columns))


def quarantined(parsed: DataFrame) -> DataFrame:
    """Return quarantine's rows: those that broke a rule, with bronze's columns and the reasons."""
    return parsed.where(~is_accepted()).select(*columns(QUARANTINE, parsed.columns))


def is_accepted() -> Column:
    """Return a condition on parsed rows: the row broke no rule."""
    return F.size("reasons") == 0


def is_taken_apart() -> Column:
    """Return a condition on parsed rows: the row broke no rule of the format, so the suite's rules were checked."""
    return F.coalesce(~F.get(F.col("reasons.rule"), F.lit(0)).isin(list(FORMAT_RULES)), F.lit(True))


def breaks(formats: Sequence[LogFormat], rules: Sequence[Rule]) -> dict[str, Column]:
    """Return a condition on parsed rows for each rule of the formats and the suite: the row broke this rule."""
    of_records = any(fmt.record is not None for fmt in formats)
    unused = [*(() if of_records else RECORD_RULES), *(() if any(fmt.each for fmt in formats) else EACH_RULES)]
    own = [each for each in FORMAT_RULES if each not in unused]
    of_columns = [(name, each) for fmt in formats for name, each in fmt.columns.items() if each.type != "string"]
    by_severity = [
        *((column_rule(name), _severity(each)) for name, each in of_columns),
        *((rule.id, rule.severity) for rule in rules),
    ]
    refusing = [*own, *(name for name, severity in by_severity if severity == "critical")]
    marking = [name for name, severity in by_severity if severity == "warning"]
    found = {each: ~is_accepted() & _has(F.col("reasons.rule"), each) for each in refusing}
    for each in marking:
        marked = is_taken_apart() & _has(F.col(MARKS), each)
        found[each] = found[each] | marked if each in found else marked
    return found


def broken_names() -> Column:
    """Return the names of the rules that a parsed row broke, those of `breaks`, a name perhaps twice; null for none."""
    marks = F.coalesce(F.when(is_taken_apart(), F.col(MARKS)), F.array().cast("array<string>"))
    return F.when(is_accepted(), F.col(MARKS)).otherwise(F.concat(F.col("reasons.rule"), marks))


def _has(names: Column, name: str) -> Column:
    return names.isNotNull() & F.array_contains(names, name)


def _log_time(fmt: LogFormat) -> Column:
    if is_fixed_width(fmt):
        return F.when(F.col("matched"), F.col("at"))
    return log_time(F.when(F.col("matched"), F.col("time_text")), fmt.time, fmt.zone)


def _level(text: Column, fmt: LogFormat) -> Column:
    """Return the level that a text means, or the default if the text is empty; null if the level is unknown."""
    by_number = {"priority": _by_priority, "status": _by_status}.get(fmt.level_is)
    level = by_number(text) if by_number is not None else _by_name(text, fmt.levels)
    if fmt.default_level is None:
        return level
    lacks = (text == "") if fmt.level_is != "status" else (level.isNull() & text.rlike(whole_line(NO_STATUS)))
    return F.when(F.coalesce(lacks, F.lit(True)), F.lit(fmt.default_level)).otherwise(level)


def _by_name(text: Column, spellings: Mapping[str, str]) -> Column:
    name = F.upper(text)  # slow, because it follows Unicode's rules: exact spellings are compared first
    meaning = {level: level for level in LEVELS} | dict(spellings)
    same = [level for level in LEVELS if meaning[level] == level]
    out = F.when(text.isin(same), text).when(name.isin(same), name)
    for level in LEVELS:
        other = [spelling for spelling, means in meaning.items() if means == level != spelling]
        out = out.when(name.isin(other), F.lit(level)) if other else out
    return out


def _by_priority(text: Column) -> Column:
    """Parse facility * 8 + severity; a number with a sign, a leading zero or spaces is invalid."""
    number = text.try_cast("int")
    valid = number.between(0, HIGHEST_PRIORITY) & (number.cast("string") == text)
    severity = number.bitwiseAND(7)
    out = F.when(~F.coalesce(valid, F.lit(False)), F.lit(None).cast("string"))
    for value, level in enumerate(SEVERITY):
        out = out.when(severity == value, F.lit(level))
    return out


def _by_status(text: Column) -> Column:
    """Parse a status code of HTTP: errors of the server are ERROR, errors of the client WARN, all others INFO."""
    status = text.try_cast("int")
    valid = status.between(100, 599) & (status.cast("string") == text)
    level = F.when(status >= 500, F.lit("ERROR")).when(status >= 400, F.lit("WARN")).otherwise(F.lit("INFO"))
    return F.when(F.coalesce(valid, F.lit(False)), level)


def _refusal(fmt: LogFormat) -> Column:
    """List the rules that a line broke whatever is in it; others can be added by `when`."""
    out = F.when(F.col("value").isNull(), F.array(reason(F.lit("null_value"), "value", F.lit(None))))
    line_size, nul_bytes = map(F.lit, STAND_IN_RULES)
    rule, size = F.when(digest().isNull(), nul_bytes).otherwise(line_size), bytes_in_file().cast("string")
    out = out.when(is_stand_in(), F.array(reason(rule, "value", F.concat(size, F.lit(" bytes: "), "line"))))
    if fmt.record is not None:
        of_file = F.col("file").isNotNull()
        record = F.col("line") if fmt.record.joint is None else F.col("as_read")
        is_started = F.col("is_started")
        broken = {
            "record_size": fmt.record.is_too_long(record),
            "record_start": (record != "") & ~is_started,
            "pattern_steps": (record != "") & (is_started.isNull() | F.col("line").isNull()),
            "record_mixed": F.col("mixed"),
        }
        for name, condition in broken.items():
            out = out.when(of_file & condition, F.array(reason(F.lit(name), "value", record)))
    return out.when(F.col("line") == "", F.array(reason(F.lit("blank"), "value", F.lit(""))))


def _reasons(fmt: LogFormat, refusing: Sequence[Broken]) -> Column:
    """List the rules that a row broke; a line that the format does not match has one reason, not three."""
    out = _refusal(fmt) if fmt.each is None else F.when(F.col(OF_LINE).isNotNull(), F.col(OF_LINE))
    unclear = F.when(F.col("log_time").isNull(), F.col("unclear"))
    rule = F.when(F.col("log_time").isNotNull(), "time_range").when(unclear.isNotNull(), "time_zone").otherwise("time")
    time = reason(rule, "log_time", F.coalesce(unclear, "time_text"))
    level = reason(F.lit("level"), "level", F.col("level_text"))
    bad_time, bad_level = ~F.col("in_range"), F.col("level").isNull()
    return (
        out.when(~F.col("matched"), F.array(reason(F.col("unmatched"), "value", F.col("line"))))
        .when(bad_time & bad_level, F.array(time, level))
        .when(bad_time, F.array(time))
        .when(bad_level, F.array(level))
        .otherwise(F.coalesce(listed(refusing, Broken.as_reason, REASONS), F.array().cast(REASONS)))
    )
