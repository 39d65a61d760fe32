"""Compute in plain Python what masking puts in the place of a text."""

import hashlib
import hmac


def pseudonym(key: str, text: bytes, length: int = 16) -> bytes:
    """Return the pseudonym of a text under a key, in hexadecimal digits."""
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest()[:length].encode()
