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
from oncelake.quality.split import MARKS, ColumnRule, at, broken_rules, listed, names_of, reason
from oncelake.quality.suite import EACH_RULES, FORMAT_RULES, RECORD_RULES, STAND_IN_RULES, Rule
from oncelake.silver.parsing.columns import text_of, value_of
from oncelake.silver.parsing.events import OF_LINE, as_lines, by_event, columns_of_event
from oncelake.silver.parsing.format import TypedColumn, column_rule
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.schema import QUARANTINE, REASONS, columns, silver_columns

_PARSED = ("log_time", "level", "message", "fields")


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
    parser: Parser,
    limits: TimeLimits,
    rules: Sequence[Rule] = (),
    others: Sequence[StructField] = (),
) -> DataFrame:
    """Add log_time, level, message, fields, warnings, reasons and the formats' columns to bronze's rows.

    `reasons` is never null. If lines have several events, what was read is in `_events`: see `events.as_lines`.

    Args:
        bronze: bronze's rows; columns that an older oncelake did not write may be missing.
        parser: the parser of the log format.
        limits: the accepted range of times.
        rules: the suite's rules, for the lines that break no rule of the format.
        others: the columns of other formats in the same lake, which are null.
    """
    missing = {field.name: F.lit(None).cast(field.dataType) for field in BRONZE if field.name not in bronze.columns}
    bronze = bronze.withColumns(missing) if missing else bronze
    refused = _refusal(parser)
    typed = parser.read(bronze, refused, limits.ahead)
    microsecond = timedelta(microseconds=1)
    earliest = (limits.earliest - datetime(1970, 1, 1, tzinfo=UTC)) // microsecond
    # numbers, as Spark adds an interval to a time by way of a date in a zone
    latest = F.try_add(F.unix_micros("ingested_at"), F.lit(limits.ahead // microsecond))
    in_range = F.unix_micros("log_time").between(F.lit(earliest), latest)
    judged = typed.withColumns({"in_range": F.coalesce(in_range, F.lit(False))})
    nothing = {field.name: F.lit(None).cast(field.dataType) for field in others}
    column_of = partial(_column_of, {**nothing, **{name: value_of(name) for name in parser.columns}})
    of_suite = {severity: broken_rules(rules, severity, column_of) for severity in ("warning", "critical")}
    broken = {severity: [*_misfits(parser, severity), *suite_rules] for severity, suite_rules in of_suite.items()}
    warnings = names_of(broken["warning"]).alias(MARKS)
    reasons = _stays_here(_reasons(parser, refused, broken["critical"])).alias("reasons")
    parsed = judged.select(
        *bronze.columns,
        *_PARSED,
        warnings,
        reasons,
        *(value_of(name).alias(name) for name in parser.columns),
        *(value.alias(name) for name, value in nothing.items()),
        *(columns_of_event() if parser.has_events else ()),
    )
    return as_lines(parsed, bronze.columns, [*parser.columns, *nothing]) if parser.has_events else parsed


def _misfits(parser: Parser, severity: str) -> list[ColumnRule]:
    """Return the rules of a severity on the format's columns."""
    misfits = []
    for name, column in parser.columns.items():
        if column.type != "string" and _severity(column) == severity:
            text = text_of(name)
            misfits.append(ColumnRule(column_rule(name), name, text.isNotNull() & value_of(name).isNull(), text))
    return misfits


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


def share_accepted(bronze: DataFrame, parser: Parser, limits: TimeLimits) -> float:
    """Return the share of bronze's lines that a log format parses without a broken rule; 0 without lines."""
    (share,) = parse(bronze, parser, limits).agg(F.avg(is_accepted().cast("int"))).collect()[0]
    return round(share or 0.0, 4)


def is_taken_apart() -> Column:
    """Return a condition on parsed rows: the row broke no rule of the format, so the suite's rules were checked."""
    return F.coalesce(~F.get(F.col("reasons.rule"), F.lit(0)).isin(list(FORMAT_RULES)), F.lit(True))


def breaks(parsers: Sequence[Parser], rules: Sequence[Rule]) -> dict[str, Column]:
    """Return a condition on parsed rows for each rule of the formats and the suite: the row broke this rule."""
    of_records = any(parser.record is not None for parser in parsers)
    unused = [
        *(() if of_records else RECORD_RULES),
        *(() if any(parser.has_events for parser in parsers) else EACH_RULES),
    ]
    own = [name for name in FORMAT_RULES if name not in unused]
    of_columns = [
        (name, column) for parser in parsers for name, column in parser.columns.items() if column.type != "string"
    ]
    by_severity = [
        *((column_rule(name), _severity(column)) for name, column in of_columns),
        *((rule.id, rule.severity) for rule in rules),
    ]
    refusing = [*own, *(name for name, severity in by_severity if severity == "critical")]
    marking = [name for name, severity in by_severity if severity == "warning"]
    conditions = {name: ~is_accepted() & _has(F.col("reasons.rule"), name) for name in refusing}
    for rule in marking:
        marked = is_taken_apart() & _has(F.col(MARKS), rule)
        conditions[rule] = conditions[rule] | marked if rule in conditions else marked
    return conditions


def broken_names() -> Column:
    """Return the names of the rules that a parsed row broke, those of `breaks`, a name perhaps twice; null for none."""
    marks = F.coalesce(F.when(is_taken_apart(), F.col(MARKS)), F.array().cast("array<string>"))
    return F.when(is_accepted(), F.col(MARKS)).otherwise(F.concat(F.col("reasons.rule"), marks))


def _has(names: Column, name: str) -> Column:
    return names.isNotNull() & F.array_contains(names, name)


def _refusal(parser: Parser) -> Column:
    """List the rules that a line broke whatever is in it; others can be added by `when`."""
    out = F.when(F.col("value").isNull(), F.array(reason(F.lit("null_value"), "value", F.lit(None))))
    line_size, nul_bytes = map(F.lit, STAND_IN_RULES)
    rule, size = F.when(digest().isNull(), nul_bytes).otherwise(line_size), bytes_in_file().cast("string")
    # guard: stand-in-to-quarantine
    out = out.when(is_stand_in(), F.array(reason(rule, "value", F.concat(size, F.lit(" bytes: "), "line"))))
    if parser.record is not None:
        of_file, record = F.col("file").isNotNull(), parser.record_text
        is_started = F.col("is_started")
        broken = {  # guard: broken-record-refused
            "record_size": parser.record.is_too_long(record),
            "record_start": (record != "") & ~is_started,
            "pattern_steps": (record != "") & (is_started.isNull() | F.col("line").isNull()),
            "record_mixed": F.col("mixed"),
        }
        for name, condition in broken.items():
            out = out.when(of_file & condition, F.array(reason(F.lit(name), "value", record)))
    return out.when(F.col("line") == "", F.array(reason(F.lit("blank"), "value", F.lit(""))))


def _reasons(parser: Parser, refused: Column, refusing: Sequence[ColumnRule]) -> Column:
    """List the rules that a row broke; a line that the format does not match has one reason, not three."""
    out = refused if not parser.has_events else F.when(F.col(OF_LINE).isNotNull(), F.col(OF_LINE))
    unclear = F.when(F.col("log_time").isNull(), F.col("unclear"))
    rule = F.when(F.col("log_time").isNotNull(), "time_range").when(unclear.isNotNull(), "time_zone").otherwise("time")
    time = reason(rule, "log_time", F.coalesce(unclear, "time_text"))  # guard: unclear-zone-named
    level = reason(F.lit("level"), "level", F.col("level_text"))
    bad_time, bad_level = ~F.col("in_range"), F.col("level").isNull()
    return (
        out.when(~F.col("matched"), F.array(reason(F.col("unmatched"), "value", F.col("line"))))
        .when(bad_time & bad_level, F.array(time, level))
        .when(bad_time, F.array(time))
        .when(bad_level, F.array(level))
        .otherwise(F.coalesce(listed(refusing, ColumnRule.as_reason, REASONS), F.array().cast(REASONS)))
    )
