"""Build the same three tables with delta-rs and Polars in one process, with transaction IDs: the second baseline.

python -m tests.bench.programs.delta_rs SOURCE LAKE [FILES_A_BATCH]
"""

import sys
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

PATTERN = r"^(?<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?<level>[^ ]+)(?: (?<message>.*))?$"


def main(source: Path, lake: Path, files_a_batch: int) -> None:
    """Ingest all files, a fixed number of them in each batch."""
    files = sorted(path for path in source.rglob("*") if path.is_file())
    for batch, start in enumerate(range(0, len(files), files_a_batch)):
        take(files[start : start + files_a_batch], lake, batch)


def take(files: list[Path], lake: Path, batch: int) -> None:
    """Write one batch to the three tables; a table that already has it is left unchanged."""
    bronze = read(files)
    append(lake / "bronze", bronze, batch)
    parsed = bronze.with_columns(pl.col("value").str.extract_groups(PATTERN).alias("parts")).unnest("parts")
    parsed = parsed.with_columns(
        pl.col("time").str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False, time_unit="us").dt.replace_time_zone("UTC")
    ).rename({"time": "log_time"})
    good = pl.col("log_time").is_not_null()
    silver = parsed.filter(good).drop("value")
    append(lake / "silver", silver, batch)
    append(lake / "quarantine", parsed.filter(~good).select(bronze.columns), batch)
    counts = silver.filter(pl.col("level") == "ERROR").group_by(pl.col("log_time").dt.truncate("1m")).len("log_count")
    merge(lake / "gold", counts.with_columns(pl.col("log_count").cast(pl.Int64)), batch)


def read(files: list[Path]) -> pl.DataFrame:
    """Read lines, with their file and the time of ingest."""
    lines = pl.scan_lines(files, name="value", include_file_paths="file")
    return lines.with_columns(pl.lit(datetime.now(UTC)).alias("ingested_at")).collect()


def done(table: Path, batch: int) -> bool:
    """Return whether a table holds the batch."""
    if not DeltaTable.is_deltatable(str(table)):
        return False
    version = DeltaTable(str(table)).transaction_version("bench")
    return version is not None and version >= batch


def append(table: Path, rows: pl.DataFrame, batch: int) -> None:
    """Append a batch, unless the table has it."""
    if not done(table, batch):
        write_deltalake(str(table), rows.to_arrow(), mode="append", commit_properties=properties(batch))


def merge(table: Path, counts: pl.DataFrame, batch: int) -> None:
    """MERGE a batch, unless the table has it."""
    if not DeltaTable.is_deltatable(str(table)):
        write_deltalake(str(table), counts.clear().to_arrow())
    if done(table, batch):
        return
    merging = DeltaTable(str(table)).merge(
        counts.to_arrow(), "gold.log_time = batch.log_time", source_alias="batch", target_alias="gold",
        commit_properties=properties(batch),
    )  # fmt: skip
    merging = merging.when_matched_update({"log_count": "gold.log_count + batch.log_count"})
    merging.when_not_matched_insert_all().execute()


def properties(batch: int) -> CommitProperties:
    """Return the transaction that a commit carries."""
    return CommitProperties(app_transactions=[Transaction("bench", batch)])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 10**9)
