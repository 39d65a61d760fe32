"""Read the checkpoint directory of a streaming query.

Spark writes, in this order: `metadata` (once, the query ID), the source's own log, `offsets/N` before
batch N runs, `commits/N` after it. So the last N in `offsets` equals the last N in `commits`, or is one more while
a batch is unfinished.
Source: org.apache.spark.sql.execution.streaming, OffsetSeqLog and CommitLog.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from oncelake.common.errors import StateError
from oncelake.exactly_once.files import Files, lines_of

# How Spark spells the position in a source that it has not read yet, if a query has several.
NOT_READ = "-"
# The version of an `offsets` file that every supported Spark reads. Spark 4.2 has a second one, for sources with names;
# `session` does not let a query of oncelake begin with it.
_VERSION = "v1"


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint directory.

    Attributes:
        query_id: the query's ID; None if no query was started from the directory.
        planned: the last batch in `offsets`; None without one.
        committed: the last batch in `commits`; None without one.
        offsets: the texts of `offsets/<planned - 1>` and `offsets/<planned>`.
        damage: what is unreadable or inconsistent; None if nothing is.
    """

    query_id: str | None = None
    planned: int | None = None
    committed: int | None = None
    offsets: tuple[str | None, str | None] = (None, None)
    damage: str | None = None

    @property
    def open_batch(self) -> int | None:
        """The batch that is planned and not committed; None without one."""
        return self.planned if self.planned != self.committed else None


def read_checkpoint(files: Files, path: str) -> Checkpoint:
    """Read a checkpoint directory; damage is returned in `Checkpoint.damage`, never raised."""
    planned, committed = last_batch(files, f"{path}/offsets"), last_batch(files, f"{path}/commits")
    query_id, damage = _query_id(files, path)
    before = offset_log(files, path, planned - 1) if planned else None
    last = offset_log(files, path, planned) if planned is not None else None
    if query_id is None and damage is None and (planned is not None or committed is not None):
        damage = "metadata is missing"
    damage = damage or _gap(planned, committed, before, last) or _half_written(files, path, committed)
    # guard: checkpoint-version-known
    damage = damage or _unreadable({planned - 1: before, planned: last} if planned is not None else {})
    return Checkpoint(query_id, planned, committed, (before, last), damage)


def last_batch(files: Files, path: str) -> int | None:
    """Return the last batch in a checkpoint's directory `offsets` or `commits`; None without one."""
    return max((int(name) for name in files.names(path) if name.isdigit()), default=None)


def offset_log(files: Files, path: str, batch_id: int) -> str | None:
    """Return the text of `offsets/<batch id>`; None if it is missing or incomplete."""
    text = sound_text(files, f"{path}/offsets/{batch_id}")
    return text if position(text) is not None else None  # guard: offset-log-whole


def sound_text(files: Files, path: str) -> str:
    """Return a file's text; an empty string if it is missing or does not match its checksum."""
    return (files.read(path) or "") if files.is_sound(path) else ""


def read_query_id(files: Files, path: str) -> str:
    """Return the ID of the query that runs from a checkpoint; Spark writes it before the first batch.

    Raises:
        StateError: the file is missing or cannot be read.
    """
    query_id, damage = _query_id(files, path)
    if query_id is None:
        # guard: query-id-in-checkpoint
        raise StateError(f"{path}/metadata: {damage or 'is missing'} while its query runs. Run: oncelake doctor")
    return query_id


def position(text: str) -> str | None:
    """Return the source's position from the text of an `offsets` file: the line after version and metadata.

    A stage that reads several tables has one line for each. Its position is a JSON array of them, with null for a table
    that is not read yet. None if the text is incomplete.
    """
    header, lines = lines_of(text)[:2], lines_of(text)[2:]
    if not lines or not header[0].startswith("v"):
        return None
    several = len(lines) > 1
    entries = ["null" if several and line == NOT_READ else line for line in lines]
    at = f"[{','.join(entries)}]" if several else entries[0]
    try:
        json.loads(header[1])
        values = [json.loads(entry) for entry in entries]
    except ValueError:
        return None
    of_tables = all(value is None or (isinstance(value, dict) and "reservoirId" in value) for value in values)
    return at if of_tables or not several else None


def offsets_text(after: str, at: str) -> str:
    """Return the text of an `offsets` file with the header of another one, and a position."""
    value = json.loads(at)
    entries = [json.dumps(entry, separators=(",", ":")) for entry in value] if isinstance(value, list) else [at]
    return "\n".join([*lines_of(after)[:2], *(NOT_READ if entry == "null" else entry for entry in entries)])


def _half_written(files: Files, path: str, committed: int | None) -> str | None:
    if committed is None or sound_text(files, f"{path}/commits/{committed}").startswith("v1\n{"):
        return None
    return f"commits/{committed} is incomplete"  # guard: last-commit-file-whole


def _unreadable(offsets: Mapping[int, str | None]) -> str | None:
    """Return which batch's position has a version of its form that not every Spark reads."""
    for batch, text in offsets.items():
        version = (text or _VERSION).partition("\n")[0]
        if version != _VERSION:
            return f"offsets/{batch} has version {version} of its form, and oncelake reads {_VERSION}"
    return None


def _query_id(files: Files, path: str) -> tuple[str | None, str | None]:
    if files.read(f"{path}/metadata") is None:
        return None, None
    try:
        return str(json.loads(sound_text(files, f"{path}/metadata"))["id"]), None
    except (ValueError, KeyError, TypeError):
        return None, "metadata cannot be read"


# guard: no-gap-in-checkpoint
def _gap(planned: int | None, committed: int | None, before: str | None, last: str | None) -> str | None:
    if planned is None:
        return None if committed is None else f"commits/{committed} exists but offsets/{committed} does not"
    if last is None:
        return f"offsets/{planned} is incomplete"
    if planned > 0 and before is None:
        return f"offsets/{planned - 1} is missing or incomplete"
    if (committed if committed is not None else -1) not in (planned, planned - 1):
        return f"the last batch in offsets is {planned}, in commits {'none' if committed is None else committed}"
    return None
