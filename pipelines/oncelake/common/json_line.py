"""Format an event as one line of JSON for log collectors."""

import json
import time
from collections.abc import Mapping, Sequence
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
    return json.dumps({**_header(event, level, at), **fields})


def result_line(command: str, fields: Mapping[str, Any], *, holds: bool = True, warnings: Sequence[str] = ()) -> str:
    """Return the result of a command as a JSON object in one line, with the same header as an event.

    Args:
        command: the command, such as `status` or `format try`.
        fields: what the command returns.
        holds: False if it exits with 1.
        warnings: the warnings that it printed.
    """
    header = {**_header("result", "info" if holds else "error"), "command": command}
    return json.dumps({**header, "warnings": [*warnings], **fields})


def _header(event: str, level: Level, at: float | None = None) -> dict[str, str]:
    when = datetime.fromtimestamp(time.time() if at is None else at, UTC)
    return {"time": f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z", "level": level, "event": event}
