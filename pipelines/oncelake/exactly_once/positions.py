"""Positions in a source, as Spark writes them into `offsets/<batch id>`; each class parses its own JSON.

Sources: org.apache.spark.sql.delta.sources.DeltaSourceOffset, FileStreamSourceOffset, KafkaSourceOffset of Spark 4.0;
Auto Loader's offsets as Databricks writes them. The position in growing files is our own.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Self

from oncelake.common.errors import StateError
from oncelake.common.wording import count_of


class SourcePosition(ABC):
    """How far a stage has read its source.

    Attributes:
        before_all: whether Spark records a position before the first batch.
    """

    before_all: ClassVar[bool] = False

    @classmethod
    def parse(cls, at: str | None) -> Self | None:
        """Parse a position that Spark wrote; None for no position, and for a position of another kind than this class.

        Raises:
            ValueError: the text is not a position.
        """
        if not at:
            return None
        value: Any = json.loads(at)
        if isinstance(value, list):
            several = TablesPosition(tuple(TablePosition.of(line) if line else None for line in value))
            return several if isinstance(several, cls) else None
        if not isinstance(value, dict):
            raise ValueError(f"{at} is not a position")
        # a topic can have any name, so a position of no other kind is Kafka's
        known = (kind.of(value) for kind in SourcePosition.__subclasses__())
        found: SourcePosition = next(filter(None, known), KafkaPosition(value))
        return found if isinstance(found, cls) else None

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self | None:
        """Return the position that Spark's JSON describes; None if its keys do not show this kind."""
        del value
        return None

    @abstractmethod
    def numbers(self) -> dict[str, int]:
        """Return the next number to read in each part: a partition's offset, a table's version, a file list's entry."""

    def partitions(self) -> Mapping[str, int]:
        """Return the next offset of each partition by its name; empty for a source without partitions."""
        return {}

    def words(self, source: str) -> str | None:
        """Describe the position for a message; None if its JSON is the best description."""
        return f"offsets of {count_of(len(self.partitions()), 'partition')}" if self.partitions() else None


@dataclass(frozen=True)
class TablePosition(SourcePosition):
    """A position in a Delta table.

    Attributes:
        table_id: the table's ID.
        version: the first version that is not completely read.
        index: the last file of that version that was read; below 0 if none was.
        in_snapshot: whether the stream still reads the initial snapshot at that version, before it follows changes.
    """

    table_id: str
    version: int
    index: int
    in_snapshot: bool

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self | None:
        """Return the position that Spark's JSON describes; None if it is not one in a Delta table."""
        if "reservoirId" not in value:
            return None
        version, in_snapshot = int(value["reservoirVersion"]), bool(value.get("isStartingVersion", False))
        return cls(str(value["reservoirId"]), version, int(value["index"]), in_snapshot)

    def words(self, source: str) -> str:
        """Describe the version."""
        if self.is_whole:
            return f"version {self.version - 1} of {source}, read to its end"
        return f"within version {self.version} of {source}, at file {self.index + 1:,}"

    def numbers(self) -> dict[str, int]:
        """Return the first version that is not completely read."""
        return {"version": self.version}

    @property
    def is_whole(self) -> bool:
        """Return True if it is between two versions; a large version, or the initial snapshot, is read in parts."""
        return self.index == -1 and not self.in_snapshot

    @property
    def order(self) -> tuple[int, bool, int]:
        """The sort key of positions in one table: a snapshot's positions come before others in the same version."""
        return self.version, not self.in_snapshot, self.index

    def has_read(self, version: int) -> bool:
        """Return True if everything that a version added is certainly read; within a snapshot nothing is certain."""
        return not self.in_snapshot and version < self.version

    def may_have_read(self, version: int) -> bool:
        """Return True if something that a version added may already be read."""
        return version < self.version or (version == self.version and (self.index >= 0 or self.in_snapshot))


@dataclass(frozen=True)
class TablesPosition(SourcePosition):
    """A position in several Delta tables, written as a JSON array of their positions.

    A table that is not read yet has null, or no entry. Each entry names its table, so the order means nothing.

    Attributes:
        entries: the position in each table; None for a table that is not read yet.
    """

    entries: tuple[TablePosition | None, ...]

    @property
    def tables(self) -> Mapping[str, TablePosition]:
        """Return the positions in the tables that are read, by table ID."""
        return {each.table_id: each for each in self.entries if each is not None}

    @property
    def is_whole(self) -> bool:
        """Return True if it is between two versions of every table."""
        return all(each.is_whole for each in self.tables.values())

    def numbers(self) -> dict[str, int]:
        """Return the first version that is not completely read, by the table's ID."""
        return {f"version of {table_id}": each.version for table_id, each in self.tables.items()}

    def words(self, source: str) -> str:
        """Describe the version of each table."""
        del source
        return "; ".join(each.words(f"table {table_id}") for table_id, each in self.tables.items())


@dataclass(frozen=True)
class FilesPosition(SourcePosition):
    """A position in a directory.

    Attributes:
        entry: the last entry of Spark's file list that was read; -1 before the first.
        beginning: the position before the first entry, as Spark spells it.
    """

    entry: int
    beginning: ClassVar[str] = '{"logOffset":-1}'

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self | None:
        """Return the position that Spark's JSON describes; None if it is not one of the file source."""
        return cls(int(value["logOffset"])) if "logOffset" in value else None

    def words(self, source: str) -> str:
        """Describe the entry."""
        return f"entry {self.entry} of the query's file list"

    def numbers(self) -> dict[str, int]:
        """Return the next entry of the file list."""
        return {"list": self.entry + 1}


@dataclass(frozen=True)
class AutoLoaderPosition(SourcePosition):
    """A position in a directory that Auto Loader reads.

    Attributes:
        file: the number of the last file that was read.
    """

    file: int

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self | None:
        """Return the position that the JSON of a checkpoint describes; None if it is not one of Auto Loader."""
        return cls(int(value["seqNum"])) if "seqNum" in value else None

    def numbers(self) -> dict[str, int]:
        """Return the number of the next file."""
        return {"list": self.file + 1}


@dataclass(frozen=True)
class KafkaPosition(SourcePosition):
    """A position in one or more topics.

    Attributes:
        topics: the next offset of each partition, by topic.
    """

    topics: Mapping[str, Mapping[str, int]]
    before_all = True

    def partitions(self) -> Mapping[str, int]:
        """Return the next offset of each partition, by `topic/partition`."""
        return self.numbers()

    def numbers(self) -> dict[str, int]:
        """Return the next offset of each partition, by `topic/partition`."""
        return {
            f"{topic}/{number}": int(next_) for topic, parts in self.topics.items() for number, next_ in parts.items()
        }

    def of_topics(self, topics: Container[str]) -> Self:
        """Return the position in some of the topics."""
        return type(self)({topic: parts for topic, parts in self.topics.items() if topic in topics})

    def to_json(self) -> str:
        """Return the position as Spark spells it."""
        return json.dumps(self.topics, separators=(",", ":"))


class TailedFile(NamedTuple):
    """A file whose first bytes a stage has read.

    Attributes:
        device: the number of the device that holds it.
        inode: its number on that device.
        offset: how many bytes of its content were read.
        path: its path below the source's directory; empty in a position of an earlier version.
        modified: its modification time in milliseconds.
        born: when it was created, in milliseconds; 0 if the file system does not know it.
        stamp: tells whether its size or one of its times has changed since; empty if that is not known.
        digest: the digest of the bytes that were read (`tail_content.Digest.whole`).
        base: the digest of all of them but the last megabyte (`tail_content.Digest.base`).
        packed: the size of a compressed file in bytes; 0 if it is not compressed.
        ends: a hash of the first and the last kilobyte: of a compressed file, of its own bytes; in a position of an
            earlier version, of the bytes that were read. Otherwise empty.
        start: where reading began; above 0 if the file before it was cut, or of a copy, lines that were read count.
        of: the ID of the file that a copy is one of, or that was cut; -1 for none.
        gone: when it was first missed, in milliseconds since 1970; 0 if it is there.
        ended: 1 if the last of the bytes that were read is a line end which the file does not have.
        doubtful: 1 if only the setting `rotation` says that this file is a copy.
    """

    device: int
    inode: int
    offset: int
    path: str = ""
    modified: int = 0
    born: int = 0
    stamp: str = ""
    digest: str = ""
    base: str = ""
    packed: int = 0
    ends: str = ""
    start: int = 0
    of: int = -1
    gone: int = 0
    ended: int = 0
    doubtful: int = 0

    @classmethod
    def parse(cls, fields: list[Any]) -> Self:
        """Return a file from its JSON; an earlier version wrote five fields at most."""
        if len(fields) > _OLD_FIELDS:
            return cls(*fields)
        device, inode, offset, ends, *packed = fields
        return cls(device, inode, offset, packed=packed[0] if packed else 0, ends=ends)

    def to_json(self) -> list[int | str]:
        """Return the fields without the defaults at the end."""
        length = max(at for at, value in enumerate(self) if value != _DEFAULTS[at]) + 1
        return list(self[: max(length, _OLD_FIELDS + 1)])


_OLD_FIELDS = 5
_DEFAULTS = TailedFile(-1, -1, -1)


@dataclass(frozen=True)
class TailPosition(SourcePosition):
    """A position in a directory of growing files.

    Attributes:
        read: how many bytes were read from all files, also from those that are gone.
        following: the ID of the next new file.
        files: the files that were read, by ID; those that are gone for a week at most.
        copies: copies of the beginning of such files; their lines are not read a second time.
        forgotten: how many files are not remembered any more, as they are gone for too long, or too many are.
    """

    read: int = 0
    following: int = 0
    files: Mapping[int, TailedFile] = field(default_factory=dict)
    copies: tuple[TailedFile, ...] = ()
    forgotten: int = 0

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Self | None:
        """Return the position that our JSON describes; None if it is not one in growing files."""
        tail = value.get("tail")
        if not isinstance(tail, dict) or "read" not in tail:
            return None
        files = {int(number): TailedFile.parse(file) for number, file in tail["files"].items()}
        copies = tuple(TailedFile.parse(file) for file in tail.get("copies", ()))
        return cls(int(tail["read"]), int(tail["next"]), files, copies, int(tail.get("forgotten", 0)))

    def words(self, source: str) -> str:
        """Describe how much was read."""
        return f"{count_of(self.read, 'byte')} of {count_of(self.following, 'file')}"

    def numbers(self) -> dict[str, int]:
        """Return how many bytes were read."""
        return {"bytes": self.read}

    def to_json(self) -> str:
        """Return the position as one line of JSON."""
        value: dict[str, Any] = {"read": self.read, "next": self.following}
        value["files"] = {str(number): file.to_json() for number, file in sorted(self.files.items())}
        if self.copies:
            value["copies"] = [file.to_json() for file in self.copies]
        if self.forgotten:
            value["forgotten"] = self.forgotten
        return json.dumps({"tail": value}, separators=(",", ":"))


def as_object(at: str | None) -> Any:
    """Return a position's JSON text as an object, for JSON output; None for no position."""
    return None if at is None else json.loads(at)


def same_position(one: str | None, other: str | None) -> bool:
    """Return True if two positions are equal; the order of their JSON keys does not matter.

    In several tables, neither the order of the tables matters, nor whether a table that is not read yet is listed.
    """
    if one is None or other is None:
        return one is other
    return bool(_comparable(one) == _comparable(other))


def _comparable(at: str) -> Any:
    value = json.loads(at)
    entries = value if isinstance(value, list) else [value]
    of_tables = all(each is None or (isinstance(each, dict) and "reservoirId" in each) for each in entries)
    # guard: positions-table-by-table
    return {each["reservoirId"]: each for each in entries if each is not None} if of_tables else value


def in_tables(at: str | None) -> Mapping[str, str]:
    """Return the position in each Delta table that a position reaches, as Spark spells it, by table ID."""
    value = json.loads(at) if at else []
    entries = value if isinstance(value, list) else [value]
    return {
        each["reservoirId"]: json.dumps(each, separators=(",", ":"))
        for each in entries
        if each is not None and "reservoirId" in each
    }


def in_table(at: str | None, table_id: str | None) -> TablePosition | None:
    """Return the position in one Delta table; None if the position does not reach it."""
    return TablePosition.parse(in_tables(at).get(table_id or ""))


def is_whole(at: str | None) -> bool:
    """Return True unless the position is within a version of a table."""
    found = SourcePosition.parse(at)
    return not isinstance(found, TablePosition | TablesPosition) or found.is_whole


def version_of(at: str | None) -> int:
    """Return the first version of a table that a position has not completely read; 0 for no such position."""
    found = TablePosition.parse(at)
    return found.version if found else 0


def offsets_of(at: str | None, topic: str) -> Mapping[str, int]:
    """Return the next offset of each partition of a topic; empty before the first batch and for another topic."""
    found = KafkaPosition.parse(at)
    return found.topics.get(topic, {}) if found else {}


def listing_number(at: str) -> int:
    """Return the entry of Spark's file list that a position names.

    Raises:
        StateError: it is not a position in a directory.
    """
    found = FilesPosition.parse(at)
    if found is None:
        raise StateError(  # guard: listing-number-of-directory
            f"the source is a directory of complete files, but the last position is of another source: {at}. Set the "
            "source back to the one that was read before"
        )
    return found.entry
