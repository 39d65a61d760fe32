"""Refuse a table that somebody altered so that its stage would stop at each start, or count wrongly.

Harmless changes are accepted: nullable columns, another order, comments, clustering, table features. For any other
change, the error names the statement and what undoes it, before a batch begins.
Source: the statements of Delta's documentation, "Table batch reads and writes", "Constraints" and "Column mapping".
"""

import json
import re
from collections.abc import Iterator
from itertools import islice

from pyspark.sql.types import StructType

from oncelake.common.errors import ConfigError
from oncelake.common.lake import Table, identifier, restoring
from oncelake.common.wording import listed
from oncelake.exactly_once.delta_log import LOOK_BACK, Commit, DeltaLog

RETENTION = "delta.setTransactionRetentionDuration"
APPEND_ONLY = "delta.appendOnly"
_CONSTRAINT = "delta.constraints."
# Delta's names of the statements that take a column away.
_TAKING_AWAY = ("RENAME COLUMN", "DROP COLUMNS", "REPLACE COLUMNS")


def refuse_altered(table: Table, place: str, log: DeltaLog, columns: StructType | None) -> None:
    """Raise ConfigError if a table was altered so that its stage would stop, or count wrongly.

    Args:
        table: the table.
        place: its path or its name in the catalog.
        log: its log.
        columns: the columns that its stage writes; None if they are not known.

    Raises:
        ConfigError: names the statement, where the log still has it, and what undoes it.
    """
    metadata = log.metadata()
    if metadata is None:
        return
    name, properties = identifier(place), dict(metadata.get("configuration", {}))
    if RETENTION in properties:
        raise ConfigError(
            f"{table} has {RETENTION} = {properties[RETENTION]}: Delta would forget which batches the table holds, and "
            f"count a replayed batch twice. Fix: ALTER TABLE {name} UNSET TBLPROPERTIES ('{RETENTION}')"
        )
    for key in sorted(key for key in properties if key.startswith(_CONSTRAINT)):
        rule = key.removeprefix(_CONSTRAINT)
        raise ConfigError(
            f"{table} has the constraint {rule}, CHECK ({properties[key]}){_by(log, 'ADD CONSTRAINT')}: one row that "
            f"breaks it stops the stage for good. Fix: ALTER TABLE {name} DROP CONSTRAINT {rule}. To send such rows to "
            "quarantine, add an expectation to the suite"
        )
    if table.layer == "gold" and properties.get(APPEND_ONLY, "").lower() == "true":
        raise ConfigError(
            f"{table} has {APPEND_ONLY} = true{_by(log, 'SET TBLPROPERTIES')}, and a batch changes its rows. "
            f"Fix: ALTER TABLE {name} SET TBLPROPERTIES ('{APPEND_ONLY}' = 'false')"
        )
    if columns is not None:
        _check_columns(table, place, log, columns, StructType.fromJson(json.loads(metadata["schemaString"])))


def _check_columns(table: Table, place: str, log: DeltaLog, columns: StructType, schema: StructType) -> None:
    name = identifier(place)
    existing, known = ({field.name.lower(): field for field in fields} for fields in (schema, columns))
    for field in schema:
        if not field.nullable and (field.name.lower() not in known or known[field.name.lower()].nullable):
            raise ConfigError(
                f"{table} has the column {field.name} as NOT NULL{_by(log, 'CHANGE COLUMN')}: one row without a value "
                f"stops the stage for good. Fix: ALTER TABLE {name} ALTER COLUMN `{field.name}` DROP NOT NULL"
            )
    gone = sorted(field.name for field in columns if field.name.lower() not in existing)
    by = next((other for other in _by_others(log) if other.operation in _TAKING_AWAY), None) if gone else None
    if by is not None and any(re.search(rf"\b{re.escape(column)}\b", str(by.parameters)) for column in gone):
        undo = restoring(place, by.version - 1)
        raise ConfigError(
            f"{table} lacks the column {listed(gone)}, by {by.statement}: old rows would count without it. Undo it: "
            f"{undo}"
        )


def _by(log: DeltaLog, operation: str) -> str:
    """Return which statement did something last, in words; empty if the log does not have it."""
    return next((f", by {other.statement}" for other in _by_others(log) if other.operation.startswith(operation)), "")


def _by_others(log: DeltaLog) -> Iterator[Commit]:
    """Yield the newest commits of other writers that still count, newest first."""
    return (commit for commit, stands in islice(log.newest_first(), LOOK_BACK) if stands and commit.metadata is None)
