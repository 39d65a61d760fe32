"""The proof record: how far a lake is proven, so that the next proof starts there, even after log clean-up."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.files import Files
from oncelake.exactly_once.link import Uncompared

FORM = 1
KEPT = 10
# Fields that earlier versions do not know; an entry has them only where they say something.
_LATER = ("lines", "line_ends")


@dataclass(frozen=True)
class ProvenTable:
    """How far one table is proven.

    Attributes:
        table_id: the table's Delta ID; a recreated table has another one.
        version: the version of the last proven commit of the chain.
        batch_id: the batch of that commit.
        query_id: the query of that commit.
        end: the source position after that commit, as the checkpoint spells it; None before the first batch.
        rows: rows that the chain has written to the table, up to and including that commit.
        gaps: which commits no proof covers, in words, because log clean-up removed them before a proof ran.
        uncompared: what no proof has compared up to there, and no later one can.
        line_ends: of a bronze table, the line ends within the records up to there; None if they were not counted.
        lines: the lines that these rows come from; None if a line is one row.
    """

    table_id: str
    version: int
    batch_id: int
    query_id: str
    end: str | None
    rows: int
    gaps: tuple[str, ...] = ()
    uncompared: tuple[Uncompared, ...] = ()
    line_ends: int | None = None
    lines: int | None = None

    @property
    def lines_in_all(self) -> int:
        """The lines that the rows come from."""
        return self.rows if self.lines is None else self.lines

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self | None:
        """Return the entry that a record holds; None if the rows of commits that were gone may not be compared.

        Earlier versions did not compare these rows.
        """
        if value["gaps"] and "uncompared" not in value:  # guard: record-without-uncovered-rows
            return None
        uncompared = tuple(Uncompared(**part) for part in value.get("uncompared", ()))
        return cls(**{**value, "gaps": tuple(value["gaps"]), "uncompared": uncompared})

    @classmethod
    def up_to(cls, table_id: str, commit: ChainCommit) -> Self:
        """Return the entry of a table that is proven up to and including a commit."""
        metadata, rows, lines = commit.metadata, commit.rows_in_all, commit.lines_in_all
        proven = cls(table_id, commit.version, metadata.batch_id, metadata.query_id, metadata.end, rows)
        return proven if lines == rows else replace(proven, lines=lines)

    @classmethod
    def ahead_of(cls, table_id: str, commit: ChainCommit) -> Self:
        """Return the entry of a table that is proven up to a commit, without it; read from what the commit recorded."""
        metadata = commit.metadata
        rows, lines = metadata.rows, metadata.lines_before
        proven = cls(table_id, commit.version - 1, metadata.batch_id - 1, metadata.query_id, metadata.before, rows)
        return proven if lines == rows else replace(proven, lines=lines)


def read_record(files: Files, lake: str) -> Mapping[str, ProvenTable]:
    """Return per table how far it is proven: the newest record that can be read, or an empty one."""
    for name in sorted(_names(files, lake), reverse=True):
        try:
            value = json.loads(files.read(f"{_directory(lake)}/{name}") or "{}")
            if value.get("form") == FORM:
                tables = {table: ProvenTable.from_dict(entry) for table, entry in value["tables"].items()}
                return {table: entry for table, entry in tables.items() if entry}
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return {}


def write_record(files: Files, lake: str, tables: Mapping[str, ProvenTable], now: datetime) -> str:
    """Write how far a lake is proven, delete all but the newest `KEPT` records, and return the new record's path.

    Raises:
        OSError: the lake is not writable.
    """
    at = now.astimezone(UTC)
    path = f"{_directory(lake)}/{at:%Y%m%dT%H%M%S.%fZ}.json"
    entries = {
        table: {name: value for name, value in asdict(entry).items() if name not in _LATER or value is not None}
        for table, entry in tables.items()
    }
    files.write(path, json.dumps({"form": FORM, "at": f"{at:%Y-%m-%d %H:%M:%S} UTC", "tables": entries}, indent=1))
    for name in sorted(_names(files, lake))[:-KEPT]:
        files.remove(f"{_directory(lake)}/{name}")
    return path


def _names(files: Files, lake: str) -> list[str]:
    return [name for name in files.names(_directory(lake)) if name.endswith(".json") and not name.startswith(".")]


def _directory(lake: str) -> str:
    return f"{lake}/_proofs"
