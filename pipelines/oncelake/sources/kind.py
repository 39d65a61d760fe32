"""Interface of every kind of source: its name, how to check and read it, and what it still holds."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.mask import Mask, check_key, check_mask, count_of_matches
from oncelake.bronze.mask_versions import MaskVersions
from oncelake.bronze.records import COUNT_OF_LINE_ENDS, Records
from oncelake.bronze.settings import SourceSettings
from oncelake.common.lake import BRONZE, Lake, Table
from oncelake.common.spark.rows import BatchRows, Count, Counting, SparkRows
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.files import Files
from oncelake.exactly_once.link import Link
from oncelake.exactly_once.positions import SourcePosition
from oncelake.exactly_once.source import Source
from oncelake.exactly_once.write import Written
from oncelake.sources.directory.overlap import Claims
from oncelake.sources.proof import Ingestion, source_link


@dataclass(frozen=True)
class Publisher:
    """Publishes the positions of a source outside the lake, for others to see.

    Attributes:
        name: what it publishes to, in words.
        publish: publishes a position.
    """

    name: str
    publish: Callable[[str], None]


@dataclass(frozen=True)
class SourceKind(ABC):
    """The configured source of bronze; registry.py maps each `source.kind` to its class.

    Attributes:
        settings: its section of the settings.
        records: how the log format puts several lines together; None if each line is a record.
        table: the bronze table that its lines go to.
        key: its section in the settings.
        beside: the other sources of the lake, by name.
        lake: the lake's places; None if the source is only checked.
        claims: which source of the lake reads which file.
        positions: the classes of the positions that the checkpoint of such a source may hold.
        needs_spark: True if the source can only be queried through Spark.
        has_shared_parts: True if the source consists of parts that no other source may read, see `shared_parts`.
        lists_batches: True if Spark lists in `sources/0` of the checkpoint what each batch reads, as for files.
    """

    settings: SourceSettings
    records: Records | None = None
    table: Table = BRONZE
    key: str = "source"
    beside: Mapping[str, SourceSettings] = field(default_factory=dict)
    lake: Lake | None = None
    claims: Claims = field(default_factory=Claims, repr=False, compare=False)
    positions: ClassVar[tuple[type[SourcePosition], ...]]
    needs_spark: ClassVar[bool] = True
    has_shared_parts: ClassVar[bool] = False
    lists_batches: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name used in positions and proofs: a topic or a directory."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The source as text for messages, such as `topic alog`."""

    @property
    def words_with_place(self) -> str:
        """The source as text for messages, with its server if it has one."""
        return self.words

    @property
    def directory(self) -> str | None:
        """The directory to read, as configured; None if the source is not a directory."""
        return None

    def overlaps(self, other: "SourceKind") -> bool:
        """Return True if another source reads lines of this one too, as of a directory and one inside it."""
        if self.directory is not None and other.directory is not None:
            one, two = f"{self.name}/", f"{other.name}/"
            return one.startswith(two) or two.startswith(one)
        return type(self) is type(other) and (self.name, self.words_with_place) == (other.name, other.words_with_place)

    def check_here(self) -> None:
        """Raise ConfigError if the source cannot be read, as far as this is known before Spark starts."""
        if self.settings.mask is not None:
            check_key(self.settings.mask, self.key)

    def warnings(self) -> list[str]:
        """Return what this machine does to the source that could lose or repeat lines."""
        return []

    @abstractmethod
    def check(self, spark: SparkSession) -> None:
        """Raise ConfigError if Spark cannot read the source, SourceError if its content would stop Spark."""

    def check_mask(self, spark: SparkSession) -> None:
        """Raise ConfigError if Spark cannot mask personal data as the settings say."""
        if self.settings.mask is not None:
            check_mask(spark, self.settings.mask, self.key)

    @abstractmethod
    def read(self, spark: SparkSession) -> DataFrame:
        """Read the source as a stream with bronze's columns, see `bronze_columns`.

        A source of files puts the lines of `records` together, makes a stand-in of a line above `settings.max_line`,
        and claims its files: with `claims.begin` those that are there, and each new one before it is read.
        """

    def masked(self, spark: SparkSession, version: str) -> DataFrame:
        """Read the source as a stream with bronze's columns, with the personal data masked.

        Args:
            spark: the session.
            version: the fingerprint of the rules.
        """
        mask, rows = self.settings.mask, self.read(spark)
        if mask is None:  # guard: source-masked-when-read
            return rows
        return Mask(spark, mask.resolved(self.settings.max_line), self.records_of_lines).rows(rows, version)

    @property
    def records_of_lines(self) -> Records | None:
        """The rule that puts lines of a file together; None if a row of bronze is a line, or a record of Kafka."""
        return self.records if self.directory else None

    @property
    def rules(self) -> Sequence[str]:
        """The names of the rules that mask personal data."""
        return self.settings.mask.names() if self.settings.mask is not None else ()

    def write(self, lines: DataFrame, batch: Batch, checkpoint: str) -> None:
        """Append the rows of one batch, as `masked` gives them; `checkpoint` is bronze's checkpoint."""
        if batch.holds(self.table):
            batch.append(self.table, SparkRows(lines))
            return
        rows = batch.rows(lines) if batch.seems_small(lines) else SparkRows(lines)
        self.append(self.counting(rows), batch)

    def counting(self, rows: BatchRows, *more: Count) -> Counting:
        """Return the rows of one batch with the counts of what was masked, of the lines of records, and others."""
        of_records = [COUNT_OF_LINE_ENDS] if self.records_of_lines is not None else []
        return rows.counting([*more, *map(count_of_matches, self.rules), *of_records])

    def append(self, counting: Counting, batch: Batch) -> Written:
        """Append the rows of one batch that bronze does not hold yet, and report the counts."""
        written, seen = batch.append(self.table, counting.rows), counting.values()
        if self.records_of_lines is not None:
            batch.lines = written.commit.rows_added + seen[COUNT_OF_LINE_ENDS.name]
        masked = {rule: seen[count_of_matches(rule).name] for rule in self.rules}
        batch.masked.update({rule: count for rule, count in masked.items() if count})
        return written

    def links(self, ingestion: Ingestion) -> Iterator[Link]:
        """Yield the links of the proof between the source and its bronze table."""
        yield source_link(self.name, ingestion)

    @classmethod
    def shared_parts(cls, recorded: Mapping[str, str]) -> Mapping[str, str]:
        """Return the parts that no two sources may read, such as topics, by their IDs.

        Args:
            recorded: the identity of such a source, as a commit recorded it.
        """
        del recorded
        return {}

    def publisher(self, spark: SparkSession) -> Publisher | None:
        """Return what publishes the positions outside the lake; None if the settings ask for none."""
        return None

    @abstractmethod
    def source(self, spark: SparkSession | None, files: Files, checkpoint: str) -> Source:
        """Return the source in the form that `exactly_once` uses; `spark` is required if `needs_spark` is True."""

    def comparing(self, source: Source, at: str, versions: MaskVersions, known: dict[str, Any]) -> Source:
        """Return the source with access to bronze's rows, if it compares them with what it holds.

        Args:
            source: the source.
            at: the place of the bronze table.
            versions: the versions of the rules that mask data.
            known: keeps results as long as the caller's other sources are asked.
        """
        return source

    def uncounted(self, spark: SparkSession | None) -> str | None:
        """Return why a census cannot count the source file by file; None if it can, or if only a session can tell."""
        return f"the source is {self.words}, which has no files; run: oncelake prove"

    @abstractmethod
    def lost(self, bronze: DataFrame, metadata: CommitMetadata | None, versions: MaskVersions) -> str | None:
        """Return which of bronze's rows the source cannot give again; None if it can give all.

        Args:
            bronze: bronze's rows.
            metadata: the metadata of bronze's last batch.
            versions: the versions of the rules that mask data.
        """
