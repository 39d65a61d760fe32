"""Positions in a directory of growing files: how much of each file was read, and how to know the file again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from oncelake.common.wording import count_of
from oncelake.exactly_once.positions import SourcePosition


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
        digest: the digest of the bytes that were read (`content.Digest.whole`).
        base: the digest of all of them but the last megabyte (`content.Digest.base`).
        packed: the size of a compressed file in bytes; 0 if it is not compressed.
        ends: a hash of the first and the last kilobyte: of a compressed file, of its own bytes; in a position of an
            earlier version, of the bytes that were read. Otherwise empty.
        start: where reading began; above 0 if the file before it was cut, or of a copy, lines that were read count.
        original: the ID of the file that a copy is one of, or that was cut; -1 for none.
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
    original: int = -1
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

    unit = "byte"
    read: int = 0
    following: int = 0
    files: Mapping[int, TailedFile] = field(default_factory=dict)
    copies: tuple[TailedFile, ...] = ()
    forgotten: int = 0

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """Return the position that our JSON describes; None if it is not one in growing files."""
        tail = value.get("tail") if isinstance(value, dict) else None
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
