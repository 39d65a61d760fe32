"""Find a locale in which Java reads every file name."""

import ctypes
import locale
import sys
from collections.abc import Mapping

_UTF8 = "UTF-8"
# Each exists on some systems only.
_UTF8_LOCALES = ("C.UTF-8", "C.utf8", "en_US.UTF-8")
# `LC_ALL_MASK` of the C library: Java sets every category at once, and that fails if one of them is not installed.
_EVERY_CATEGORY = 0x1FBF


def utf8_locale() -> Mapping[str, str]:  # guard: java-file-names-utf8
    """Return the variables that make a JVM use UTF-8 for file names; empty if it does so already.

    Java takes the encoding of file names from the locale. In a locale without UTF-8, such as `LC_ALL=C` or one that is
    not installed, Java silently skips every file whose name has a character beyond ASCII.
    """
    if sys.platform != "linux" or _encoding("") == _UTF8:  # macOS always uses UTF-8
        return {}
    usable = next((name for name in _UTF8_LOCALES if _encoding(name) == _UTF8), None)
    return {"LC_ALL": usable} if usable else {}


def _encoding(name: str) -> str | None:
    """Return a locale's encoding, or the environment's for an empty name; None if the locale is not installed."""
    library = ctypes.CDLL(None)
    library.newlocale.restype = ctypes.c_void_p
    library.nl_langinfo_l.restype = ctypes.c_char_p
    handle = library.newlocale(_EVERY_CATEGORY, name.encode(), None)
    if not handle:
        return None
    place = ctypes.c_void_p(handle)
    try:
        codeset: bytes = library.nl_langinfo_l(locale.CODESET, place)
        return codeset.decode()
    finally:
        library.freelocale(place)
