"""The names of time zones that settings accept."""

import re
import zoneinfo

_OFFSET = re.compile(r"[+-](0\d|1[0-7]):[0-5]\d|[+-]18:00")


def checked_zone(zone: str) -> str:
    """Return the zone if it is an IANA name or an offset such as +02:00.

    Raises:
        ValueError: it is neither.
    """
    if zone == "UTC" or _OFFSET.fullmatch(zone):
        return zone
    known = zoneinfo.available_timezones()  # slow: reads every zone file
    if zone in known or (not known and "/" in zone):
        return zone
    raise ValueError("must be a time zone such as Europe/Paris, UTC or +02:00")
