"""Read a directory of log files into bronze, with Spark's file source or with Auto Loader on Databricks."""

import os
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.records import check_reader, why_not_on_class_path
from oncelake.bronze.settings import SourceSettings
from oncelake.bronze.transform import from_files, line_reader
from oncelake.common.errors import ConfigError
from oncelake.common.lake import bronze_stage, is_local, place, place_of
from oncelake.common.spark.jvm import hadoop, jvm
from oncelake.common.spark.rows import SparkRows
from oncelake.common.spark.runtime import AUTO_LOADER, has_auto_loader
from oncelake.common.wording import listed
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.files import Files, files_at
from oncelake.exactly_once.link import Link
from oncelake.sources.directory.accepted import read_accepted, renamed_states, write_renamed
from oncelake.sources.directory.bronze_files import BronzeFiles
from oncelake.sources.directory.census import Census
from oncelake.sources.directory.comparison import files_lost
from oncelake.sources.directory.content import COMPLETE, COMPLETE_AND_ZSTD, Reader, ending_of
from oncelake.sources.directory.kind import DirectoryKind
from oncelake.sources.directory.listing import above, has_pattern, loops
from oncelake.sources.files import proof
from oncelake.sources.files.batch_check import Reading, check_plan, check_read, counts, files_of
from oncelake.sources.files.census import count_files
from oncelake.sources.files.position import AutoLoaderPosition, FilesPosition, listing_number
from oncelake.sources.files.renamed import ListedTimes, renamed
from oncelake.sources.files.source import AutoLoaderSource, FileFilter, FilesSource, refuse_loops
from oncelake.sources.files.spark_list import FileSourceLog
from oncelake.sources.proof import Ingestion

# Spark ignores files that are older than the newest file by more than this. No file is that old.
ANY_AGE = f"{2**63 - 1}ms"
# Hadoop's setting for what leaves files out of a listing. It is one of the session: options lose their capital letters.
_PATH_FILTER, _FILTER = "mapreduce.input.pathFilter.class", "oncelake.ReadableFiles"


@dataclass(frozen=True)
class FilesKind(DirectoryKind):
    """A directory of log files."""

    positions = (FilesPosition, AutoLoaderPosition)
    lists_batches = True
    listed: ListedTimes = field(default_factory=ListedTimes, repr=False, compare=False)

    @property
    def words(self) -> str:
        """The directory as text for messages."""
        return f"files in {self.directory}"

    def check(self, spark: SparkSession) -> None:
        """Check that Spark finds the directory, which may be a pattern with *, and that no link in it loops."""
        path = self.directory
        try:
            where, store = hadoop(spark, self.name)
            matches = store.globStatus(where)
        except Exception as error:
            raise ConfigError(f"{self.key}.path {path}: Spark cannot read it: {str(error).splitlines()[0]}") from error
        if not matches and has_pattern(path) and is_local(path) and os.path.lexists(path):
            raise ConfigError(
                f"{self.key}.path {path}: it is read as a pattern, which matches nothing, and a directory has this "
                f"very name; write \\ before each of *?[]{{}} that belongs to the name"
            )
        if not matches:
            raise ConfigError(f"{self.key}.path {path}: nothing exists at this path; set the directory with your logs")
        _refuse_loops(path)
        if self.records is not None:
            check_reader(spark)

    def read(self, spark: SparkSession) -> DataFrame:
        """Read the files as a stream with bronze's columns."""
        self.claims.begin()
        if has_auto_loader(spark):
            loader = spark.readStream.format(AUTO_LOADER).schema("value STRING").options(**auto_loader(self.settings))
            return from_files(loader.load(self.directory))
        reader = (
            line_reader(spark, spark.readStream, self.records, self.settings.max_line)  # guard: any-age-of-file
            .option("maxFileAge", ANY_AGE)
            .option("maxBytesPerTrigger", str(int(self.settings.max_bytes_per_batch)))
        )
        # without the class, a batch with a file that is set aside is refused, see `check_plan`
        if why_not_on_class_path(spark, _FILTER, "") is None:
            spark.conf.set(_PATH_FILTER, _FILTER)
            reader = reader.option("oncelake.files", self._filter(spark))
        return from_files(reader.load(self.name), self.records)  # the census spells the path the same way

    def _filter(self, spark: SparkSession) -> str:
        """Register what sets files aside when Spark lists them; return its name."""
        name = uuid.uuid4().hex
        ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
        assert self.lake is not None, "only a source of a lake is read"
        checkpoint = self.lake.checkpoint(bronze_stage(self.table.name))
        source = self.source(spark, files_at(checkpoint, spark), checkpoint)
        known = "\0".join(f"file:{path}" if is_local(path) else path for path in source.planned())
        jvm(spark).oncelake.ReadableFiles.register(
            name, FileFilter(source.content, partial(self.claims.claim, self.key), above(place(self.directory))), known
        )
        return name

    def write(self, lines: DataFrame, batch: Batch, checkpoint: str) -> None:
        """Append the lines of a batch, and check that they are all the lines of the planned files.

        The files are checked before the append, their bytes before it if the batch is small, otherwise after it.
        Nothing is checked if bronze already holds the batch, or if Spark does not say which files it reads.
        """
        sizes = None if batch.holds(self.table) else files_of(lines)
        if sizes is None:
            super().write(lines, batch, checkpoint)
            return
        metadata = batch.metadata(self.table)
        first = listing_number(metadata.before) + 1 if metadata.before else 0
        seen = FileSourceLog(files_at(checkpoint, lines.sparkSession), checkpoint)
        entries = seen.entries_between(first, listing_number(metadata.end or ""))
        planned = [place_of(uri) for uri, *_ in entries]
        for path in filter(is_local, planned):
            self.claims.claim(self.key, path)
        content = self.source(lines.sparkSession, seen.files, checkpoint).content
        reading = check_plan(lines, planned, sizes, content, bronze_stage(self.table.name))
        if self.settings.renamed == "same" and self.lake is not None and metadata.before:
            listed_before = self.listed.before(seen, first, metadata.query_id)
            modified_at = {place_of(uri): modified for uri, modified, _ in entries if is_local(uri)}
            known = renamed(lines, reading, modified_at, listed_before, lambda: batch.before(self.table))
            if known:
                lines, reading = self._without(lines, known, reading)
        rows = batch.rows(lines) if batch.seems_small(lines) else SparkRows(lines)
        counting = self.counting(rows, *counts(reading, lines))
        if counting.known is not None:
            check_read(reading, counting.known, None)  # guard: check-before-small-write
        written = self.append(counting, batch)
        if counting.known is None:
            check_read(reading, counting.values(), written.commit.rows_added)  # guard: check-after-write

    def _without(self, lines: DataFrame, known: Mapping[str, str], reading: Reading) -> tuple[DataFrame, Reading]:
        """Leave the files that were read under another name out of a batch, and record that they were."""
        assert self.lake is not None
        paths = [place_of(uri) for uri in known]
        write_renamed(files_at(self.lake.root, lines.sparkSession), self.lake.root, paths, datetime.now(UTC))
        return lines.where(~F.col("file").isin([*known])), reading.without(paths)

    def source(self, spark: SparkSession | None, files: Files, checkpoint: str) -> FilesSource:
        """Return the directory as a source of Auto Loader or of Spark's file source, whichever reads it."""
        kind = AutoLoaderSource if _by_auto_loader(spark) else FilesSource
        return kind(self.name, files, checkpoint, partial(_reader_of, lambda: spark), bronze_stage(self.table.name))

    def links(self, ingestion: Ingestion) -> Iterator[Link]:
        """Yield the links that account for the files, and check the rows of bronze."""
        assert isinstance(ingestion.source, FilesSource)
        return proof.links(_by_session(ingestion.source, ingestion), ingestion)

    def census(self, ingestion: Ingestion) -> tuple[Census, BronzeFiles]:
        """Account for the files; return the census, and what bronze holds."""
        assert isinstance(ingestion.source, FilesSource)
        bronze = BronzeFiles.now(ingestion)
        return count_files(_by_session(ingestion.source, ingestion), ingestion, bronze), bronze

    def planned(self, ingestion: Ingestion) -> Collection[str]:
        """Return the paths that Spark has listed; it reads no file of such a path again."""
        assert isinstance(ingestion.source, FilesSource)
        return ingestion.source.planned()

    def uncounted(self, spark: SparkSession | None) -> str | None:
        """Return why the files cannot be counted, or None if they can: only Auto Loader knows which files it read."""
        problem = "Auto Loader reads the source, and only Auto Loader knows its files; run: oncelake prove"
        return problem if _by_auto_loader(spark) else None

    def lost(self, bronze: DataFrame, metadata: CommitMetadata | None, versions: MaskVersions) -> str | None:
        """Return the first file that cannot give all of its lines again, and how many more there are."""
        assert self.lake is not None, "only a source of a lake is rebuilt"
        accepted = read_accepted(files_at(self.lake.root, versions.spark), self.lake.root)
        lost = files_lost(bronze, self.name, versions, renamed_states(accepted))
        return listed(lost, separator="; ", most=1) or None


def _by_session(source: FilesSource, ingestion: Ingestion) -> FilesSource:  # guard: zstd-by-session
    """Return a source that asks the session what it unpacks, and starts Spark if there is none."""
    return replace(source, reader=partial(_reader_of, ingestion.rows.spark))


def _reader_of(session: Callable[[], SparkSession | None], path: str) -> Reader:
    """Return what unpacks a file: .zst only a session's Hadoop, with a native library that PySpark does not have."""
    spark = session() if ending_of(path) == ".zst" else None
    return COMPLETE_AND_ZSTD if spark is not None and _has_zstd(spark) else COMPLETE


@cache
def _has_zstd(spark: SparkSession) -> bool:
    return bool(jvm(spark).org.apache.hadoop.io.compress.ZStandardCodec.isNativeCodeLoaded())


def _by_auto_loader(spark: SparkSession | None) -> bool:
    return spark is not None and has_auto_loader(spark)


def auto_loader(source: SourceSettings) -> dict[str, str]:
    """Return Auto Loader's options: it reads the same lines as Spark's file source, each file once."""
    user_options = {key.removeprefix("cloudFiles."): value for key, value in source.auto_loader.items()}
    fixed = {
        "format": "text",
        "allowOverwrites": "false",
        "partitionColumns": "",  # make no column from `date=…` names
        "maxBytesPerTrigger": str(int(source.max_bytes_per_batch)),
    }
    if user_options.get("useNotifications") == "true":  # events can get lost: list missed files once a day
        fixed["backfillInterval"] = "1 day"
    return {"lineSep": "\n", **{f"cloudFiles.{key}": value for key, value in {**fixed, **user_options}.items()}}


def _refuse_loops(path: str) -> None:  # guard: link-loop-refused-at-start
    """Reject a link that leads back to a directory above it, before Spark follows it as deep as it can.

    Raises:
        SourceError: there is such a link.
    """
    if not is_local(path):
        return
    try:
        refuse_loops(loops(place(path)))
    except OSError:  # Spark reports this error itself when it lists the files
        return
