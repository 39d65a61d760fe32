"""Build the same four tables with dlt, as its guides to files and to Delta tables show: one of the compared programs.

The source lists the files and keeps an incremental cursor on their modification date. One transformer reads lines,
two more split them into silver and quarantine; all append Arrow tables. A second step counts silver's errors and
replaces gold. Tables are Delta tables on disk, and dlt's working directory is in the lake. It runs in an environment
of its own, see tests.bench.environments.

    python -m tests.bench.programs.dlt_pipeline SOURCE LAKE
"""

import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import dlt
import pyarrow as pa
import pyarrow.compute as pc
from dlt.common.libs.deltalake import get_delta_tables
from dlt.common.storages.fsspec_filesystem import FileItemDict
from dlt.sources.filesystem import filesystem

PATTERN = r"^(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?P<level>[^ ]+)(?: (?P<message>.*))?$"


@dlt.transformer(table_format="delta", write_disposition="append")
def bronze(files: Iterable[FileItemDict]) -> Iterator[pa.Table]:
    """Read lines, with their file and the time of ingest."""
    for file in files:
        lines = file.read_bytes().decode().removesuffix("\n").split("\n")
        where = pa.repeat(pa.scalar(file["file_url"]), len(lines))
        when = pa.repeat(pa.scalar(datetime.now(UTC), pa.timestamp("us", "UTC")), len(lines))
        yield pa.table({"value": pa.array(lines, pa.string()), "file": where, "ingested_at": when})


@dlt.transformer(table_format="delta", write_disposition="append")
def silver(lines: pa.Table) -> Iterator[pa.Table]:
    """Parse the lines that match."""
    parts = pc.extract_regex(lines["value"], PATTERN)
    good = parts.is_valid()
    parts, lines = parts.filter(good), lines.filter(good)
    time = pc.strptime(pc.struct_field(parts, "time"), "%Y-%m-%d %H:%M:%S", "us")
    columns = {name: pc.struct_field(parts, name) for name in ("level", "message")}
    rest = {name: lines[name] for name in ("file", "ingested_at")}
    yield pa.table({"log_time": pc.assume_timezone(time, "UTC"), **columns, **rest})


@dlt.transformer(table_format="delta", write_disposition="append")
def quarantine(lines: pa.Table) -> Iterator[pa.Table]:
    """Keep the lines that do not match."""
    yield lines.filter(pc.invert(pc.match_substring_regex(lines["value"], PATTERN)))


@dlt.source
def logs(source: str) -> list[object]:
    """Read only files that are new since the last run."""
    files = filesystem(bucket_url=source, file_glob="**/*")
    files.apply_hints(incremental=dlt.sources.incremental("modification_date"))
    lines = files | bronze()
    return [lines, lines | silver(), lines | quarantine()]


@dlt.resource(table_format="delta", write_disposition="replace")
def gold(pipeline: dlt.Pipeline) -> Iterator[pa.Table]:
    """Count errors per minute, of all of silver."""
    rows = get_delta_tables(pipeline, "silver")["silver"].to_pyarrow_table(columns=["log_time", "level"])
    errors = rows.filter(pc.equal(rows["level"], "ERROR"))
    minutes = pa.table({"log_time": pc.floor_temporal(errors["log_time"], unit="minute")})
    yield minutes.group_by("log_time").aggregate([([], "count_all")]).rename_columns(["log_time", "log_count"])


def main(source: str, lake: Path) -> None:
    """Finish what an interrupted run left, then load everything that is new."""
    dlt.config["runtime.dlthub_telemetry"] = False
    pipeline = dlt.pipeline(
        "bench",
        pipelines_dir=str(lake / "_dlt"),
        destination=dlt.destinations.filesystem(str(lake)),
        dataset_name="tables",
    )
    # With data left to load, a run loads only that and ignores its argument.
    while pipeline.has_pending_data:
        pipeline.run()
    pipeline.run(logs(source))
    pipeline.run(gold(pipeline))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]).absolute())
