"""Count the expected result in plain Python, for comparison with the chain's tables."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

LEVELS = frozenset({"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"})
_LINE = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) ([A-Za-z]+)(?: .*)?", re.DOTALL)


@dataclass(frozen=True)
class Answer:
    """The expected counts for lines of the default format: all lines, parsed lines, and ERROR lines per minute."""

    lines: int
    parsed: int
    errors: Counter[datetime]

    @property
    def broken(self) -> int:
        """Return the number of lines that belong in quarantine."""
        return self.lines - self.parsed


def count(lines: Iterable[bytes], now: datetime) -> Answer:
    """Count lines of the default format: all, those that parse, and ERROR lines per minute."""
    total = parsed = 0
    errors: Counter[datetime] = Counter()
    for line in lines:
        total += 1
        entry = read(line, now)
        if entry is not None:
            parsed += 1
            if entry[1] == "ERROR":
                errors[entry[0].replace(second=0)] += 1
    return Answer(total, parsed, errors)


def read(line: bytes, now: datetime) -> tuple[datetime, str] | None:
    """Return a line's time and level; None if it breaks a rule."""
    match = _LINE.fullmatch(line.removesuffix(b"\r"))
    if match is None or match[2].decode().upper() not in LEVELS:
        return None
    try:
        at = datetime.strptime(match[1].decode(), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    in_range = datetime(1970, 1, 1, tzinfo=UTC) <= at <= now + timedelta(days=1)
    return (at, match[2].decode().upper()) if in_range else None
