"""Read a line that has many events: each is read as a line of its own, and becomes a row of silver.

The line stays the unit of everything that is counted. Parsed rows are one for each line; the rows of silver that a line
gives are in its column `_events`. If an event breaks a rule, the line is refused as a whole.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from oncelake.common.errors import ConfigError
from oncelake.common.spark.line_functions import json_events
from oncelake.quality.expectations import Row
from oncelake.quality.split import MARKS, at, reason, shortened
from oncelake.silver.parsing.inside import with_outer
from oncelake.silver.schema import EACH, EVENT_COUNT, EVENT_INDEX, REASONS

# The column of parsed rows with the rows of silver, a list of structs.
EVENTS = "_events"
# The parts of a read event, in the order of silver's columns.
_PARTS = ("log_time", "level", "message", "fields", MARKS)
_NUMBERS = tuple(field.name for field in EACH)
# While the events are rows: what identifies their line, its other keys, and why it has no events.
_LINE, _OUTER, OF_LINE, _ROW = "_each_line", "_each_outer", "_each_reasons", "_each_row"


def check_each() -> None:
    """Raise ConfigError if the running Spark cannot read lines with many events."""
    if json_events(F.lit(""), "") is None:
        raise ConfigError(
            "each: this Spark has not oncelake's Java classes, which read such lines. Let oncelake start Spark itself, "
            "or run python -m oncelake.set_up and give the jar to --jars"
        )


def opened(lines: DataFrame, key: str, refused: Column) -> DataFrame:
    """Return a row for each event, whose `line` is the event's text; one row for a line without events.

    Args:
        lines: bronze's rows with `line`.
        key: the key of a line under which its events are; empty if the line is the list of them.
        refused: the reasons of a line that is refused whatever is in it; null for none.
    """
    read = json_events(F.col("line"), key)
    assert read is not None, "the session was checked"
    fault = F.when(F.col("read").isNull(), reason(F.lit("pattern"), "value", F.col("line")))
    fault = fault.when(F.col("read.events").isNull(), reason(F.lit("each"), "value", F.col("read.fault")))
    lines = lines.withColumns({"read": F.when(refused.isNull(), read), _LINE: F.monotonically_increasing_id()})
    lines = lines.withColumns(
        {
            OF_LINE: F.coalesce(refused, F.when(fault.isNotNull(), F.array(fault))),
            EVENT_COUNT: F.size("read.events"),
            _OUTER: F.col("read.outer"),
        }
    )
    # the whole line with its first event alone: a copy of it for each event would be most of the work
    pieces = F.transform(
        "read.events", lambda text, at: F.struct(text.alias("line"), F.when(at == 0, F.col("value")).alias("value"))
    )
    alone = F.array(F.struct(F.lit(None).cast("string").alias("line"), "value"))
    others = [name for name in lines.columns if name not in ("read", "line", "value")]
    rows = lines.select(*others, F.posexplode(F.coalesce(pieces, alone)).alias(EVENT_INDEX, _ROW))
    number = F.when(F.col(OF_LINE).isNull(), F.col(EVENT_INDEX))
    return rows.withColumns({EVENT_INDEX: number, "line": F.col(_ROW).line, "value": F.col(_ROW).value}).drop(_ROW)


def with_line_fields(events: DataFrame) -> DataFrame:
    """Add the other keys of an event's line to its fields."""
    return events.withColumns({"fields": with_outer(F.col("fields"), F.col(_OUTER))})


def columns_of_event() -> list[str]:
    """Return the columns that `as_lines` needs of each event, besides what was read in it."""
    return [*_NUMBERS, _LINE]


def as_lines(events: DataFrame, of_line: Sequence[str], added: Sequence[str]) -> DataFrame:
    """Return a row for each line again, with the events in it.

    Args:
        events: the parsed events, with `columns_of_event`.
        of_line: the columns of the line.
        added: the columns that the settings add to silver.
    """
    event = F.struct(*_columns(added), *_NUMBERS, "reasons")
    lines = events.groupBy(_LINE).agg(
        F.first(F.when(is_first(), F.struct(*of_line, "reasons")), ignorenulls=True).alias(_ROW),
        F.collect_list(F.when(F.col(EVENT_INDEX).isNotNull(), event)).alias(EVENTS),
    )
    in_order = F.array_sort(F.col(EVENTS), lambda one, other: one[EVENT_INDEX] - other[EVENT_INDEX])
    lines = lines.withColumns({EVENTS: in_order})
    all_reasons = F.flatten(F.transform(EVENTS, _reasons))  # guard: bad-event-refuses-line
    reasons = F.when(F.size(EVENTS) == 0, F.col(f"{_ROW}.reasons")).otherwise(_first_of_each_rule(all_reasons))
    marks = F.array_distinct(F.flatten(F.filter(F.col(EVENTS)[MARKS], lambda mark_list: mark_list.isNotNull())))
    event_rows = F.transform(EVENTS, lambda item: item.dropFields("reasons"))
    return lines.select(
        *(F.col(_ROW)[name].alias(name) for name in of_line),
        F.when(F.size(marks) > 0, marks).alias(MARKS),
        reasons.alias("reasons"),
        event_rows.alias(EVENTS),
    )


def as_events(parsed: DataFrame) -> DataFrame:
    """Return parsed rows of a format without `each`, with `EACH`, in the form of `as_lines`: a line is one row."""
    first, last = parsed.columns.index(_PARTS[0]), parsed.columns.index("reasons")
    names = [name for name in parsed.columns[last + 1 :] if name not in _NUMBERS]
    event = F.struct(*_columns(names), *_NUMBERS)
    return parsed.select(*parsed.columns[:first], MARKS, "reasons", F.array(event).alias(EVENTS))


def by_event(parsed: DataFrame) -> DataFrame:
    """Return a row for each event of parsed lines, and one for a line without any; other parsed rows as they are."""
    if EVENTS not in parsed.columns:
        return parsed
    of_line = [name for name in parsed.columns if name not in (MARKS, "reasons")]
    rows = parsed.select(*of_line, "reasons", F.inline_outer(EVENTS))
    names = [name for name in rows.columns if name not in (*of_line, "reasons")]
    return rows.select(*of_line, *_PARTS, "reasons", *names[len(_PARTS) :])


def rows_of_lines(chosen: Column) -> Column:
    """Return how many rows of silver the parsed lines that meet a condition give."""
    return F.coalesce(F.sum(F.when(chosen, F.size(EVENTS))), F.lit(0))


def of_any_event(holds: Callable[[Row], Column], added: Sequence[str]) -> Column:
    """Return a condition on rows of `by_event`: the row is the first of its line, and it holds for one of the events.

    Args:
        holds: the condition, from what returns a column by its name in a suite.
        added: the columns that the settings add to silver.
    """
    names = (*_PARTS, *added, *_NUMBERS)

    def of_event(event: Column, name: str) -> Column:
        outer, dot, key = name.partition(".")
        if dot and outer in names:
            return event[outer][key]
        return event[name] if name in names else at(name)

    return is_first() & F.exists(EVENTS, lambda event: holds(lambda name: of_event(event, name)))


# Whether a row of silver is the first of its line, or the only one, in SQL.
IS_FIRST = f"coalesce({EVENT_INDEX}, 0) = 0"


def is_first() -> Column:
    """Return a condition on rows of silver: the row is the first of its line, or the only one."""
    return F.expr(IS_FIRST)


def _columns(added: Sequence[str]) -> list[Column]:
    """Return the columns of silver of an event; in one order, as rows of several formats are put together."""
    return [*map(F.col, _PARTS), *map(F.col, sorted(added))]


def _reasons(event: Column) -> Column:
    """Return the reasons of an event, whose values name it."""
    name = F.concat(F.lit("event "), event[EVENT_INDEX].cast("string"))

    def named(entry: Column) -> Column:
        value = shortened(F.concat_ws(": ", name, entry["value"]))
        return F.struct(entry["rule"].alias("rule"), entry["column"].alias("column"), value.alias("value"))

    return F.transform(event["reasons"], named)


def _first_of_each_rule(reasons: Column) -> Column:
    """Return the first reason of each rule: a line of thousands of events has a few reasons."""

    def more(result: Column, entry: Column) -> Column:
        is_there = F.exists(result, lambda other: other["rule"] == entry["rule"])
        return F.when(is_there, result).otherwise(F.concat(result, F.array(entry)))

    return F.aggregate(reasons, F.array().cast(REASONS), more)
