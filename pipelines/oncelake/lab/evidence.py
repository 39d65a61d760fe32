"""Show what a format reads in a sample, without Spark, so that a person can judge whether it is right."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from oncelake.common.wording import count_of, duration, listed, printable, share
from oncelake.lab.drafted_format import looks_like_record
from oncelake.lab.level_words import words_like_levels
from oncelake.silver.parsing.level import LEVELS
from oncelake.silver.plain_reader import PlainLine, PlainReader, bounded

# Reading a sample by one format takes at most this many seconds.
LONGEST = 5.0
# A step back in time of more than this counts as unordered, if more than this share of the records makes one.
_BACK, _SOME = timedelta(minutes=1), 0.01
_YEAR = timedelta(days=366)
# What this share of the lines or records has is a part of the format.
_MOST = 0.8
# How many texts that no group holds are named.
_UNHELD = 5
_SEPARATORS = "[](){}<>\"'`:;,|=#-+*/\\.&?!@$%^~"


@dataclass(frozen=True)
class Evidence:
    """What a format reads in a sample.

    Attributes:
        format: the format's name.
        is_record: True if the format puts several lines together; `lines` then counts records.
        lines: the lines of the sample.
        line_ends: how many lines these are, where a record has several.
        accepted: how many of `lines` it reads.
        values: how many values the accepted lines have on average, besides time, level and message.
        first: the earliest time.
        last: the latest time.
        levels: how many lines each level has.
        rules: how many lines break each rule.
        parsed: a line that it reads, with a value for each field.
        refused: a line that it does not read; None if it reads all.
        unheld: text that the pattern matches but no group holds, in how many lines; separators are left out.
        warnings: what a person should look at.
    """

    format: str
    is_record: bool
    lines: int
    line_ends: int
    accepted: int
    values: float
    first: datetime | None
    last: datetime | None
    levels: Mapping[str, int]
    rules: Mapping[str, int]
    parsed: PlainLine | None
    refused: PlainLine | None
    unheld: Mapping[str, int]
    warnings: Sequence[str]

    @property
    def share(self) -> float:
        """The share of lines that the format reads."""
        return self.accepted / self.lines if self.lines else 0.0

    @property
    def counted(self) -> str:
        """The number of lines, or of records and of their lines, with its noun."""
        return counted(self.lines, self.line_ends, is_record=self.is_record)

    def to_dict(self) -> dict[str, Any]:
        """Return the evidence for JSON."""
        return {
            "format": self.format,
            "lines": self.lines,
            "line_ends": self.line_ends,
            "accepted": self.accepted,
            "share": round(self.share, 4),
            "first": self.first.isoformat() if self.first else None,
            "last": self.last.isoformat() if self.last else None,
            "levels": dict(self.levels),
            "rules": dict(self.rules),
            "unheld": dict(self.unheld),
            "warnings": list(self.warnings),
        }


def evidence(name: str, reader: PlainReader, content: str) -> Evidence:
    """Return what a format reads in a sample.

    Args:
        name: the format's name.
        reader: reads lines by the format.
        content: the sample.

    Raises:
        NeedsSparkError: only Spark can read the lines by this format.
    """
    with bounded(LONGEST, f"the format {name}"):
        read = reader.lines(content)
        unheld = unheld_in(reader, (line.text for line in read if line.log_time is not None))
    good = [line for line in read if line.log_time is not None]
    times = [line.log_time for line in good if line.log_time is not None]
    levels = Counter(line.level for line in good if line.level is not None)
    values = sum(value is not None for line in good for value in line.fields.values())
    return Evidence(
        name,
        reader.is_record,
        len(read),
        len(read) + sum(line.text.count("\n") for line in read),
        len(good),
        values / len(good) if good else 0.0,
        min(times, default=None),
        max(times, default=None),
        {level: levels[level] for level in LEVELS if levels[level]},
        dict(Counter(rule for line in read for rule in line.rules).most_common()),
        max(good, key=_fullness, default=None),
        next((line for line in read if line.rules and "blank" not in line.rules), None),
        unheld,
        [*_of_times(times), *_of_levels(good, reader), *_of_messages(good), *swallowed([line.text for line in good])],
    )


def counted(records: int, lines: int, *, is_record: bool) -> str:
    """Return a number of lines, or of records and of their lines, with its noun."""
    if not is_record:
        return count_of(records, "line")
    return f"{count_of(records, 'record')} of {count_of(lines, 'line')}"


def swallowed(records: Sequence[str]) -> list[str]:  # guard: swallowed-line-shown
    """Return a warning if records have later lines that look like records of their own.

    If nearly every record has one, as where the level stands in the second line, it is a part of them.
    """
    suspects = [line for record in records for line in _later_lines(record) if looks_like_record(line)]
    having = sum(any(map(looks_like_record, _later_lines(record))) for record in records)
    if not suspects or having >= _MOST * len(records):
        return []
    lines = count_of(len(suspects), "line of a record looks like a record", "lines of records look like records")
    return [f"{lines} of another kind, such as: {printable(suspects[0], 80)}"]


def _later_lines(record: str) -> list[str]:
    return [line for line in record.split("\n")[1:] if line[:1].strip()]


def unheld_in(reader: PlainReader, records: Iterable[str]) -> dict[str, int]:
    """Return text that a pattern matches but no group holds, in how many records."""
    return dict(Counter(word for record in records for word in _words(reader.unheld(record))).most_common(_UNHELD))


def _fullness(line: PlainLine) -> tuple[int, int]:
    return sum(value is not None for value in line.fields.values()), bool(line.message)


def _words(unheld: str) -> set[str]:
    """Return the words of a text, without the separators around them."""
    words = (word.strip(_SEPARATORS) for word in unheld.split())
    return {word for word in words if re.search(r"\w", word)}


def _of_times(times: Sequence[datetime]) -> list[str]:
    out = []
    steps = [other - one for one, other in pairwise(times)]
    back = [step for step in steps if step < -_BACK]
    if len(back) > _SOME * len(steps):
        farthest = duration(int(-min(back).total_seconds()))
        lines = count_of(len(back), "line is", "lines are")
        out.append(f"the times are unordered: {lines} earlier than the one before, by up to {farthest}")
    if times and max(times) - min(times) > _YEAR:
        out.append(f"the times span years, from {min(times):%Y-%m-%d} to {max(times):%Y-%m-%d}")
    return out


def _of_messages(good: Sequence[PlainLine]) -> list[str]:
    empty = [line for line in good if not line.message]
    if len(empty) < _MOST * len(good) or not empty:
        return []
    texts = Counter(key for line in empty for key, text in line.fields.items() if text and " " in text)
    others = f"; texts are in {listed(key for key, _ in texts.most_common(3))}" if texts else ""
    return [f"the message is empty in {share(len(empty), len(good))} of the lines{others}"]


def _of_levels(good: Sequence[PlainLine], reader: PlainReader) -> list[str]:
    default = reader.default_level
    if not good or (reader.has_level and len({line.level for line in good}) > 1):
        return []
    if default is None or any(line.level != default for line in good):
        return []
    words = Counter(word for line in good for word in words_like_levels(line.text))
    if not words:
        return []
    seen = listed(f"{word} in {share(count, len(good))}" for word, count in words.most_common(3))
    return [f"no level was found, and every line counts as {default}; words look like levels: {seen}"]
