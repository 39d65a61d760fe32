"""The statements that people run on a table of the chain, and what the next start says: goes on, or refuses by name."""

from collections.abc import Mapping
from dataclasses import dataclass

TABLES: Mapping[str, str] = {
    "bronze/access_log": "value",
    "silver/access_log": "message",
    "silver/quarantine": "value",
    "gold/error_log": "log_count",
}
_MAPPED = (
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', "
    "'delta.minWriterVersion' = '5')"
)
_CHANGEABLE = "ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.appendOnly')"
# Each goes on, on every table, also one after the other.
COMPATIBLE = (
    "ALTER TABLE {table} ADD COLUMN own STRING",
    "ALTER TABLE {table} ADD COLUMN first INT FIRST",
    "ALTER TABLE {table} ADD COLUMN parts STRUCT<one: STRING, two: BIGINT>",
    "ALTER TABLE {table} ALTER COLUMN own FIRST",
    "ALTER TABLE {table} ALTER COLUMN {column} COMMENT 'a comment'",
    "COMMENT ON TABLE {table} IS 'a comment'",
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.isolationLevel' = 'Serializable')",
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.randomizeFilePrefixes' = 'true')",
    "ALTER TABLE {table} SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    "ALTER TABLE {table} ALTER COLUMN {column} SET DEFAULT {value}",
    "ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.isolationLevel')",
    "ALTER TABLE {table} CLUSTER BY ({time})",
    "OPTIMIZE {table}",
    "REORG TABLE {table} APPLY (PURGE)",
    "VACUUM {table} RETAIN 0 HOURS",
    _MAPPED,
)


@dataclass(frozen=True)
class Alteration:
    """Statements that stop the next start.

    Attributes:
        statements: what somebody runs.
        tables: the tables on which it stops the start.
        said: a part of the error.
        undone: the statements that the error names, or the stage to rebuild.
        rebuilds: the stages that the starts after that ask for, in their order.
    """

    statements: tuple[str, ...]
    tables: tuple[str, ...]
    said: str
    undone: str = ""
    rebuilds: tuple[str, ...] = ()


_ALL = tuple(TABLES)
REFUSED = (
    Alteration(
        ("ALTER TABLE {table} ADD CONSTRAINT known CHECK ({column} IS NOT NULL OR true)",),
        _ALL,
        "has the constraint known, CHECK ({column} IS NOT NULL OR true), by ADD CONSTRAINT in version",
        "ALTER TABLE {table} DROP CONSTRAINT known",
    ),
    Alteration(
        ("ALTER TABLE {table} SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 day')",),
        _ALL,
        "has delta.setTransactionRetentionDuration = interval 1 day",
        "ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')",
    ),
    Alteration(
        ("ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'true')",),
        ("gold/error_log",),
        "has delta.appendOnly = true, by SET TBLPROPERTIES in version",
        "ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'false')",
    ),
    Alteration(
        (_MAPPED, "ALTER TABLE {table} RENAME COLUMN {column} TO other"),
        ("bronze/access_log",),
        "lacks the column value, by RENAME COLUMN in version",
        "RESTORE TABLE {table} TO VERSION AS OF {version}",
        ("silver",),
    ),
    Alteration(
        (_MAPPED, "ALTER TABLE {table} RENAME COLUMN {column} TO other"),
        ("silver/access_log",),
        "lacks the column message, by RENAME COLUMN in version",
        "RESTORE TABLE {table} TO VERSION AS OF {version}",
        ("gold",),
    ),
    Alteration(
        (_MAPPED, "ALTER TABLE {table} DROP COLUMN {column}"),
        ("silver/quarantine", "gold/error_log"),
        "lacks the column {column}, by DROP COLUMNS in version",
        "RESTORE TABLE {table} TO VERSION AS OF {version}",
    ),
    Alteration(
        ("INSERT INTO {table} SELECT * FROM {table} LIMIT 1",),
        ("silver/access_log",),
        "silver: table changed: silver.access_log was changed by WRITE in version",
        rebuilds=("silver",),
    ),
    Alteration(
        ("INSERT INTO {table} SELECT * FROM {table} LIMIT 1",),
        ("bronze/access_log",),
        "bronze: table changed: bronze.access_log was changed by WRITE in version",
        "RESTORE TABLE {table} TO VERSION AS OF {version}",
        ("silver",),
    ),
    *(
        Alteration(
            (_CHANGEABLE, statement),
            (table,),
            f"source replaced: {table.replace('/', '.')} was changed by {statement.split()[0]} in version",
            "RESTORE TABLE {table} TO VERSION AS OF {version}",
            stages,
        )
        for table, stages in (("bronze/access_log", ("silver",)), ("silver/access_log", ("gold",)))
        for statement in (
            "DELETE FROM {table} WHERE ingested_at IS NOT NULL",
            "UPDATE {table} SET {column} = {value}",
            "MERGE INTO {table} USING (SELECT 1) ON true WHEN MATCHED THEN DELETE",
        )
    ),
    Alteration(
        ("DELETE FROM {table} WHERE log_count > 0",),
        ("gold/error_log",),
        "gold.error_log: table changed: gold.error_log was changed by DELETE in version",
        rebuilds=("gold.error_log",),
    ),
    Alteration(
        ("UPDATE {table} SET log_count = log_count + 1",),
        ("gold/error_log",),
        "gold.error_log: table changed: gold.error_log was changed by UPDATE in version",
        "RESTORE TABLE {table} TO VERSION AS OF {version}",
    ),
)
