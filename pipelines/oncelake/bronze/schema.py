"""Schema of `bronze/access_log`: each line unchanged, and where it came from."""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

ORIGIN = (
    StructField("topic", StringType(), metadata={"comment": "Kafka topic; null for a line from a file"}),
    StructField("partition", IntegerType(), metadata={"comment": "Kafka partition"}),
    StructField("offset", LongType(), metadata={"comment": "Kafka offset; (topic, partition, offset) is unique"}),
    StructField(
        "timestamp",
        TimestampType(),
        metadata={"comment": "the Kafka record's own timestamp"},
    ),
    StructField("key", BinaryType(), metadata={"comment": "the Kafka record's key"}),
    StructField("headers", _HEADERS, metadata={"comment": "the Kafka record's headers, in order"}),
    StructField("file", StringType(), metadata={"comment": "URI of the file; null for a line from Kafka"}),
    StructField(
        "file_modified", TimestampType(), metadata={"comment": "the file's modification time when it was read"}
    ),
    StructField("file_size", LongType(), metadata={"comment": "the file's size in bytes when it was read"}),
    StructField("ingested_at", TimestampType(), metadata={"comment": "when the line's batch was planned, UTC"}),
    StructField(
        "file_offset",
        LongType(),
        metadata={"comment": "the byte of the uncompressed file at which a record of several lines starts"},
    ),
    StructField(
        "file_id",
        LongType(),
        metadata={"comment": "the number of a growing file; (file_id, file_offset) is unique, whatever its name is"},
    ),
)

# Bytes, not a string: a line may not be valid UTF-8, and other engines cannot read such a Parquet string.
# Null means a Kafka record without a value (a tombstone).
VALUE = StructField("value", BinaryType(), metadata={"comment": "the line's bytes, without its \\n"})

BRONZE = StructType([VALUE, *ORIGIN])
