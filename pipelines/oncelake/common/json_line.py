"""This is where an event is written as one line of JSON, as log collectors take it."""

import json
import time
from datetime import UTC, datetime
from typing import Any, Literal

Level = Literal["info", "warning", "error"]


def json_line(event: str, level: Level = "info", at: float | None = None, **fields: Any) -> str:
    """Write an event as a JSON object, with its time in UTC.

    Args:
        event: what it is, as `batch`.
        level: how much it matters.
        at: when it happened, in seconds since 1970; now unless given.
        fields: what else is told.
    """
    when = datetime.fromtimestamp(time.time() if at is None else at, UTC)
    told = {"time": f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z", "level": level, "event": event}
    return json.dumps({**told, **fields})
