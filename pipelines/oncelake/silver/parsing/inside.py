"""Read what a line carries as its message: a container runtime or a syslog server wraps another program's line.

The line inside has its own time, level and message. The time of the line around counts where the one inside has none.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from oncelake.bronze.records import Records
from oncelake.common.spark import line_functions
from oncelake.common.spark.line_functions import replaced
from oncelake.silver.parsing.pattern import groups

# The parts of a read line.
_PARTS = (
    "matched",
    "time_text",
    "level_text",
    "message",
    "fields",
    "log_time",
    "level",
    "unclear",
    "mixed",
    "unmatched",
)
_OUTER = "outer"
# Before the name of a field of the line around, if the line inside has a field of that name.
_OF_OUTER = "outer_"


def with_inside(
    frame: DataFrame, by: Sequence[str], readers: Mapping[str, Callable[[DataFrame], DataFrame]], *, is_json: bool
) -> DataFrame:
    """Replace the parts of each line with those of the line inside it, if a format is declared for that one.

    Args:
        frame: rows with the columns `line` and `_PARTS`.
        by: the fields that decide; the first that a line has a value for.
        readers: for each value of these fields, or under the empty name for every line: adds `_PARTS` to rows with
            `line`, and with `outer_time`, the time of the line around.
        is_json: True if the lines around are JSON.
    """
    frame = frame.withColumns({_OUTER: F.struct(*_PARTS), "whole": F.col("line")})
    decides = F.coalesce(*(F.col(_OUTER).fields[name] for name in by))
    ways: list[tuple[Column, str]] = []
    for number, (name, read) in enumerate(readers.items()):
        inside = F.col(_OUTER).message
        if is_json:  # docker writes the line with its end
            inside = F.regexp_replace(inside, r"\r?\n\z", "")
        rows = frame.drop(*_PARTS).withColumns({"line": inside, "outer_time": F.col(_OUTER).log_time})
        column = f"inside{number}"
        frame = read(rows).withColumns({column: F.struct(*_parts())}).drop("outer_time", "at")
        frame = frame.withColumns({"line": F.col("whole")})
        ways.append((decides.eqNullSafe(name) if name else F.lit(True), column))
    chosen = reduce(
        lambda otherwise, way: F.when(F.col(_OUTER).matched & way[0], F.col(way[1])).otherwise(otherwise),
        reversed(ways),
        F.col(_OUTER),
    )
    frame = frame.drop(*_PARTS).withColumns({"chosen": chosen})
    parts = {name: F.col("chosen")[name] for name in _PARTS}
    return frame.withColumns(parts).drop(_OUTER, "whole", "chosen", *(column for _, column in ways))


def joined(record: Column, records: Records, *, is_json: bool) -> Column:
    """Return a record of lines around others as its format reads it: one line around all that is inside.

    The parts of a line that was cut are put together; the line ends between other lines stay. In a JSON line, the end
    is part of the text already. Null if a pattern takes too many steps on a line.

    Args:
        record: the record as bronze has it.
        records: how the format puts lines together.
        is_json: True if its lines are JSON.
    """
    if records.inside is None or is_json:
        return records.joined(record)
    part, content, lines = records.part or "", records.content or "", F.split(record, r"\r?\n")

    def after(line: Column, at: Column) -> Column:
        continued = replaced(line, rf"\A(?:{content})")
        way = _goes_on(F.get(lines, at - 1), part)
        return F.when(at == 0, line).when(way, continued).when(~way, F.concat(F.lit("\n"), continued))

    texts = F.transform(lines, after)
    whole = F.when(~F.exists(texts, lambda text: text.isNull()), F.array_join(texts, ""))
    return F.when(record.contains("\n"), whole).otherwise(record)


def _goes_on(line: Column, part: str) -> Column:
    """Return True if a line was cut, so that the next one goes on; null if that takes too many steps."""
    more = groups(part).names["more"]
    texts = line_functions.groups(line, part, [more])
    if texts is None:
        return F.regexp_extract(line, part, more) != ""
    return F.when(texts.isNull(), F.lit(False)).when(F.size(texts) > 0, F.get(texts, F.lit(1)) != "")


def with_outer(fields: Column, outer: Column) -> Column:
    """Return fields with those of the line around them, which are `outer_NAME` if both have the name."""

    def name(key: Column, _: Column) -> Column:
        return F.when(F.array_contains(F.map_keys(fields), key), F.concat(F.lit(_OF_OUTER), key)).otherwise(key)

    return F.map_concat(F.transform_keys(outer, name), fields)


def _parts() -> list[Column]:
    """Return the parts of a line inside, with the time and the fields of the line around where it has none."""
    outer = F.col(_OUTER)
    lacks_time = F.coalesce(F.col("time_text"), F.lit("")) == ""
    replacements = {  # guard: inner-line-without-time
        "log_time": F.when(lacks_time, outer.log_time).otherwise(F.col("log_time")),
        "fields": with_outer(F.col("fields"), outer.fields),
    }
    return [replacements.get(name, F.col(name)).alias(name) for name in _PARTS]
