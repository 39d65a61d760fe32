"""Read the text of a level: a name, a priority of syslog, or a status of HTTP."""

from collections.abc import Mapping
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from oncelake.silver.parsing.pattern import whole_line

LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
# RFC 5424, table 2: 0 emergency, 1 alert, 2 critical, 3 error, 4 warning, 5 notice, 6 informational, 7 debug
SEVERITY = ("FATAL", "FATAL", "FATAL", "ERROR", "WARN", "INFO", "INFO", "DEBUG")
HIGHEST_PRIORITY = 191
# What stands for a status where there is none: a hyphen, or a number that is no status.
NO_STATUS = r"(?:-|\d{1,9})?"

# What a text of a level is.
LevelText = Literal["name", "priority", "status"]


def level_of(text: Column, kind: LevelText, spellings: Mapping[str, str], default: str | None) -> Column:
    """Return the level that a text means, or the default if the text is empty; null if the level is unknown.

    Args:
        text: the text.
        kind: what the text is; of a status that is none, the default is the level too.
        spellings: other spellings of the six levels, in upper case.
        default: the level of a line without one; None if each line needs one.
    """
    by_number = {"priority": _by_priority, "status": _by_status}.get(kind)
    level = by_number(text) if by_number is not None else _by_name(text, spellings)
    if default is None:
        return level
    lacks = (text == "") if kind != "status" else (level.isNull() & text.rlike(whole_line(NO_STATUS)))
    return F.when(F.coalesce(lacks, F.lit(True)), F.lit(default)).otherwise(level)


def _by_name(text: Column, spellings: Mapping[str, str]) -> Column:
    name = F.upper(text)  # slow, because it follows Unicode's rules: exact spellings are compared first
    meaning = {level: level for level in LEVELS} | dict(spellings)
    same = [level for level in LEVELS if meaning[level] == level]
    out = F.when(text.isin(same), text).when(name.isin(same), name)
    for level in LEVELS:
        other = [spelling for spelling, means in meaning.items() if means == level != spelling]
        out = out.when(name.isin(other), F.lit(level)) if other else out
    return out


def _by_priority(text: Column) -> Column:
    """Parse facility * 8 + severity; a number with a sign, a leading zero or spaces is invalid."""
    number = text.try_cast("int")
    valid = number.between(0, HIGHEST_PRIORITY) & (number.cast("string") == text)
    severity = number.bitwiseAND(7)
    out = F.when(~F.coalesce(valid, F.lit(False)), F.lit(None).cast("string"))
    for value, level in enumerate(SEVERITY):
        out = out.when(severity == value, F.lit(level))
    return out


def _by_status(text: Column) -> Column:
    """Parse a status code of HTTP: errors of the server are ERROR, errors of the client WARN, all others INFO."""
    status = text.try_cast("int")
    valid = status.between(100, 599) & (status.cast("string") == text)
    level = F.when(status >= 500, F.lit("ERROR")).when(status >= 400, F.lit("WARN")).otherwise(F.lit("INFO"))
    return F.when(F.coalesce(valid, F.lit(False)), level)
