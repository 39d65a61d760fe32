"""Compare masked rows of growing files with the files: each row with the bytes at its place, masked as it was."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.mask import VERSION, raw_length
from oncelake.bronze.mask_versions import MaskVersion, MaskVersions
from oncelake.bronze.records import bounded_reader
from oncelake.bronze.stand_in import HEAD, identified, lines_of
from oncelake.common.lake import place_of
from oncelake.common.wording import count_of
from oncelake.sources.directory.comparison import load
from oncelake.sources.directory.listing import ListedFile

_BOM_BYTES = 3


def masked_changed(
    rows: DataFrame, known: Mapping[int, ListedFile], versions: MaskVersions
) -> tuple[set[int], list[str]]:
    """Return the files that no longer hold what was read of them, and notes on the rows that are not compared.

    Raw text does not leave the task that reads it: only hashes of masked values are compared.

    Args:
        rows: bronze's rows of the files.
        known: the files, by ID.
        versions: the versions of the rules.
    """
    files, changed, notes = _uris(versions.spark, known), set[int](), []
    firsts = {row[0]: row[1] for row in rows.groupBy("file_id").agg(F.min("file_offset")).collect()}
    marked = [file_id for file_id, first in firsts.items() if first == _BOM_BYTES]
    for (version,) in rows.select(VERSION).distinct().collect():
        part = rows.where(F.col(VERSION).eqNullSafe(F.lit(version)))
        read = versions.of(version) if version is not None else None
        if isinstance(read, str):
            notes.append(f"{count_of(part.count(), 'row is', 'rows are')} not compared: {read}")
            continue
        rows_then = part.withColumns({"bytes": raw_length(part), "hash": _hash()}) if read is not None else _lines(part)
        then = _then(rows_then, marked)
        compared = then.join(_now(versions.spark, read, files), ["file_id", "start"], "left")
        as_long = F.col("bytes").eqNullSafe(F.col("bytes_now"))
        differs = F.count_if(as_long & (F.col("hash") != F.col("hash_now")))
        counted = (
            compared.groupBy("file_id").agg(differs.alias("differ"), F.count_if(~as_long).alias("other")).collect()
        )
        of_records = read is not None and read.records is not None
        changed |= {row["file_id"] for row in counted if row["differ"] or (row["other"] and not of_records)}
        others = sum(row["other"] for row in counted)
        if others and of_records:
            notes.append(
                f"{count_of(others, 'row is', 'rows are')} not compared: its lines are not one record of the file any "
                "more, or were not yet when they were read"
            )
    return changed, notes


def _uris(spark: SparkSession, known: Mapping[int, ListedFile]) -> DataFrame:
    """Return the files' IDs by their URIs as Spark spells them; columns: `uri`, `file_id`."""
    ids = {file.path: number for number, file in known.items()}
    listed = load(spark.read.format("binaryFile"), ids)
    uris = [row[0] for row in listed.select("_metadata.file_path").collect()]
    pairs = [(uri, ids[place_of(uri)]) for uri in uris if place_of(uri) in ids]
    return spark.createDataFrame(pairs, "uri string, file_id bigint")


def _then(rows: DataFrame, marked: list[int]) -> DataFrame:
    """Return what bronze holds; a file's first record starts at byte 0 also if a byte order mark is before it."""
    is_first = (F.col("file_offset") == _BOM_BYTES) & F.col("file_id").isin(marked)
    start = F.when(is_first, F.lit(0)).otherwise(F.col("file_offset")).cast("bigint")
    return rows.select("file_id", start.alias("start"), "bytes", "hash")


def _lines(rows: DataFrame) -> DataFrame:
    """Return the lines of rows that are not masked as rows of their own, with `bytes` and `hash`."""
    lines = rows.withColumns({"lines": lines_of(rows)}).select("*", F.posexplode("lines").alias("at", "line"))
    earlier = F.slice("lines", F.lit(1), F.col("at"))
    before = F.aggregate(earlier, F.lit(0).cast("bigint"), lambda total, line: total + line["bytes"])
    return lines.withColumns(
        {
            "file_offset": F.col("file_offset") + before,
            "bytes": F.col("line.bytes") - 1,
            "hash": F.xxhash64("line.value"),
        }
    )


def _now(spark: SparkSession, version: MaskVersion | None, files: DataFrame) -> DataFrame:
    """Return what the files hold now, masked by a version of the rules."""
    records, max_line = (version.records, version.max_line) if version is not None else (None, HEAD)
    paths = [place_of(uri) for (uri, _) in files.collect()]
    rows = load(bounded_reader(spark.read, records, max_line), paths)
    path, start = F.col("_metadata.file_path").alias("file"), F.col("start").alias("file_offset")
    rows = rows.select(path, start, "value", "headers")
    if version is None:
        rows = _lines(rows)
    else:
        rows = version.mask.values(rows.withColumns({"bytes": raw_length(rows)})).withColumns({"hash": _hash()})
    names = {"file": "uri", "file_offset": "start", "bytes": "bytes_now", "hash": "hash_now"}
    return rows.select(*(F.col(old).alias(new) for old, new in names.items())).join(F.broadcast(files), "uri")


def _hash() -> Column:
    return F.xxhash64(identified())
