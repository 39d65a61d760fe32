"""Tell which names rotating or compressing a log makes of its name."""

import re
from collections.abc import Iterator

from oncelake.exactly_once.listing import COMPRESSED

# What logrotate, savelog and logging libraries add to a name, at its end or before its ending.
_MARKS = re.compile(r"(?:[._-](?:\d[\dTZ:+]*|old|bak|prev|last|save|orig|copy|backup)(?![^._~-]))+|~$")
_SHIFTED = re.compile(r"\.(\d{1,5})(?=\.|$)")


def unpacked(path: str) -> str:
    """Return a path without the ending of a compressed file."""
    stem, dot, ending = path.rpartition(".")
    return stem if dot + ending.lower() in COMPRESSED else path


def origins(name: str) -> Iterator[str]:
    """Yield the names of the logs that a file with this name may be rotated from; none of them is compressed."""
    name = unpacked(name)
    for found in _MARKS.finditer(name):
        marks = re.split(r"(?=[._-])", found[0].lstrip("~"))[1:] or [""]
        for kept in range(len(marks)):
            yield name[: found.start()] + "".join(marks[:kept]) + name[found.end() :]


def shifts(name: str) -> tuple[str, int] | None:
    """Return the name with # in place of the number that each rotation raises, and the number; None without one."""
    numbers = [*_SHIFTED.finditer(unpacked(name))]
    if not numbers:
        return None
    number = numbers[-1]
    return f"{name[: number.start(1)]}#{unpacked(name)[number.end(1) :]}", int(number[1])
