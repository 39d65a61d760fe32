"""Reads bronze without Spark: what it holds of each file, and which losses its commits say were accepted."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote_to_bytes

import deltalake


@dataclass
class Held:
    """What bronze holds of one file, or of one partition of a topic.

    Attributes:
        lines: each with how often it is there.
        stamps: the sizes in bytes and the times in milliseconds that its rows say the file had.
    """

    lines: Counter[bytes] = field(default_factory=Counter)
    stamps: set[tuple[int, int]] = field(default_factory=set)


def held_of_files(table: Path, root: bytes) -> dict[bytes, Held]:
    """Return what bronze holds, by each file's path below the source."""
    found: dict[bytes, Held] = {}
    if not (table / "_delta_log").exists():
        return found
    rows = deltalake.DeltaTable(table).to_pyarrow_dataset().to_table(["value", "file", "file_size", "file_modified"])
    for row in rows.to_pylist():
        held = found.setdefault(below(row["file"], root), Held())
        held.lines[row["value"]] += 1
        held.stamps.add((row["file_size"], round(row["file_modified"].timestamp() * 1000)))
    return found


def below(uri: str, root: bytes) -> bytes:
    """Return the path below the source that a file's URI names."""
    path = b"/" + unquote_to_bytes(uri.removeprefix("file:")).lstrip(b"/")
    return path.removeprefix(root + b"/")


def accepted(table: Path, root: bytes) -> set[bytes]:
    """Return the files that the table's commits say are lost by consent, by path below the source."""
    lost: set[bytes] = set()
    for commit in sorted((table / "_delta_log").glob("*.json")):
        for line in commit.read_bytes().split(b"\n"):
            if not line.startswith(b'{"commitInfo"'):
                continue
            note = json.loads(json.loads(line)["commitInfo"].get("userMetadata") or "{}")
            lost |= {below(each, root) for each in note.get("lost", ())}
    return lost
