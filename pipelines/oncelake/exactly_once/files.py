"""Text access to checkpoints and Delta logs, on a local disk or through Hadoop.

Local paths need no JVM, so states can be found, and tested, without starting Spark.
"""

import os
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JError

from oncelake.common.lake import is_local
from oncelake.common.spark.jvm import hadoop, jvm, unless_missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Files of a large batch are written into a directory of the table whose name begins so. Delta's readers, and VACUUM,
# pass by names that begin with an underscore.
STAGED = "_staged-"


def remove_staged(table: str) -> None:
    """Remove what a killed process left while it wrote files; only the process that holds the lake may call this.

    Args:
        table: the table's directory; nothing happens if it is not a local one.
    """
    for path in Path(table).glob(f"{STAGED}*"):  # guard: only-staged-files-removed
        shutil.rmtree(path, ignore_errors=True)


def lines_of(text: str) -> list[str]:
    r"""Return the lines of a text that a program wrote; a line ends only at \n.

    `str.splitlines` also splits at U+2028, U+0085, U+001C and others, which JSON does not escape in a string.
    """
    lines = text.split("\n")  # guard: lines-end-at-newlines-only
    return lines if lines[-1] else lines[:-1]


# The errors of a local disk, and of a store that Hadoop reaches.
FAILURES = (OSError, Py4JError)


class Files(Protocol):
    """A store of small text files: `read` and `names` to find states, the other methods to check and fix them."""

    def read(self, path: str) -> str | None:
        """Return a file's text; None if the file does not exist."""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory; empty if the directory does not exist."""

    def is_sound(self, path: str) -> bool:
        """Return True if a file matches its checksum file, or has none."""

    def write(self, path: str, text: str) -> None:
        """Write a whole file, and create the directories above it."""

    def move(self, path: str, to: str) -> None:
        """Move a file or directory to an unused path, and create the directories above; no-op if it does not exist."""

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with its content; no-op if it does not exist."""


class TableFiles(Files, Protocol):
    """The files of tables beside those of states, as this process writes them."""

    def write_new(self, path: str, text: str) -> None:
        """Write a whole file into a directory that exists, unless the file does; on a store it may be replaced."""

    def creating(self, path: str) -> AbstractContextManager[IO[bytes]]:
        """Return a context with a new file for bytes, in a directory that exists; no file is left if it fails."""

    def modified(self, path: str) -> float | None:
        """Return when a file was written, in seconds since 1970; None if it does not exist."""


class LocalFiles(TableFiles):
    """Files on this machine."""

    def read(self, path: str) -> str | None:
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self, path: str) -> list[str]:
        try:
            return [entry.name for entry in Path(path).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def is_sound(self, path: str) -> bool:  # guard: checkpoint-file-checksum
        try:
            sums = Path(path).with_name(f".{Path(path).name}.crc").read_bytes()
            text = Path(path).read_bytes()
        except OSError:
            return True
        return sums == _checksums(text)

    def write(self, path: str, text: str) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.partial")
        partial.write_text(text, encoding="utf-8")
        partial.rename(target)
        # guard: old-checksum-removed
        target.with_name(f".{target.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the old text

    def write_new(self, path: str, text: str) -> None:
        partial = Path(path).with_name(f".{Path(path).name}.{os.getpid()}")
        partial.write_text(text, encoding="utf-8")
        try:
            Path(path).hardlink_to(partial)
        finally:
            partial.unlink()

    @contextmanager
    def creating(self, path: str) -> Iterator[IO[bytes]]:
        try:
            with Path(path).open("xb") as file:
                yield file
        except BaseException:
            Path(path).unlink(missing_ok=True)
            raise

    def modified(self, path: str) -> float | None:
        try:
            return Path(path).stat().st_mtime
        except OSError:
            return None

    def move(self, path: str, to: str) -> None:
        if Path(path).exists():
            Path(to).parent.mkdir(parents=True, exist_ok=True)
            Path(path).rename(to)

    def remove(self, path: str) -> None:
        if Path(path).is_dir():
            shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)


class HadoopFiles(TableFiles):
    """Files on any store that Hadoop supports, through its JVM client and Spark's credentials."""

    def __init__(self, spark: "SparkSession") -> None:
        self._spark = spark

    def read(self, path: str) -> str | None:
        def text() -> str:
            where, store = hadoop(self._spark, path)
            with closing(store.open(where)) as stream:
                return str(jvm(self._spark).org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))

        return unless_missing(self._spark, text)

    def names(self, path: str) -> list[str]:
        def names() -> list[str]:
            where, store = hadoop(self._spark, path)
            return [status.getPath().getName() for status in store.listStatus(where)]

        return unless_missing(self._spark, names) or []

    def is_sound(self, path: str) -> bool:
        """Return True: Hadoop itself checks what it reads against its checksums."""
        return True

    def write(self, path: str, text: str) -> None:
        where, store = hadoop(self._spark, path)
        with closing(store.create(where, True)) as stream:
            stream.write(bytearray(text.encode()))

    def write_new(self, path: str, text: str) -> None:
        with self.creating(path) as file:
            file.write(text.encode())

    @contextmanager
    def creating(self, path: str) -> Iterator[IO[bytes]]:
        file = BytesIO()
        yield file
        where, store = hadoop(self._spark, path)
        opening = store.createFile(where).overwrite(True)
        opening.opt("fs.s3a.create.performance", True)  # without it, S3's client looks for a directory of that name
        with closing(opening.build()) as stream:
            stream.write(file.getvalue())

    def modified(self, path: str) -> float | None:
        where, store = hadoop(self._spark, path)
        status: Any = unless_missing(self._spark, lambda: store.getFileStatus(where))
        return None if status is None else float(status.getModificationTime()) / 1000

    def move(self, path: str, to: str) -> None:
        where, store = hadoop(self._spark, path)
        target, _ = hadoop(self._spark, to)
        if not store.exists(where):
            return
        store.mkdirs(target.getParent())
        if not store.rename(where, target):
            raise OSError(f"{path} could not be moved to {to}")

    def remove(self, path: str) -> None:
        where, store = hadoop(self._spark, path)
        store.delete(where, True)


def _checksums(text: bytes) -> bytes:
    """Return the content that Hadoop's local file system keeps in `.<name>.crc`: a CRC-32 for each 512 bytes."""
    chunks = (text[start : start + 512] for start in range(0, len(text), 512))
    return b"crc\0" + struct.pack(">i", 512) + b"".join(struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks)


def files_at(place: str, spark: "SparkSession | None") -> TableFiles:
    """Return the file access for a path or URL; one that is not local needs a Spark session."""
    if is_local(place):
        return LocalFiles()
    assert spark is not None, "a path on another store is read through Spark"
    return HadoopFiles(spark)


def files_by(place: str, session: "Callable[[], SparkSession]") -> Files:
    """Return the file access for a path or URL; only for one that is not local is the session asked for."""
    return files_at(place, None if is_local(place) else session())
