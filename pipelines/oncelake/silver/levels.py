"""This is where the text of a level becomes one of the six known levels."""

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from oncelake.silver.format import LEVELS, LogFormat

# RFC 5424, table 2: 0 emergency, 1 alert, 2 critical, 3 error, 4 warning, 5 notice, 6 informational, 7 debug
_SEVERITY = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")
_HIGHEST_PRIORITY = 191


def known_level(text: Column, fmt: LogFormat) -> Column:
    """Give the level that a text means, or the default where there is none; null if it is unknown."""
    level = _by_priority(text) if fmt.level_is == "priority" else _by_name(text, fmt.levels)
    if fmt.default_level is None:
        return level
    return F.when(F.coalesce(text, F.lit("")) == "", F.lit(fmt.default_level)).otherwise(level)


def _by_name(text: Column, spellings: Mapping[str, str]) -> Column:
    name = F.upper(text)  # by Unicode's rules, which is slow: what is spelled as it should be comes first
    meaning = {level: level for level in LEVELS} | dict(spellings)
    same = [level for level in LEVELS if meaning[level] == level]
    out = F.when(text.isin(same), text).when(name.isin(same), name)
    for level in LEVELS:
        other = [spelling for spelling, means in meaning.items() if means == level != spelling]
        out = out.when(name.isin(other), F.lit(level)) if other else out
    return out


def _by_priority(text: Column) -> Column:
    """Read facility * 8 + severity; a number with a sign, a leading zero or spaces is none."""
    number = text.try_cast("int")
    valid = number.between(0, _HIGHEST_PRIORITY) & (number.cast("string") == text)
    severity = number.bitwiseAND(7)
    out = F.when(~F.coalesce(valid, F.lit(False)), F.lit(None).cast("string"))
    for value, level in enumerate(_SEVERITY):
        out = out.when(severity == value, F.lit(level))
    return out
