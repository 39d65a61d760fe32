"""Times that users give on the command line, as in `--since`."""

import re
from datetime import UTC, datetime, timedelta

from oncelake.common.errors import ConfigError
from oncelake.common.wording import shown

_UNITS = {
    **dict.fromkeys(("s", "second"), "seconds"),
    **dict.fromkeys(("m", "min", "minute"), "minutes"),
    **dict.fromkeys(("h", "hour"), "hours"),
    **dict.fromkeys(("d", "day"), "days"),
    **dict.fromkeys(("w", "week"), "weeks"),
}
_SPAN = re.compile(rf"([0-9]{{1,9}}) ?({'|'.join(_UNITS)})s?")
_ACCEPTED = (
    "accepted are today, yesterday, a span before now such as 30m, 24h, 7d or 2w, a date such as 2026-11-20, or a time "
    "such as 2026-11-20T14:30, all in UTC unless a time names its zone"
)


def moment(flag: str, text: str, now: datetime) -> datetime:
    """Return the start of a day by its name or date, a span before now, or a time, in UTC.

    Args:
        flag: the option that the text was given to, for the error.
        text: the text.
        now: the current time.

    Raises:
        ConfigError: the text is none of these; the message says what is accepted.
    """
    phrase, midnight = text.strip().lower(), now.replace(hour=0, minute=0, second=0, microsecond=0)
    if phrase in ("today", "yesterday"):
        return midnight - timedelta(days=phrase == "yesterday")
    try:
        span = _SPAN.fullmatch(phrase)
        if span is not None:
            return now - timedelta(**{_UNITS[span[2]]: int(span[1])})
        parsed = datetime.fromisoformat(text.strip())
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ConfigError(f"{flag} {shown(text)} is no time; {_ACCEPTED}") from None
