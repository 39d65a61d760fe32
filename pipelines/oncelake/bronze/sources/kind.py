"""What every kind of source answers: what it is called, how it is checked and read, and what it still holds."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.settings import SourceSettings
from oncelake.common.lake import BRONZE
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.files import Files
from oncelake.exactly_once.source import Source


@dataclass(frozen=True)
class SourceKind(ABC):
    """The configured source of bronze; registry.py names the class of each `source.kind`.

    Attributes:
        settings: the section `source`.
        needs_spark: whether the source can only be asked through Spark.
        lists_batches: whether Spark lists in `sources/0` of the checkpoint what each batch reads, as it does of files.
    """

    settings: SourceSettings
    needs_spark: ClassVar[bool] = True
    lists_batches: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that positions and proofs use: a topic, a directory."""

    @property
    @abstractmethod
    def words(self) -> str:
        """The source in words, as `topic alog`."""

    @property
    def words_with_place(self) -> str:
        """The source in words, with the server that holds it where there is one."""
        return self.words

    @property
    def directory(self) -> str | None:
        """The directory that is read, as it is configured; None for a source that is none."""
        return None

    def check_here(self) -> None:
        """Raise ConfigError if the source cannot be read, as far as that is seen before Spark is started."""
        return

    @abstractmethod
    def check(self, spark: SparkSession) -> None:
        """Raise ConfigError if Spark cannot read the source, SourceError if something in it would stop Spark."""

    @abstractmethod
    def read(self, spark: SparkSession) -> DataFrame:
        """Read the source as a stream of bronze's columns."""

    def write(self, lines: DataFrame, batch: Batch, checkpoint: str) -> None:
        """Append what `read` gives for a batch; `checkpoint` is bronze's."""
        batch.append(BRONZE, lines)

    @abstractmethod
    def source(self, spark: SparkSession | None, files: Files, checkpoint: str) -> Source:
        """Return what the core asks of the source; a session is there where `needs_spark` says so."""

    def uncounted(self, spark: SparkSession | None) -> str | None:
        """Say why a census cannot count the source file by file; None where it can, or a session is needed to say."""
        return f"the source is {self.words}, which has no files; see: oncelake prove"

    @abstractmethod
    def lost(self, spark: SparkSession, bronze: DataFrame, metadata: CommitMetadata | None) -> str | None:
        """Say which of bronze's rows the source could not give again; `metadata` is of bronze's last batch."""
