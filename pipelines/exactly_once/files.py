"""This is where checkpoints and Delta logs are read as text, on this machine or through Hadoop.

Local places need no JVM, so that states can be told, and tested, without starting Spark.
"""

from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession

from pipelines.jvm import hadoop, jvm
from pipelines.lake import is_local


class Files(Protocol):
    """The two questions that states are told from; neither changes anything."""

    def read(self, path: str) -> str | None:
        """Give a file's text, None when there is no such file."""

    def names(self, path: str) -> list[str]:
        """Give the names in a directory, none when there is no such directory."""


class LocalFiles:
    """Files on this machine."""

    def read(self, path: str) -> str | None:
        """Give a file's text, None when there is no such file."""
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, path: str) -> list[str]:
        """Give the names in a directory, none when there is no such directory."""
        try:
            return [entry.name for entry in Path(path).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []


class HadoopFiles:
    """Files on any store that Hadoop knows, by its JVM client and the credentials that Spark has."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def read(self, path: str) -> str | None:
        """Give a file's text, None when there is no such file."""
        where, store = hadoop(self._spark, path)
        if not store.exists(where):
            return None
        stream = store.open(where)
        try:
            text: str = jvm(self._spark).org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            return text
        finally:
            stream.close()

    def names(self, path: str) -> list[str]:
        """Give the names in a directory, none when there is no such directory."""
        where, store = hadoop(self._spark, path)
        if not store.exists(where):
            return []
        return [status.getPath().getName() for status in store.listStatus(where)]


def files_at(place: str, spark: SparkSession | None) -> Files:
    """Give the reader for a place; a place that is not local needs a session."""
    if is_local(place):
        return LocalFiles()
    assert spark is not None, "a place on another store is read through Spark"
    return HadoopFiles(spark)
