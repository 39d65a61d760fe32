"""Read bronze without Spark: its rows, and the losses that its commits record as accepted."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import deltalake


@dataclass
class BronzeFiles:
    """What bronze holds of one file or of one record.

    Attributes:
        lines: each line, with how often bronze has it.
        stamps: the file's sizes in bytes and times in milliseconds, as recorded in its rows.
    """

    lines: Counter[bytes] = field(default_factory=Counter)
    stamps: set[tuple[int, int]] = field(default_factory=set)


def rows_of(table: Path, columns: list[str], version: int | None = None) -> list[dict[str, Any]]:
    """Return a table's rows, at a version or the newest ones; none if there is no table."""
    if not (table / "_delta_log").exists():
        return []
    rows: list[dict[str, Any]] = deltalake.DeltaTable(table, version).to_pyarrow_dataset().to_table(columns).to_pylist()
    return rows


def below(uri: str, root: bytes) -> bytes:
    """Return the path below the source that a file's URI names."""
    path = b"/" + unquote_to_bytes(uri.removeprefix("file:")).lstrip(b"/")
    return path.removeprefix(root + b"/")


def accepted_losses(table: Path) -> Iterator[str]:
    """Yield the losses that the table's commits record as accepted, in their words."""
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_bytes().split(b"\n"):
            if line.startswith(b'{"commitInfo"'):
                metadata = json.loads(json.loads(line)["commitInfo"].get("userMetadata") or "{}")
                yield from metadata.get("lost", ())
