"""Follow the growing files of a directory into bronze."""

import uuid
from collections.abc import Collection, Iterator
from functools import partial
from typing import cast

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.mask import VERSION
from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.records import why_not_on_class_path
from oncelake.bronze.transform import from_tail
from oncelake.common.errors import ConfigError, SourceError
from oncelake.common.lake import is_local
from oncelake.common.spark.jvm import jvm
from oncelake.common.table_rows import TableRows
from oncelake.common.wording import count_of, shown_path
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.files import Files
from oncelake.exactly_once.link import Link
from oncelake.sources.directory.accepted import read_accepted
from oncelake.sources.directory.bronze_files import BronzeFiles
from oncelake.sources.directory.census import Census
from oncelake.sources.directory.comparison import by_version, lacking
from oncelake.sources.directory.kind import DirectoryKind
from oncelake.sources.directory.logrotate import rotation_warnings
from oncelake.sources.proof import Ingestion
from oncelake.sources.tail import proof
from oncelake.sources.tail.content import Disk
from oncelake.sources.tail.identity import Contents
from oncelake.sources.tail.plan import LastStart, TailFiles
from oncelake.sources.tail.position import TailPosition
from oncelake.sources.tail.source import Planner, TailSource
from oncelake.sources.tail.survey import CUT_AND_MASKED, HAD_NO_END, Ingested, NotComparableError, not_at_hand

_READER = "oncelake.TailSource"
# The lines that bronze holds of a file, from the one around a byte on.
_LINES = (
    "SELECT file_offset AS first, value, headers IS NOT NULL AS is_cut FROM {rows} "
    "WHERE file_id = :number AND file_offset + octet_length(value) >= :low ORDER BY file_offset"
)
# A record is whole when its file has not grown for this many seconds: programs write a record at once.
QUIET = 2.0
# A batch is read again this often if a file of it was cut meanwhile: its bytes are then found in a copy.
_ATTEMPTS = 3
# TailSource.java says this of a file that was cut while it was read.
_CUT = "it was cut or overwritten while"


class TailKind(DirectoryKind):
    """A directory of log files that programs write to."""

    positions = (TailPosition,)

    @property
    def words(self) -> str:
        """The directory as text for messages."""
        return f"growing files in {self.directory}"

    def check_here(self) -> None:
        """Raise ConfigError if the directory is not on this machine, or does not exist."""
        path = self.directory
        if not is_local(path):
            raise ConfigError(
                f"{self.key}.path {path}: kind tail follows files on this machine; give a local directory, or read "
                "complete files with kind files"
            )
        super().check_here()

    def warnings(self) -> list[str]:
        """Return where logrotate does not fit the settings, or could delete lines before they are read."""
        return [*rotation_warnings(self.key, self.directory, self.settings.rotation)]

    def check(self, spark: SparkSession) -> None:
        """Raise ConfigError if the session cannot read growing files, SourceError if the directory cannot be listed."""
        problem = why_not_on_class_path(spark, _READER, f"{self.key}.kind is tail")
        if problem is None and not str(spark.sparkContext.master).startswith("local"):
            problem = (
                f"{self.key}.kind tail reads files of this machine, but spark.master is {spark.sparkContext.master}; "
                "set spark.master to local[*], or send the lines through Kafka"
            )
        if problem is not None:
            raise ConfigError(problem)
        self._files().listed()

    def read(self, spark: SparkSession) -> DataFrame:
        """Read the files as a stream with bronze's columns."""
        self.claims.begin()
        records, planner = self.records, uuid.uuid4().hex
        java = jvm(spark).oncelake
        last = None
        if records is not None:
            find, patterns = java.Records.lastStart, [records.starts]
            if records.inside is not None:
                find, patterns = java.Records.lastInside, [records.part, records.content, records.inside]
            elif records.part is not None:
                find, patterns = java.Records.lastWhole, [records.part]
            last = LastStart(lambda text: int(find(text, *patterns)), QUIET, is_split=records.part is None)
        context = spark.sparkContext
        ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
        files = self._files(last, ingested=self._ingested(spark))
        most, claim = int(self.settings.max_bytes_per_batch), partial(self.claims.claim, self.key)
        java.TailSource.register(planner, Planner(files, most, context.defaultParallelism, claim))
        options = {**(records.options if records is not None else {}), "maxline": str(int(self.settings.max_line))}
        return from_tail(spark.readStream.format(_READER).options(planner=planner, **options).load())

    def _files(self, last_start: LastStart | None = None, ingested: Ingested = not_at_hand) -> TailFiles:
        return TailFiles(self.name, last_start, rotation=self.settings.rotation, ingested=ingested)

    def _ingested(self, spark: SparkSession | None) -> Ingested:
        """Return a function that reads what bronze holds of a file, from the line around a byte on."""
        assert self.lake is not None, "a stage has a lake"
        place = self.lake.at(self.table)

        def ingested(number: int, low: int) -> tuple[int, bytes] | None:
            rows = TableRows(lambda: cast("SparkSession", spark))
            query = rows.without_spark if spark is None else rows.records
            lines = query(_LINES, {"rows": (place, None)}, number=number, low=low)
            if lines is None:
                return None
            if VERSION in rows.columns(place):  # guard: masked-cut-log-is-fault
                raise NotComparableError(CUT_AND_MASKED)
            first, text = 0, bytearray()
            for row in lines:
                first = first if text else row["first"]
                if row["is_cut"] or row["first"] != first + len(text):  # a stand-in has no whole line
                    break
                text += row["value"] + b"\n"
            return first, bytes(text)

        return ingested

    def write(self, lines: DataFrame, batch: Batch, checkpoint: str) -> None:
        """Append the lines of a batch; read them again if a file was cut while they were read.

        Raises:
            SourceError: bytes of the batch are gone.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                super().write(lines, batch, checkpoint)
                return
            except Exception as error:
                if _CUT not in str(error):
                    raise
                if attempt == _ATTEMPTS:
                    raise SourceError(
                        f"{self.words}: a file was cut while batch {batch.batch_id} read it, {_ATTEMPTS} times; nothing"
                        " of the batch was written. Start again: it is read from the copy of that file, if there is one"
                    ) from error

    def source(self, spark: SparkSession | None, files: Files, checkpoint: str) -> TailSource:
        """Return the directory as a source."""
        return TailSource(self.name, self.settings.rotation, ingested=self._ingested(spark))

    def links(self, ingestion: Ingestion) -> Iterator[Link]:
        """Yield the links that account for the files, and check the rows of the bytes that were read."""
        assert isinstance(ingestion.source, TailSource)
        return proof.links(ingestion.source, ingestion)

    def census(self, ingestion: Ingestion) -> tuple[Census, BronzeFiles]:
        """Account for the files; return the census, and what bronze holds."""
        assert isinstance(ingestion.source, TailSource)
        bronze = BronzeFiles.now(ingestion)
        return ingestion.source.census(bronze.at, read_accepted(ingestion.files, ingestion.root)), bronze

    def planned(self, ingestion: Ingestion) -> Collection[str]:
        """Return nothing: a path does not say which file it is, so each may be read under any name."""
        return ()

    def uncounted(self, spark: SparkSession | None) -> str | None:
        """Return None: the files can be counted."""
        return None

    # guard: longer-line-is-no-loss
    def _without_lines_that_went_on(self, bronze: DataFrame, metadata: CommitMetadata | None) -> DataFrame:
        """Leave out the last row of each file that has all bytes of it, in a line that went on after it was read."""
        at = TailPosition.parse(metadata.end if metadata is not None else None) or TailPosition()
        survey, contents = self._files().survey(at), Contents(Disk())
        longer = {file.identity for file, reason in survey.aside if reason == HAD_NO_END}
        known = ((number, file) for number, file in survey.known.items() if file.identity in longer)
        numbers = [number for number, file in known if contents.begins_with(file, at.files[number])]
        if not numbers:
            return bronze
        rows = bronze.where(F.col("file_id").isin(numbers)).groupBy("file_id")
        return bronze.join(rows.agg(F.max("file_offset").alias("file_offset")), ["file_id", "file_offset"], "left_anti")

    def lost(self, bronze: DataFrame, metadata: CommitMetadata | None, versions: MaskVersions) -> str | None:
        """Return how many lines of bronze would not be read again; None if every line would."""
        survey = self._files().survey(TailPosition())
        paths = [file.path for file in survey.new]
        count, problems = 0, []
        for read in by_version(self._without_lines_that_went_on(bronze, metadata), versions):
            if isinstance(read, str):
                problems.append(f"lines of bronze cannot be compared: {read}")
                continue
            now = read.read(paths) if paths else read.then.limit(0)
            gone = lacking(read.then, now).agg(F.sum("lacking")).first()
            count += (gone[0] if gone else 0) or 0
        if count:
            problems.append(
                f"{count_of(count, 'line')} of bronze cannot be read again: no file that is read holds them now"
            )
            problems += [f"{shown_path(file.path)}: {reason}" for file, reason in survey.questions()]
        return "; ".join(problems) or None
