"""Tell which names rotating or compressing a log makes of its name."""

import re
from collections.abc import Iterator

from oncelake.sources.directory.listing import COMPRESSED

# What logrotate, savelog and logging libraries add to a name, at its end or before its ending.
_MARKS = re.compile(
    r"(?:[._-](?:\d[\dTZ:+]*|W\d\d|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*|am|pm"
    r"|old|bak|prev|last|save|orig|copy|backup)(?![^._~-]))+|~$"
)
_SHIFTED = re.compile(r"(?<=\.)\d{1,5}(?=\.|$)")
_NUMBERED = re.compile(r"(?<=[.-])\d{1,5}(?=\.|$)")
# What logback adds to the name of a log while it compresses it.
_BEING_PACKED = re.compile(r"\.(?:gz|zip)\d+\.tmp$")
# What editors and rsync add to the name of the file that they replace.
BACKUPS = ("~", ".bak", ".orig", ".save", ".backup", ".copy")


def unpacked(path: str) -> str:
    """Return a path without the ending of a compressed file, or of one that logback is compressing."""
    if being_packed := _BEING_PACKED.search(path):  # guard: logback-temporary-name
        return path[: being_packed.start()]
    stem, dot, ending = path.rpartition(".")
    return stem if dot + ending.lower() in COMPRESSED else path


# The modification time, and the size or the path without the ending of a compressed file.
RenameKey = tuple[int, int | str]


def rename_keys(path: str, modified: int, size: int) -> tuple[RenameKey, RenameKey]:
    """Return what a file has in common with its other names, and with its compressed or unpacked form.

    Args:
        path: its path.
        modified: its modification time in milliseconds.
        size: its size in bytes.
    """
    return (modified, size), (modified, unpacked(path))  # guard: packed-rename-recognized


def origins(name: str) -> Iterator[str]:
    """Yield the names of the logs that a file with this name may be rotated from; none of them is compressed."""
    name = unpacked(name)
    for match in _MARKS.finditer(name):
        marks = re.split(r"(?=[._-])", match[0].lstrip("~"))[1:] or [""]
        for count in range(len(marks)):
            yield name[: match.start()] + "".join(marks[:count]) + name[match.end() :]


def shifts(name: str) -> tuple[str, int] | None:
    """Return the name with # in place of the number that each rotation raises, and the number; None without one."""
    return _with_hash(_SHIFTED, unpacked(name))


def unnumbered(name: str) -> str | None:
    """Return the name with # in place of the number that a rotation may change; None without one."""
    hashed = _with_hash(_NUMBERED, unpacked(name))
    return hashed[0] if hashed is not None else None


def _with_hash(number: re.Pattern[str], name: str) -> tuple[str, int] | None:
    """Return a name with # in place of its last number of a form, and the number; None without one."""
    numbers = [*number.finditer(name)]
    if not numbers:
        return None
    return f"{name[: numbers[-1].start()]}#{name[numbers[-1].end() :]}", int(numbers[-1][0])
