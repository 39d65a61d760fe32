"""Record how far a lake was proven: the next proof starts there, also once log clean-up has taken the commits."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Self

from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.files import Files

FORM = 1
KEPT = 10


@dataclass(frozen=True)
class Proven:
    """How far one table is proven.

    Attributes:
        table_id: the id that Delta gave the table; a table that was made anew has another.
        version: the version of the last proven commit of the chain.
        batch_id: its batch.
        query_id: its query.
        end: the source's position after it, in the checkpoint's words; None before the first batch.
        rows: rows that the chain had put into the table, up to and with it.
        gaps: what no proof covers, in words, as its commits were cleaned away before one ran.
    """

    table_id: str
    version: int
    batch_id: int
    query_id: str
    end: str | None
    rows: int
    gaps: tuple[str, ...] = ()

    @classmethod
    def up_to(cls, table_id: str, commit: ChainCommit) -> Self:
        """Return the point after a commit of the chain."""
        metadata = commit.metadata
        return cls(table_id, commit.version, metadata.batch_id, metadata.query_id, metadata.end, commit.rows_in_all)

    @classmethod
    def ahead_of(cls, table_id: str, commit: ChainCommit) -> Self:
        """Return the point before a commit of the chain, in that commit's own words."""
        metadata = commit.metadata
        return cls(
            table_id, commit.version - 1, metadata.batch_id - 1, metadata.query_id, metadata.before, metadata.rows
        )


def read_record(files: Files, lake: str) -> Mapping[str, Proven]:
    """Return how far earlier proofs came, per table: the newest record that can be read, or an empty one."""
    for name in sorted(_names(files, lake), reverse=True):
        try:
            value = json.loads(files.read(f"{_directory(lake)}/{name}") or "{}")
            if value.get("form") == FORM:
                return {
                    table: Proven(**{**each, "gaps": tuple(each["gaps"])}) for table, each in value["tables"].items()
                }
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return {}


def write_record(files: Files, lake: str, tables: Mapping[str, Proven], now: datetime) -> str:
    """Write how far a lake is proven, and forget all but the newest few records; return the file's path.

    Raises:
        OSError: the lake cannot be written.
    """
    at = now.astimezone(UTC)
    path = f"{_directory(lake)}/{at:%Y%m%dT%H%M%S.%fZ}.json"
    entries = {table: asdict(each) for table, each in tables.items()}
    files.write(path, json.dumps({"form": FORM, "at": f"{at:%Y-%m-%d %H:%M:%S} UTC", "tables": entries}, indent=1))
    for name in sorted(_names(files, lake))[:-KEPT]:
        files.remove(f"{_directory(lake)}/{name}")
    return path


def _names(files: Files, lake: str) -> list[str]:
    return [name for name in files.names(_directory(lake)) if name.endswith(".json") and not name.startswith(".")]


def _directory(lake: str) -> str:
    return f"{lake}/_proofs"
