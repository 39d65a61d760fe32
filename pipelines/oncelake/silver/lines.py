"""Split a line into its parts, in the cheapest way that its format allows.

Each way adds the same columns: matched boolean (never null), time_text, level_text and message string,
fields map<string,string>. If matched is false, the other columns have no meaning. Splitting by width also adds `at`,
the instant that the time text stands for. If the format declares columns, `texts` is a struct of their texts, and
splitting JSON adds `exact`, a struct of the numbers that must keep all their digits.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from oncelake.silver.columns import has_exact_digits
from oncelake.silver.format import LogFormat, PartKeys, TypedColumn, is_path
from oncelake.silver.pattern import groups, whole_line
from oncelake.silver.times import at_fixed_width

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
# Taken from a quoted value one after the other: its quotes, escaped line ends and tabs, other escapes
_ESCAPED = r"(?<!\\)((?:\\\\)*+)\\"
_UNQUOTED = {r'\A"|"\z': "", rf"{_ESCAPED}n": "$1\n", rf"{_ESCAPED}t": "$1\t", r"\\(.)": "$1"}
_END = '{"\\u0000":"end"}'
_NO_COLUMNS: Mapping[str, TypedColumn] = {}


def is_fixed_width(fmt: LogFormat) -> bool:
    """Return True if splitting by width gives the same result as the format's regular expression."""
    return fmt.pattern == DEFAULT_PATTERN and fmt.time == DEFAULT_TIME


def take_apart(frame: DataFrame, fmt: LogFormat) -> DataFrame:
    """Add the parts of each line to a frame with a column `line`."""
    if fmt.json_keys is not None:
        return by_json(frame, fmt.json_keys, fmt.columns)
    if fmt.logfmt is not None:
        return by_logfmt(frame, fmt.logfmt, fmt.columns)
    if not is_fixed_width(fmt):
        return by_pattern(frame, fmt.pattern or "", fmt.columns)
    parts = {"time": F.col("time_text"), "level": F.col("level_text"), "message": F.col("message")}
    return by_width(frame, fmt.zone).withColumns(
        _texts({name: parts[each.source] for name, each in fmt.columns.items()})
    )


def _texts(texts: Mapping[str, Column]) -> dict[str, Column]:
    return {"texts": F.struct(*(text.alias(name) for name, text in texts.items()))} if texts else {}


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
    r"""Split a line with a regular expression that runs once for all groups.

    The line is replaced by its groups, each after a mark that the line itself does not have. A line with every mark is
    read group by group.
    """
    line, whole, names = F.col("line"), whole_line(pattern), groups(pattern).names
    one_by_one = F.array(F.lit(""), *(F.regexp_extract(line, whole, number) for number in names.values()))
    parts = F.when(line.rlike(whole), one_by_one)
    for mark in reversed(_MARKS):
        replaced = F.regexp_replace(line, whole, "".join(f"{mark}${{{name}}}" for name in names))
        parts = F.when(~line.contains(mark), F.split(replaced, mark)).otherwise(parts)
    part = {name: F.get("parts", F.lit(at)) for at, name in enumerate(names, start=1)}
    value = {name: F.nullif(text, F.lit("")) for name, text in part.items()}
    others = [each for name in names if name not in _PARTS for each in (F.lit(name), value[name])]
    return (
        frame.withColumns({"parts": parts})
        .withColumns(
            {
                "matched": F.coalesce(F.size("parts") == len(names) + 1, F.lit(False)),
                "time_text": part["time"],
                "level_text": part.get("level", F.lit(None).cast("string")),
                "message": part["message"],
                "fields": F.create_map(*others).cast(_TEXT),
                **_texts({name: value[each.source] for name, each in columns.items()}),
            }
        )
        .drop("parts")
    )


def by_json(frame: DataFrame, keys: PartKeys, columns: Mapping[str, TypedColumn] = _NO_COLUMNS) -> DataFrame:
    """Split a JSON object into its parts; any other line does not match.

    Spark's from_json stops where the object ends and would accept `{} and more`. So the line is read as the first
    element of a list of two.
    """
    both = F.from_json(F.concat(F.lit("["), "line", F.lit(f",{_END}]")), f"array<{_TEXT}>", _JSON_OPTIONS)
    frame = frame.withColumns({"both": both}).withColumns({"object": F.get("both", F.lit(0))})
    matched = (F.size("both") == 2) & F.col("object").isNotNull()
    frame = frame.withColumns({"matched": F.coalesce(matched, F.lit(False)), "object": _last_wins(F.col("object"))})
    exact = {name: _exact(each.source) for name, each in columns.items() if has_exact_digits(each.type)}
    frame = (
        frame.withColumns({"exact": F.struct(*(text.alias(name) for name, text in exact.items()))}) if exact else frame
    )
    return _by_keys(frame, keys, {name: _at(each.source) for name, each in columns.items()}).drop("both")


def by_logfmt(frame: DataFrame, keys: PartKeys, columns: Mapping[str, TypedColumn] = _NO_COLUMNS) -> DataFrame:
    """Split a line of key=value pairs with spaces between them; a value may be quoted, a key may lack a value."""
    quoted = F.regexp_extract_all("line", F.lit(_PAIR), F.lit(2))
    values = F.transform(quoted, _unquoted)
    pairs = F.map_from_arrays(F.regexp_extract_all("line", F.lit(_PAIR), F.lit(1)), values)
    frame = frame.withColumns({"matched": F.col("line").rlike(_PAIRS)})
    frame = frame.withColumns({"object": F.when(F.col("matched"), pairs)})
    frame = frame.withColumns({"matched": F.coalesce("matched", F.lit(False))})
    return _by_keys(frame, keys, {name: _at(each.source) for name, each in columns.items()})


def _unquoted(value: Column) -> Column:
    for pattern, text in _UNQUOTED.items():
        value = F.regexp_replace(value, pattern, text)
    return value


def _by_keys(frame: DataFrame, keys: PartKeys, texts: Mapping[str, Column]) -> DataFrame:
    """Take the parts out of a column `object`, a map of texts; a key `$.a.b` is a path into the line, a JSON object."""
    chosen = {"time": keys.time, "level": keys.level, "message": keys.message}
    value = {part: F.coalesce(*map(_at, names)) for part, names in chosen.items()}
    frame = frame.withColumns({f"{part}_key": _first(names) for part, names in chosen.items()})
    taken = [F.col(f"{part}_key") for part in chosen]
    return frame.withColumns(
        {
            "time_text": value["time"],
            "level_text": value["level"],
            "message": F.coalesce(value["message"], F.lit("")),
            "fields": F.map_filter("object", lambda key, _: ~F.exists(F.array(*taken), key.eqNullSafe)),
            **_texts(texts),
        }
    ).drop("object", *(f"{part}_key" for part in chosen))


def _first(names: tuple[str, ...]) -> Column:
    return F.coalesce(*(F.when(_at(name).isNotNull(), F.lit(name)) for name in names))


def _at(key: str) -> Column:
    """Return the text at a key; null if there is none."""
    return F.get_json_object("line", key) if is_path(key) else F.try_element_at("object", F.lit(key))


def _exact(key: str) -> Column:
    """Return a number at a key of a JSON line with all its digits: elsewhere, a fraction is rounded to a double.

    Null if the line is an object with equal keys. A number with an exponent is a double here, too.
    """
    path = key if is_path(key) else f"$['{key}']" if "'" not in key else f'$["{key}"]'
    return F.try_variant_get(F.try_parse_json("line"), path, "string")


def _last_wins(entries: Column) -> Column:
    """Keep only the last of equal keys: from_json keeps all of them, which a map in a table must not.

    The session's `spark.sql.mapKeyDedupPolicy`, LAST_WIN, does this in time proportional to the number of keys.
    """
    return F.map_from_arrays(F.map_keys(entries), F.map_values(entries))
