"""Ask the system when a file was created; Python's `os.stat` does not say it on Linux."""

import ctypes
import os
from functools import cache
from typing import Any

# Source: statx(2) and linux/stat.h; the struct has 256 bytes, and its fields are at the same places everywhere.
_SIZE, _MASK_AT, _BORN_AT = 256, 0, 80
_HAS_BORN, _OF_OPEN_FILE = 0x800, 0x1000


def born(descriptor: int) -> int:
    """Return when an open file was created, in milliseconds since 1970; 0 if the file system does not know it.

    Args:
        descriptor: the open file.
    """
    status: Any = os.fstat(descriptor)
    if hasattr(status, "st_birthtime"):
        return int(status.st_birthtime * 1000)
    statx, buffer = _statx(), ctypes.create_string_buffer(_SIZE)
    if statx is None or statx(descriptor, b"", _OF_OPEN_FILE, _HAS_BORN, buffer):
        return 0
    if not int.from_bytes(buffer.raw[_MASK_AT : _MASK_AT + 4], "little") & _HAS_BORN:
        return 0
    seconds = int.from_bytes(buffer.raw[_BORN_AT : _BORN_AT + 8], "little", signed=True)
    return seconds * 1000 + int.from_bytes(buffer.raw[_BORN_AT + 8 : _BORN_AT + 12], "little") // 1_000_000


@cache
def _statx() -> Any:
    return getattr(ctypes.CDLL(None), "statx", None)
