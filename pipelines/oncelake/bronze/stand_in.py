"""Rows of bronze that stand for bytes of a file: a line above the bound, or the NUL bytes before a line.

`BoundedLines.java` makes them. Their `value` has the first bytes, and their `headers`, which other rows of files do not
have, say how many bytes of the file they stand for, and the SHA-256 of a line.
"""

from typing import TYPE_CHECKING

from pydantic import ByteSize
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from oncelake.bronze.schema import BRONZE

if TYPE_CHECKING:
    import pyarrow

# A longer line can be a stand-in, which has this many bytes of it; BoundedLines.java has the same number.
HEAD = 1024
MAX_LINE = ByteSize(64 * 1024**2)
# The columns of our readers that a stand-in needs.
COLUMNS = f"headers {BRONZE['headers'].dataType.simpleString()}"


# A condition on bronze's rows, true or false: the row is a stand-in. A Kafka record is none.
IS_STAND_IN = "(file IS NOT NULL AND headers IS NOT NULL)"  # guard: stand-in-is-file-row
# How many bytes of its file a stand-in stands for, with a line end unless its line goes on behind it. The entry is
# found by its place, as a function that searches would keep Spark from compiling the expressions around it.
BYTES_IN_FILE = "try_cast(CAST(get(headers, 0).value AS STRING) AS BIGINT)"


def is_stand_in() -> Column:
    """Return the condition that a row of bronze is a stand-in."""
    return F.expr(IS_STAND_IN)


def bytes_in_file() -> Column:
    """Return how many bytes of its file a stand-in stands for."""
    return F.expr(BYTES_IN_FILE)


def digest() -> Column:
    """Return the SHA-256 of a stand-in's line, in hexadecimal digits; null for NUL bytes."""
    return F.expr("CAST(get(headers, 1).value AS STRING)")


def collected_lengths(rows: "pyarrow.Table") -> "pyarrow.ChunkedArray":
    """Return the bytes of collected rows of files that are not masked, one line end not counted."""
    import pyarrow.compute as pc  # noqa: PLC0415 - a run that collects nothing need not have it

    lengths = pc.cast(pc.binary_length(rows["value"]), "int64")
    is_stand_in = pc.is_valid(rows["headers"])
    if not pc.any(is_stand_in).as_py():  # guard: collected-stand-in-length
        return lengths
    entries = pc.list_element(rows["headers"].filter(is_stand_in), 0)
    counts = pc.cast(pc.cast(pc.struct_field(entries, "value"), "string"), "int64")
    return pc.replace_with_mask(
        lengths.combine_chunks(), is_stand_in.combine_chunks(), pc.subtract(counts, 1).combine_chunks()
    )


def as_lines(rows: DataFrame) -> DataFrame:
    """Return the lines of rows in a form that does not depend on the bound; columns: `file`, and `value` binary.

    Args:
        rows: rows of bronze, or what a reader of files gives; see `lines_of`.
    """
    return rows.select("file", F.explode(lines_of(rows)).alias("line")).select("file", "line.value")


def identified() -> Column:
    """Return the value of a row; behind that of a stand-in, the digest or the byte count of what it stands for."""
    known = F.coalesce(digest(), bytes_in_file().cast("string")).cast("binary")
    return F.when(is_stand_in(), F.concat(F.col("value"), known)).otherwise(F.col("value"))


def lines_of(rows: DataFrame) -> Column:
    r"""Return the lines of each row: a list of structs of `value` binary and `bytes` bigint, its bytes in the file.

    Records of several lines are taken apart. A line that can be a stand-in has its SHA-256 as its value, and NUL bytes
    before a line are a line of their own, with their number as its value; each of these begins with \0, as no other
    line does.

    Args:
        rows: rows with `file`, `value`, and perhaps `headers` and, for records, `file_offset`.
    """
    value, has_headers = F.col("value"), "headers" in rows.columns
    is_record = F.col("file_offset").isNotNull() if "file_offset" in rows.columns else F.lit(False)
    is_short = (F.octet_length(value) <= HEAD) & ~F.startswith(value, F.lit(b"\0"))
    is_plain = F.col("file").isNull() | (is_short & ~(is_record & F.contains(value, F.lit(b"\n"))))
    # in ISO 8859-1 every byte is a character, and Spark can only split text
    text = F.decode(value, "ISO-8859-1")
    lines = F.when(is_record, F.split(text, "\n")).otherwise(F.array(text))
    apart = F.flatten(F.transform(lines, _parts))
    lines_by_row = F.when(is_plain, F.array(_struct(value, F.octet_length(value) + 1))).otherwise(apart)
    if not has_headers:
        return lines_by_row
    known = F.concat(F.lit("\0"), F.coalesce(digest(), bytes_in_file().cast("string")))  # guard: stand-in-by-hash
    return F.when(is_stand_in(), F.array(_line(known, bytes_in_file()))).otherwise(lines_by_row)


def _parts(line: Column) -> Column:
    """Return the NUL bytes before a line, and the line, as `lines_of` has them."""
    nuls = F.length(F.regexp_extract(line, r"\A\x00+", 0))
    content = F.substr(line, nuls + 1)
    hashed = F.concat(F.lit("\0"), F.sha2(F.encode(content, "ISO-8859-1"), 256))
    own = _line(F.when(F.length(content) > HEAD, hashed).otherwise(content), F.length(content) + 1)
    count = F.when(content == "", nuls + 1).otherwise(nuls)
    before = _line(F.concat(F.lit("\0"), count.cast("string")), count)
    return F.when(nuls == 0, F.array(own)).when(content == "", F.array(before)).otherwise(F.array(before, own))


def _line(value: Column, count: Column) -> Column:
    """Return a line; a text has a character for each byte."""
    return _struct(F.encode(value, "ISO-8859-1"), count)


def _struct(value: Column, count: Column) -> Column:
    return F.struct(value.alias("value"), count.cast("bigint").alias("bytes"))
