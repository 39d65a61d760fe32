"""Read a directory of log files into bronze: by Spark's own file source, on Databricks by Auto Loader."""

from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession

from oncelake.bronze.settings import SourceSettings
from oncelake.bronze.sources.files_again import files_lost
from oncelake.bronze.sources.files_plan import check_plan, check_read, counts, files_of
from oncelake.bronze.sources.kind import SourceKind
from oncelake.bronze.transform import LINES, from_files
from oncelake.common.errors import ConfigError, SourceError
from oncelake.common.lake import BRONZE, is_local, place
from oncelake.common.spark.jvm import hadoop
from oncelake.common.spark.runtime import AUTO_LOADER, has_auto_loader
from oncelake.common.wording import listed
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.census import shown
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.file_source_log import FileSourceLog
from oncelake.exactly_once.files import Files, files_at
from oncelake.exactly_once.files_source import AutoLoaderSource, FilesSource, place_of
from oncelake.exactly_once.listing import Problem, loops
from oncelake.exactly_once.positions import listing_number

# Spark ignores files that are older than the newest one by this; no date reaches the largest number of milliseconds.
ANY_AGE = f"{2**63 - 1}ms"


class FilesKind(SourceKind):
    """A directory of log files."""

    needs_spark = False
    lists_batches = True

    @property
    def name(self) -> str:
        """The directory, as Spark takes it."""
        return place(self.directory)

    @property
    def words(self) -> str:
        """The directory, in words."""
        return f"files in {self.directory}"

    @property
    def directory(self) -> str:
        """The directory, as it is configured."""
        assert self.settings.path is not None, "validated"
        return self.settings.path

    def check_here(self) -> None:
        """Check that a directory on this machine is there."""
        path = self.directory
        known = is_local(path) and not set(path) & set("*?[{")  # the rest is left to Spark
        if known and not Path(place(path)).exists():
            raise ConfigError(
                f"source.path {path}: there is no such directory; make it, or name the one with your logs"
            )

    def check(self, spark: SparkSession) -> None:
        """Check the directory as Spark will look for it, patterns such as * among its names."""
        path = self.directory
        try:
            where, store = hadoop(spark, self.name)
            found = store.globStatus(where)
        except Exception as error:
            raise ConfigError(f"source.path {path}: Spark cannot read there: {str(error).splitlines()[0]}") from error
        if not found:
            raise ConfigError(f"source.path {path}: there is nothing there; name the directory with your logs")
        _refuse_loops(path)

    def read(self, spark: SparkSession) -> DataFrame:
        """Read the files as a stream of bronze's columns."""
        if has_auto_loader(spark):
            loader = spark.readStream.format(AUTO_LOADER).schema("value STRING").options(**auto_loader(self.settings))
            return from_files(loader.load(self.directory))
        reader = (
            spark.readStream.format("text")
            .options(**LINES)
            .option("maxFileAge", ANY_AGE)
            .option("maxBytesPerTrigger", str(int(self.settings.max_bytes_per_batch)))
        )
        return from_files(reader.load(self.name))  # spelled as the census spells it

    def write(self, lines: DataFrame, batch: Batch, checkpoint: str) -> None:
        """Append the lines of a batch, only when they are those of the files that were planned."""
        sizes = None if batch.holds(BRONZE) else files_of(lines)
        if sizes is None:
            batch.append(BRONZE, lines)
            return
        metadata = batch.metadata(BRONZE)
        first = listing_number(metadata.before) + 1 if metadata.before else 0
        seen = FileSourceLog(files_at(checkpoint, lines.sparkSession), checkpoint)
        planned = (place_of(uri) for uri in seen.between(first, listing_number(metadata.end or "")))
        reading = check_plan(lines, planned, sizes)
        counted = Observation()
        rows = batch.append(BRONZE, lines.observe(counted, *counts(reading))).commit.rows_added
        check_read(reading, counted, rows)

    def source(self, spark: SparkSession | None, files: Files, checkpoint: str) -> FilesSource:
        """Return the directory, as what reads it here sees it."""
        kind = AutoLoaderSource if _by_auto_loader(spark) else FilesSource
        return kind(self.name, files, checkpoint)

    def uncounted(self, spark: SparkSession | None) -> str | None:
        """Say that Auto Loader alone knows its files, where it reads them."""
        told = "Auto Loader follows the source, and alone knows its files; see: oncelake prove"
        return told if _by_auto_loader(spark) else None

    def lost(self, spark: SparkSession, bronze: DataFrame, metadata: CommitMetadata | None) -> str | None:
        """Name the first file that would not give all of its lines again."""
        lost = files_lost(spark, bronze, self.name)
        return listed(lost, separator="; ", most=1) or None


def _by_auto_loader(spark: SparkSession | None) -> bool:
    return spark is not None and has_auto_loader(spark)


def auto_loader(source: SourceSettings) -> dict[str, str]:
    """Return Auto Loader's options: the same lines as Spark's own file source gives, each file once."""
    given = {key.removeprefix("cloudFiles."): value for key, value in source.auto_loader.items()}
    fixed = {
        "format": "text",
        "allowOverwrites": "false",
        "partitionColumns": "",  # no column made of `date=…` names
        "maxBytesPerTrigger": str(int(source.max_bytes_per_batch)),
    }
    if given.get("useNotifications") == "true":  # not every event arrives: what was missed is listed once a day
        fixed["backfillInterval"] = "1 day"
    return {"lineSep": "\n", **{f"cloudFiles.{key}": value for key, value in {**fixed, **given}.items()}}


def _refuse_loops(path: str) -> None:
    """Refuse a link that leads back to a directory above it, before Spark follows it to the depth that it can.

    Raises:
        SourceError: there is one.
    """
    if not is_local(path):
        return
    try:
        found = [shown(each) for each in loops(place(path))]
    except OSError:  # Spark says so itself when it lists
        return
    if found:
        links = listed(found, most=1)
        raise SourceError(f"{links}: {Problem.LOOP}; remove the link, or: oncelake census exclude {found[0]}")
