"""Schemas of `silver/access_log` (typed lines), `quarantine` (lines that broke a rule) and `duplicates` (repeats)."""

from collections.abc import Container, Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelake.bronze.schema import BRONZE
from oncelake.quality.split import MARKS

_ORIGIN = ("topic", "partition", "offset", "file", "ingested_at")

SILVER = StructType(
    [
        StructField("log_time", TimestampType(), metadata={"comment": "when it was logged, UTC"}),
        StructField("level", StringType(), metadata={"comment": "TRACE, DEBUG, INFO, WARN, ERROR or FATAL"}),
        StructField("message", StringType(), metadata={"comment": "the message; may be empty"}),
        StructField(
            "fields",
            MapType(StringType(), StringType()),
            metadata={"comment": "all else that the format names; null where a line has none"},
        ),
        *(BRONZE[name] for name in _ORIGIN),
        StructField(
            MARKS,
            ArrayType(StringType()),
            metadata={"comment": "the rules of severity warning that the line breaks; null when none"},
        ),
    ]
)

# Only in a lake whose settings have `sources`.
SOURCE = StructField(
    "source",
    StringType(),
    metadata={"comment": "the source's name; null for a line from before the lake had several, of access_log"},
)
# The column of parsed rows before the format's own columns.
_BEFORE_COLUMNS = "reasons"

REASONS = ArrayType(
    StructType(
        [
            StructField("rule", StringType(), metadata={"comment": "the rule that the line broke"}),
            StructField("column", StringType(), metadata={"comment": "the column that the rule is about"}),
            StructField("value", StringType(), metadata={"comment": "what stood there, at most 80 characters"}),
        ]
    )
)

QUARANTINE = StructType(
    [*BRONZE.fields, StructField("reasons", REASONS, metadata={"comment": "one entry for each rule broken"})]
)

# Only in a lake whose settings have `silver.deduplicate`.
EVENT = (
    StructField(
        "event_key",
        BinaryType(),
        metadata={"comment": "a hash of what identifies the line's event; null for a line that is not compared"},
    ),
    StructField(
        "event_window",
        LongType(),
        metadata={"comment": "how far apart the times of a line and its repeat can be, in microseconds"},
    ),
)
EVENT_KEY, EVENT_WINDOW = (field.name for field in EVENT)
# Only in a lake whose settings have a log format with `each`.
EACH = (
    StructField(
        "event_index",
        IntegerType(),
        metadata={"comment": "the number of the event in its line, from 0; null for a line that is one row"},
    ),
    StructField("event_count", IntegerType(), metadata={"comment": "how many events the line has, each a row"}),
)
EVENT_INDEX, EVENT_COUNT = (field.name for field in EACH)
# What identifies a row of silver, for its repeats.
TWIN = StructField(
    "twin",
    StructType([SILVER["log_time"], *(BRONZE[name] for name in _ORIGIN), SOURCE]),
    metadata={"comment": "the row of silver that the line repeats: its time and origin"},
)
DUPLICATES = StructType([*BRONZE.fields, SILVER["log_time"], *EVENT, TWIN])


def with_source(schema: StructType, *, named: bool = True) -> StructType:
    """Return the schema of silver or quarantine, with the name of a line's source if `named`."""
    return StructType([*schema.fields, SOURCE]) if named else schema


def columns(schema: StructType, names: Container[str]) -> list[str]:
    """Return the columns of silver or quarantine that a parsed frame with some columns gives."""
    return with_source(schema, named=SOURCE.name in names).fieldNames()


def silver_columns(parsed: Sequence[str]) -> list[str]:
    """Return the names of silver's columns in parsed rows: those of every format, then the formats' own."""
    return [*columns(SILVER, parsed), *parsed[parsed.index(_BEFORE_COLUMNS) + 1 :]]
