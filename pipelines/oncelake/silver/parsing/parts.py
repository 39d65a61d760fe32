"""Split a line into its parts: by width, by a regular expression, or by the keys of JSON and logfmt.

Each way adds the same columns: matched boolean (never null), time_text, level_text and message string,
fields map<string,string>. If matched is false, the other columns have no meaning. Splitting by width also adds `at`,
the instant that the time text stands for, and splitting by a pattern `too_many_steps` boolean. If the format declares
columns, `texts` is a struct of their texts.
"""

import re
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from oncelake.common.ansi import ESCAPE, SEQUENCES
from oncelake.common.spark import line_functions
from oncelake.silver.parsing.columns import TEXTS, has_exact_digits
from oncelake.silver.parsing.format import PartKeys, TypedColumn, is_path
from oncelake.silver.parsing.pattern import groups, whole_line
from oncelake.silver.parsing.times import at_fixed_width

# The values of conf/formats/default.yaml. A format with the same values is read without a regular expression.
DEFAULT_PATTERN = r"^(?<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?<level>[^ ]+)(?: (?<message>.*))?$"
DEFAULT_TIME = ("yyyy-MM-dd HH:mm:ss",)
_SHAPE = r"\A\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \z"
# Checks that nineteen bytes that Spark reads as a time have the form dddd-dd-dd dd:dd:dd, followed by a space. Spark
# also accepts five-digit years, one-digit months (and days, hours, ...), a T, and a fraction. Each of these moves one
# of the separators that are checked here.
_IS_IN_SHAPE = (
    "substring(bytes, 5, 1) = X'2D' AND substring(bytes, 11, 1) = X'20' AND substring(bytes, 17, 1) = X'3A' "
    "AND substring(bytes, 19, 1) BETWEEN X'30' AND X'39' AND substring(bytes, 20, 1) = X'20'"
)
# Lines of files have no \n, records of several lines hardly ever a record separator.
_MARKS = ("\n", "\x1e")
_PARTS = ("time", "level", "message")
_TEXT = "map<string,string>"
# RFC 8259 does not allow 'single' quotes
_JSON_OPTIONS = {"allowSingleQuotes": "false"}
# A pair of logfmt: its key, and its value with its quotes
_PAIR = r'([^\s="]++)(?:=("(?:[^"\\]|\\.)*+"|[^\s"]*+))?+'
_PAIRS = rf"\A\s*+(?={_PAIR[: _PAIR.index(')') + 1]}=)(?:{_PAIR}(?:\s++|\z))++\z"
# Of a quoted value that is no text of JSON, one after the other: escaped line ends and tabs, quotes and backslashes
_ESCAPED = r"(?<!\\)((?:\\\\)*+)\\"
_UNESCAPED = {rf"{_ESCAPED}n": "$1\n", rf"{_ESCAPED}t": "$1\t", r'\\(["\\])': "$1"}
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]|\['([^']+)'\]")
_NO_COLUMNS: Mapping[str, TypedColumn] = {}
_NO_PATHS: Mapping[str, Column] = {}


def without_ansi(text: Column) -> Column:
    """Return a text without the control sequences of a terminal."""
    return F.when(text.contains(ESCAPE), F.regexp_replace(text, SEQUENCES, "")).otherwise(text)


def texts_column(texts: Mapping[str, Column]) -> dict[str, Column]:
    """Return the column of the texts of a format's columns, by its name; nothing without any."""
    return {TEXTS: F.struct(*(text.alias(name) for name, text in texts.items()))} if texts else {}


def by_width(frame: DataFrame, zone: str) -> DataFrame:
    """Split a line of the default format at the fixed positions of its time.

    Bytes are cut, not characters, because Spark must count characters to find a position. In a line that matches, the
    first twenty bytes are ASCII. A text whose time can be read needs no regular expression: see `_IS_IN_SHAPE`.
    """
    frame = frame.withColumns({"bytes": F.col("line").cast("binary")})
    frame = frame.withColumns({"time_text": _cut("substring(bytes, 1, 19)"), "rest": _cut("substring(bytes, 21)")})
    at = at_fixed_width(F.col("time_text"), zone, frame.sparkSession)
    frame = frame.withColumns({"level_text": F.substring_index("rest", " ", 1), "at": at})
    in_shape = (F.col("at").isNotNull() & F.expr(_IS_IN_SHAPE)) | _cut("substring(bytes, 1, 20)").rlike(_SHAPE)
    return frame.withColumns(
        {
            "matched": F.coalesce(in_shape & (F.col("level_text") != ""), F.lit(False)),
            "message": _cut("substring(bytes, 22 + octet_length(level_text))"),
            "fields": F.create_map().cast(_TEXT),
        }
    ).drop("bytes", "rest")


def _cut(expression: str) -> Column:
    return F.expr(expression).cast("string")


def by_pattern(frame: DataFrame, pattern: str, columns: Mapping[str, TypedColumn] = _NO_COLUMNS) -> DataFrame:
    """Split a line with a regular expression that runs once for all groups."""
    whole, names = whole_line(pattern), groups(pattern).names
    parts = line_functions.groups(F.col("line"), whole, [*names.values()])
    if parts is None:
        parts = groups_by_spark(F.col("line"), whole, names)
    part = {name: F.get("parts", F.lit(at)) for at, name in enumerate(names, start=1)}
    value = {name: F.nullif(text, F.lit("")) for name, text in part.items()}
    others = [item for name in names if name not in _PARTS for item in (F.lit(name), value[name])]
    return (
        frame.withColumns({"parts": parts})
        .withColumns(
            {
                "matched": F.coalesce(F.size("parts") == len(names) + 1, F.lit(False)),
                "too_many_steps": F.coalesce(F.size("parts") == 0, F.lit(False)),
                "time_text": part["time"],
                "level_text": part.get("level", F.lit(None).cast("string")),
                "message": part["message"],
                "fields": F.create_map(*others).cast(_TEXT),
                **texts_column({name: value[column.source] for name, column in columns.items()}),
            }
        )
        .drop("parts")
    )


def groups_by_spark(line: Column, whole: str, names: Mapping[str, int]) -> Column:
    """Return what `line_functions.groups` returns, by Spark's own functions, which do not bound the steps.

    The line is replaced by its groups, each after a mark that the line itself does not have. A line with every mark is
    read group by group.
    """
    one_by_one = F.array(F.lit(""), *(F.regexp_extract(line, whole, number) for number in names.values()))
    parts = F.when(line.rlike(whole), one_by_one)
    for mark in reversed(_MARKS):
        replaced = F.regexp_replace(line, whole, "".join(f"{mark}${{{name}}}" for name in names))
        parts = F.when(~line.contains(mark), F.split(replaced, mark)).otherwise(parts)
    return parts


def by_json(frame: DataFrame, keys: PartKeys, columns: Mapping[str, TypedColumn] = _NO_COLUMNS) -> DataFrame:
    """Split a JSON object into its parts; any other line does not match."""
    sources = (*keys.time, *keys.level, *keys.message, *(column.source for column in columns.values()))
    paths = [key for key in dict.fromkeys(sources) if is_path(key)]
    read = line_functions.json_object(F.col("line"), [_steps(path) for path in paths])
    if read is None:  # guard: exact-json-number
        return _by_json_of_spark(frame, keys, columns)
    frame = frame.withColumns({"read": read}).withColumns({"object": F.col("read.object")})
    frame = frame.withColumns({"matched": F.col("read").isNotNull()})
    at = {path: F.get(F.col("read.paths"), F.lit(number)) for number, path in enumerate(paths)}
    texts = {name: at.get(column.source, _at(column.source)) for name, column in columns.items()}
    return _by_keys(frame, keys, texts, at).drop("read")


def _steps(path: str) -> list[str]:
    """Return the steps of a path, `.key` or `[number`."""
    return [f"[{match[2]}" if match[2] else f".{match[1] or match[3]}" for match in _STEP.finditer(path)]


def _by_json_of_spark(frame: DataFrame, keys: PartKeys, columns: Mapping[str, TypedColumn]) -> DataFrame:
    """Split a JSON object by Spark's own functions, which write numbers again.

    Spark's from_json stops where the object ends and would accept `{} and more`. So the line is read as the first
    element of a list of two. The second one is a text that no line can hold: its own hash.
    """
    end = F.concat(F.lit(',{"end":"'), F.sha2("line", 256), F.lit('"}]'))
    both = F.from_json(F.concat(F.lit("["), "line", end), f"array<{_TEXT}>", _JSON_OPTIONS)
    frame = frame.withColumns({"both": both}).withColumns({"object": F.get("both", F.lit(0))})
    is_end = F.try_element_at(F.get("both", F.lit(1)), F.lit("end")) == F.sha2("line", 256)
    matched = (F.size("both") == 2) & is_end & F.col("object").isNotNull()  # guard: one-json-object-without-java
    frame = frame.withColumns({"matched": F.coalesce(matched, F.lit(False)), "object": _last_wins(F.col("object"))})
    texts = {  # guard: exact-json-digits-without-java
        name: _exact(column.source) if has_exact_digits(column.type) else _at(column.source)
        for name, column in columns.items()
    }
    return _by_keys(frame, keys, texts).drop("both")


def by_logfmt(frame: DataFrame, keys: PartKeys, columns: Mapping[str, TypedColumn] = _NO_COLUMNS) -> DataFrame:
    """Split a line of key=value pairs with spaces between them; a value may be quoted, a key may lack a value."""
    quoted = F.regexp_extract_all("line", F.lit(_PAIR), F.lit(2))
    values = F.transform(quoted, _unquoted)
    pairs = F.map_from_arrays(F.regexp_extract_all("line", F.lit(_PAIR), F.lit(1)), values)
    frame = frame.withColumns({"matched": F.col("line").rlike(_PAIRS)})
    frame = frame.withColumns({"object": F.when(F.col("matched"), pairs)})
    frame = frame.withColumns({"matched": F.coalesce("matched", F.lit(False))})
    return _by_keys(frame, keys, {name: _at(column.source) for name, column in columns.items()})


def _unquoted(value: Column) -> Column:
    """Return a value without its quotes and escapes; one without quotes is as it is."""
    inner = F.substring(value, F.lit(2), F.length(value) - 2)
    others = inner
    for pattern, text in _UNESCAPED.items():
        others = F.regexp_replace(others, pattern, text)
    as_json = _json_at(F.concat(F.lit('{"v":'), value, F.lit("}")), "$.v")
    unescaped = F.when(inner.contains("\\"), F.coalesce(as_json, others)).otherwise(inner)
    return F.when(value.startswith('"'), unescaped).otherwise(value)  # guard: escapes-only-in-quotes


def _by_keys(
    frame: DataFrame, keys: PartKeys, texts: Mapping[str, Column], paths: Mapping[str, Column] = _NO_PATHS
) -> DataFrame:
    """Take the parts out of a column `object`, a map of texts.

    Args:
        frame: the lines.
        keys: where the parts are; a key `$.a.b` is a path into the line, a JSON object.
        texts: the texts of the format's columns.
        paths: the texts at paths; others are looked up.
    """
    chosen = {
        part: {name: paths.get(name, _at(name)) for name in names}
        for part, names in {"time": keys.time, "level": keys.level, "message": keys.message}.items()
    }
    value = {part: F.coalesce(*at.values()) for part, at in chosen.items()}
    frame = frame.withColumns({f"{part}_key": _first(at) for part, at in chosen.items()})
    used_keys = [F.col(f"{part}_key") for part in chosen]
    return frame.withColumns(
        {
            "time_text": value["time"],
            "level_text": value["level"],
            "message": F.coalesce(value["message"], F.lit("")),
            "fields": _without("object", used_keys),
            **texts_column(texts),
        }
    ).drop("object", *(f"{part}_key" for part in chosen))


def _without(name: str, keys: Sequence[Column]) -> Column:
    """Return a map without some keys; they are computed once for a row, not for each of its keys."""
    of_row = F.array(F.array(*keys))
    return F.get(
        F.transform(of_row, lambda excluded: F.map_filter(name, lambda key, _: ~F.exists(excluded, key.eqNullSafe))), 0
    )


def _first(at: Mapping[str, Column]) -> Column:
    return F.coalesce(*(F.when(text.isNotNull(), F.lit(name)) for name, text in at.items()))


def _at(key: str) -> Column:
    """Return the text at a key; null if there is none."""
    return _json_at(F.col("line"), key) if is_path(key) else F.try_element_at("object", F.lit(key))


def _json_at(line: Column, path: str) -> Column:  # guard: json-escapes-stay-valid
    """Return the text at a path; two escaped surrogates that are no pair give Spark a text that is not UTF-8."""
    return F.make_valid_utf8(F.get_json_object(line, path))


def _exact(key: str) -> Column:
    """Return the text at a key of a JSON line, a number with all its digits, which Spark rounds to a double elsewhere.

    In an object with equal keys it is unknown, and a misfit. A number with an exponent is a double here, too.
    """
    path = key if is_path(key) else f"$['{key}']" if "'" not in key else f'$["{key}"]'
    exact = F.try_variant_get(F.try_parse_json("line"), path, "string")
    return F.when(_at(key).isNotNull(), F.coalesce(exact, F.lit("unknown: the line has equal keys")))


def _last_wins(entries: Column) -> Column:
    """Keep only the last of equal keys: from_json keeps all of them, which a map in a table must not.

    The session's `spark.sql.mapKeyDedupPolicy`, LAST_WIN, does this in time proportional to the number of keys.
    """
    return F.map_from_arrays(F.map_keys(entries), F.map_values(entries))
