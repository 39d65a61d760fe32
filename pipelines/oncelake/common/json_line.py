"""Format an event as one line of JSON for log collectors."""

import json
import time
from datetime import UTC, datetime
from typing import Any, Literal

Level = Literal["info", "warning", "error"]


def json_line(event: str, level: Level = "info", at: float | None = None, **fields: Any) -> str:
    """Return an event as a JSON object in one line, with its time in UTC.

    Args:
        event: the event's name, such as `batch`.
        level: the severity.
        at: when the event happened, in seconds since 1970; default: now.
        fields: further fields of the object.
    """
    when = datetime.fromtimestamp(time.time() if at is None else at, UTC)
    header = {"time": f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z", "level": level, "event": event}
    return json.dumps({**header, **fields})
