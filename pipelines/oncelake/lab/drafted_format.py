"""Draft a log format from the lines of a sample: where the time is, where the level is, and what follows."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from oncelake.silver.format import LEVELS

# How times are written: a regular expression, and the datetime pattern of a log format; `~` stands for a fraction.
_TILDE = "~"
_CLOCK = r"\d\d:\d\d:\d\d"
_FRACTION = r"[.,]\d{1,9}"
_TIMES: Mapping[str, str] = {
    rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}(?:{_FRACTION})?(?:Z|[+-]\d\d:?\d\d)?": "iso8601",
    rf"\d{{4}}/\d\d/\d\d {_CLOCK}": "yyyy/MM/dd HH:mm:ss~",
    rf"\d\d/[A-Z][a-z]{{2}}/\d{{4}}:{_CLOCK} [+-]\d{{4}}": "dd/MMM/yyyy:HH:mm:ss Z",
    rf"\d\d-[A-Z][a-z]{{2}}-\d{{4}} {_CLOCK}": "dd-MMM-yyyy HH:mm:ss~",
    rf"\d\d\.\d\d\.\d{{4}} {_CLOCK}": "dd.MM.yyyy HH:mm:ss~",
    rf"\d{{8}} {_CLOCK}": "yyyyMMdd HH:mm:ss~",
    rf"\d\d/\d\d/\d\d {_CLOCK}": "yy/MM/dd HH:mm:ss~",
    rf"[A-Z][a-z]{{2}} \d\d {_CLOCK}": "MMM dd HH:mm:ss~",
    r"1\d{12}": "epoch_millis",
    r"1\d{9}(?:\.\d{1,9})?": "epoch_seconds",
}
# What other systems call the six levels.
_MEANING = {
    **{level: level for level in LEVELS},
    **dict.fromkeys(("VERBOSE", "FINEST", "FINER"), "TRACE"),
    **dict.fromkeys(("FINE", "DBG"), "DEBUG"),
    **dict.fromkeys(("INFORMATION", "INF", "NOTICE", "CONFIG", "LOG"), "INFO"),
    **dict.fromkeys(("WARNING", "WRN"), "WARN"),
    **dict.fromkeys(("ERR", "SEVERE", "FAILURE"), "ERROR"),
    **dict.fromkeys(("CRITICAL", "CRIT", "ALERT", "EMERG", "PANIC"), "FATAL"),
}
_LEVEL = re.compile(rf"\b(?:{'|'.join(sorted(_MEANING, key=len, reverse=True))})\b", re.IGNORECASE)
# The time, and after it the level, are looked for in as many characters.
_NEAR = 80
# A part belongs to a format if this share of the lines has it.
_MOST = 0.8
_ANYTHING = ".*?"
_SPECIAL = re.compile(r"([\\.^$|?*+()\[\]{}])")


def draft_format(lines: Sequence[str]) -> str | None:
    """Return a log format as YAML, to be tried and edited; None if no time is found in the lines."""
    whole = [line.rstrip("\r") for line in lines if line.strip()]
    declared = _of_objects(whole) or _of_text(whole)
    if declared is None:
        return None
    return f"# {whole[0][:100]}\n{yaml.safe_dump(declared, sort_keys=False, allow_unicode=True, width=10_000)}"


@dataclass(frozen=True)
class Levels:
    """The levels that some texts hold, and what stands before and after each."""

    names: Sequence[str]
    before: Sequence[str]
    after: Sequence[str]


def _of_text(lines: Sequence[str]) -> dict[str, Any] | None:
    """Return a format with a pattern, if the lines have a time."""
    found = {time: [each for line in lines if (each := re.search(time, line[:_NEAR]))] for time in _TIMES}
    time, starts = max(found.items(), key=lambda each: len(each[1]))
    if not starts:
        return None
    before = [each.string[: each.start()] for each in starts]
    after = [each.string[each.end() :] for each in starts]
    patterns = [_TIMES[time]]
    if patterns[0].endswith(_TILDE):
        fractions = {match[0] if (match := re.match(_FRACTION, rest)) else "" for rest in after}
        shapes = sorted({re.sub(r"\d", "S", fraction) for fraction in fractions})
        patterns = [patterns[0].replace(_TILDE, shape) for shape in shapes]
        after = [re.sub(rf"\A{_FRACTION}", "", rest) for rest in after]
        time += f"(?:{_FRACTION})?"
    prefix, rest = _between(before), ""
    levels = _levels(before)
    if levels is not None:
        prefix = f"{_before_level(levels)}{_between(levels.after)}"
    elif (levels := _levels(after)) is not None:
        rest = _before_level(levels)
    declared: dict[str, Any] = {
        "pattern": rf"^{prefix}(?<time>{time}){rest}[\])}}>:|,;-]*\s*(?<message>.*)$",
        "time": patterns if len(patterns) > 1 else patterns[0],
        **_named(levels.names if levels else []),
    }
    if len(starts) < len(lines):
        declared["record"] = {"starts": f"^{prefix}{time}".replace("?<level>", "?:")}
    return declared


def _levels(texts: Sequence[str]) -> Levels | None:
    """Return the first word of each text that is a level, if most texts have one."""
    found = [match for text in texts if (match := _LEVEL.search(text[:_NEAR]))]
    if len(found) < _MOST * len(texts):
        return None
    ends = [(match.string[: match.start()], match.string[match.end() :]) for match in found]
    return Levels([match[0] for match in found], [one for one, _ in ends], [other for _, other in ends])


def _before_level(levels: Levels) -> str:
    """Return a regular expression for what stands before the level, and for the level.

    After texts that differ, only the name of a level is one: any other word may stand there too.
    """
    before = _between(levels.before)
    if before != _ANYTHING:
        return f"{before}(?<level>[A-Za-z]+)"
    names = sorted({*LEVELS, *(name.upper() for name in levels.names)})
    return rf"{before}\b(?<level>(?i:{'|'.join(names)}))\b"


def _between(texts: Sequence[str]) -> str:
    """Return a regular expression for texts that stand at the same place."""
    same = {re.sub(r"\s+", " ", text) for text in texts}
    return _SPECIAL.sub(r"\\\1", same.pop()).replace(" ", r"\s+") if len(same) == 1 else _ANYTHING


def _named(levels: Sequence[str]) -> dict[str, Any]:
    if not levels:
        return {"default_level": "INFO"}
    others = sorted({level.upper() for level in levels} - {*LEVELS})
    return {"levels": {level: _MEANING[level] for level in others}} if others else {}


def _of_objects(lines: Sequence[str]) -> dict[str, Any] | None:
    """Return a format for JSON lines, if most lines are objects, and a key holds their times."""
    objects = [dict(_leaves(each)) for line in lines if isinstance(each := _parsed(line), dict)]
    if not objects or len(objects) < _MOST * len(lines):
        return None
    counts = Counter(key for each in objects for key in each)
    often = [key for key, count in counts.items() if count >= _MOST * len(objects)]
    values = {key: [str(each[key]) for each in objects if key in each] for key in often}
    times = [(key, time) for key in often for time in _TIMES if all(re.fullmatch(time, each) for each in values[key])]
    if not times:
        return None
    key, time = times[0]
    levels = [each for each in often if all(_LEVEL.fullmatch(value) for value in values[each])]
    texts = [each for each in often if each != key and each not in levels]
    message = max(texts, key=lambda each: sum(map(len, values[each])), default=key)
    declared: dict[str, Any] = {
        "json": {"time": key, "level": levels[0] if levels else "level", "message": message},
        "time": _TIMES[time].removesuffix(_TILDE),
    }
    return declared | _named(values[levels[0]] if levels else [])


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _leaves(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, object]]:
    """Yield the values of an object that are no objects or lists, by their key or path as in a log format."""
    for key, inner in value.items():
        below = f"{path or '$'}.{key}" if re.fullmatch(r"\w+", key) else f"{path or '$'}['{key}']"
        if isinstance(inner, dict):
            yield from _leaves(inner, below)
        elif not isinstance(inner, list) and inner is not None:
            yield below if path else key, inner
