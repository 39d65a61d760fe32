"""The moments at which the clocks of a zone change, by its data in Python."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo


def changes(zone: ZoneInfo, years: Iterable[int]) -> Iterator[datetime]:
    """Yield the changes in some years, to the minute."""
    for year in years:
        at, end = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
        while at < end:
            following = at + timedelta(days=1)
            if at.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
                minutes = (at + timedelta(minutes=minute) for minute in range(1, 1441))
                old = at.astimezone(zone).utcoffset()
                yield next(minute for minute in minutes if minute.astimezone(zone).utcoffset() != old)
            at = following
