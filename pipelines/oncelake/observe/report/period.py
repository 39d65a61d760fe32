"""The period that a report is about: `--since` and `--until` as times, and the period of the same length before it."""

from dataclasses import dataclass
from datetime import UTC, datetime

from oncelake.common.errors import ConfigError
from oncelake.common.moment import moment
from oncelake.common.wording import shown

# Before it, a log's time is a mistake, and a period before may have no beginning.
_EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Period:
    """A period of time: from its start up to, and not including, its end, both in UTC."""

    since: datetime
    until: datetime

    @property
    def before(self) -> "Period":
        """Return the period of the same length that ends where this one starts."""
        return Period(self.since - (self.until - self.since), self.since)

    @property
    def since_ms(self) -> int:
        """The start, in milliseconds since 1970."""
        return _ms(self.since)

    @property
    def until_ms(self) -> int:
        """The end, in milliseconds since 1970."""
        return _ms(self.until)


def read_period(since: str | None, until: str | None, now: datetime) -> Period | None:
    """Return the period of `--since` and `--until`; it ends now without an end, and is None without a start.

    Raises:
        ConfigError: one of them is no time, or the end is not after the start; the message says what is accepted.
    """
    if since is None:
        if until is not None:
            raise ConfigError("--until is the end of the period that --since starts: add --since or remove --until")
        return None
    start, end = moment("--since", since, now), now if until is None else moment("--until", until, now)
    if start >= end:
        last = f"--until {shown(until)}, which is {_utc(end)}" if until is not None else f"now, {_utc(now)}"
        raise ConfigError(f"--since {shown(since)} is {_utc(start)}; it must be before {last}")
    if start - _EARLIEST < end - start:
        raise ConfigError(f"--since {shown(since)} is too early: the period before it would start before 1900")
    return Period(start, end)


def _utc(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
