"""The words that programs write for the six levels, and where a word is a level and not a part of a name."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from oncelake.silver.format import LEVELS

_MEANING: Mapping[str, str] = {
    **{level: level for level in LEVELS},
    **dict.fromkeys(("VERBOSE", "FINEST", "FINER", "TRC"), "TRACE"),
    **dict.fromkeys(("FINE", "DBG", "DEBUG1", "DEBUG2", "DEBUG3", "DEBUG4", "DEBUG5"), "DEBUG"),
    **dict.fromkeys(("INFORMATION", "INFORMATIONAL", "INF", "NOTICE", "NOTE", "CONFIG", "LOG", "SYSTEM"), "INFO"),
    **dict.fromkeys(("WARNING", "WRN"), "WARN"),
    **dict.fromkeys(("ERR", "SEVERE", "FAILURE"), "ERROR"),
    **dict.fromkeys(("CRITICAL", "CRIT", "ALERT", "EMERG", "EMERGENCY", "PANIC"), "FATAL"),
}
# Words that hardly mean anything but a level. The others count only beside one of these: LOG, ALERT or FINE may be a
# part of a message.
CORE = frozenset(
    {*LEVELS, "WARNING", "CRITICAL", "SEVERE", "NOTICE", "ERR", "WRN", "INF", "DBG", "CRIT", "INFORMATION"}
)
LETTERS: Mapping[str, str] = {
    "V": "TRACE",
    "T": "TRACE",
    "D": "DEBUG",
    "I": "INFO",
    "N": "INFO",
    "W": "WARN",
    "E": "ERROR",
    "F": "FATAL",
}
# MongoDB: https://www.mongodb.com/docs/manual/reference/log-messages/
_NUMBERED_LETTERS = {"D1": "DEBUG", "D2": "DEBUG", "D3": "DEBUG", "D4": "TRACE", "D5": "TRACE"}
_ALL = {**_MEANING, **LETTERS, **_NUMBERED_LETTERS}
# A level is a whole word: `[INFO ]`, `<Info>`, `INFO:`, `level=info`. It is no part of a name such as `error.log`.
_WORD = re.compile(
    r"[\[\](){}<>|\"'=*#\s-]*(?:(?i:level|lvl|severity|log_?level)=\"?)?([A-Za-z]+[0-9]?)(?=[\])}>:,;|\"'=\s]|$)"
)
_SCATTERED = re.compile(r"(?<![\w./-])(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL|SEVERE|NOTICE)(?![\w./-])")
_ALIKE = re.compile(r"(?<![\w./-])(?i:warn(?:ing)?|error|fatal|critical|severe|failure|panic)(?![\w./-])")


@dataclass(frozen=True)
class LevelWord:
    """A level in a word: its name, and where it stands."""

    text: str
    start: int
    end: int


def level_word(word: str) -> LevelWord | None:
    """Return the level that a word is, with the marks around it; None if it is none."""
    found = _WORD.match(word)
    if found is None or found[1].upper() not in _ALL:
        return None
    return LevelWord(found[1], found.start(1), found.end(1))


def level_words_in(text: str) -> set[str]:
    """Return the names of levels in capitals that stand near the beginning of a text."""
    return set(_SCATTERED.findall(text[:100]))


def words_like_levels(text: str) -> set[str]:
    """Return the words of a text, in capitals, that may be a level although nothing says so."""
    return {word.upper() for word in _ALIKE.findall(text)}


def meanings(names: Collection[str]) -> dict[str, Any]:
    """Return the key `levels` of a format, for the names that are not those of the six levels."""
    others = sorted({name.upper() for name in names} - {*LEVELS})
    return {"levels": {name: _ALL[name] for name in others}} if others else {}
