"""The words that programs write for the six levels, and where a word is a level and not a part of a name."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from oncelake.silver.parsing.level import LEVELS

_MEANING: Mapping[str, str] = {
    **{level: level for level in LEVELS},
    **dict.fromkeys(("VERBOSE", "FINEST", "FINER", "TRC", "TRCE", "VRB", "VERB", "SILLY"), "TRACE"),
    **dict.fromkeys(("FINE", "DBG", "DBUG", "HTTP", "DEBUG1", "DEBUG2", "DEBUG3", "DEBUG4", "DEBUG5"), "DEBUG"),
    **dict.fromkeys(("INFORMATION", "INFORMATIONAL", "INF", "NOTICE", "NOTE", "CONFIG", "LOG", "SYSTEM"), "INFO"),
    **dict.fromkeys(("SUCCESS", "AUDIT"), "INFO"),
    **dict.fromkeys(("WARNING", "WRN"), "WARN"),
    **dict.fromkeys(("ERR", "EROR", "SEVERE", "FAILURE", "FAIL"), "ERROR"),
    **dict.fromkeys(("CRITICAL", "CRIT", "ALERT", "EMERG", "EMERGENCY", "PANIC", "DPANIC", "FTL", "FATL"), "FATAL"),
}
# Words that hardly mean anything but a level. The others count only beside one of these: LOG, ALERT or FINE may be a
# part of a message.
CORE = frozenset(
    {
        *LEVELS,
        "WARNING",
        "CRITICAL",
        "SEVERE",
        "NOTICE",
        "ERR",
        "WRN",
        "INF",
        "DBG",
        "VRB",
        "FTL",
        "CRIT",
        "INFORMATION",
    }
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
# The numbers of bunyan and pino: https://github.com/pinojs/pino/blob/main/docs/api.md#loggerlevels-object
NUMBERS: Mapping[str, str] = {
    "10": "TRACE", "20": "DEBUG", "30": "INFO", "40": "WARN", "50": "ERROR", "60": "FATAL"
}  # fmt: skip
# A level is a whole word: `[INFO ]`, `<Info>`, `INFO:`, `level=info`. It is no part of a name such as `error.log`, but
# Monolog writes `production.ERROR:`, and Celery `ERROR/MainProcess`.
_WORD = re.compile(
    r"[\[\](){}<>|\"'=*#\s-]*(?:(?i:level|lvl|severity|log_?level)=\"?|[A-Za-z][\w-]*\.(?=[A-Z]{3,}:))?([A-Za-z]+[0-9]?)"
    r"(?=[\])}>:,;|\"'=\s]|$|(?<=[A-Z][A-Z])/\w)"
)
_SCATTERED = re.compile(
    r"(?<![\w./-])(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL|CRITICAL|SEVERE|NOTICE|VRB|DBG|INF|WRN|ERR|FTL)(?![\w./-])"
)
_ALIKE = re.compile(r"(?<![\w./-])(?i:warn(?:ing)?|error|fatal|critical|severe|failure|panic)(?![\w./-])")
_CAPITALS = "|".join(name for name in CORE if _MEANING[name] != "INFO")
_ALIKE_IN_CAPITALS = re.compile(rf"(?<![\w/-])(?:{_CAPITALS})(?![\w.-])")


@dataclass(frozen=True)
class LevelWord:
    """A level in a word: its name, and where it stands."""

    text: str
    start: int
    end: int


def level_in(match: re.Match[str] | None) -> LevelWord | None:
    """Return the level in the first group of a match; None without a match."""
    return LevelWord(match[1], match.start(1), match.end(1)) if match is not None else None


def level_word(word: str) -> LevelWord | None:
    """Return the level that a word is, with the marks around it; None if it is none."""
    level = level_in(_WORD.match(word))  # guard: level-is-whole-word
    return level if level is not None and level.text.upper() in _ALL else None


def level_words_in(text: str) -> set[str]:
    """Return the names of levels in capitals that stand near the beginning of a text."""
    return set(_SCATTERED.findall(text[:100]))


def words_like_levels(text: str) -> set[str]:
    """Return the words of a text, in capitals, that may be a level other than INFO although nothing says so."""
    return {word.upper() for word in [*_ALIKE.findall(text), *_ALIKE_IN_CAPITALS.findall(text)]}


def meanings(names: Collection[str]) -> dict[str, Any]:
    """Return the key `levels` of a format, for the names that are not those of the six levels."""
    others = sorted({name.upper() for name in names} - {*LEVELS})
    return {"levels": {name: _ALL[name] for name in others if name in _ALL}} if others else {}
