"""Compressed files that a test needs."""

import bz2


def damaged_bz2() -> bytes:
    """Return bzip2 data that is damaged where only reading it to its end shows that: Spark stops at it."""
    packed = bytearray(bz2.compress(b"2017-07-30 14:09:08 ERROR in a damaged file\n" * 10_000))
    packed[10] ^= 255  # the checksum of its first block
    return bytes(packed)
