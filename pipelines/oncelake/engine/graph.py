"""The map of the pipeline: its stages in data order. Every streaming query belongs to one of them.

source → bronze.access_log → silver.access_log (+ silver.quarantine) → gold.<each declared table>
and, if a database is configured, gold (or silver, in transactional mode) → serving.<each served table>
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from oncelake.bronze.schema import BRONZE as BRONZE_SCHEMA
from oncelake.bronze.sources.registry import kind_of
from oncelake.common import tables
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Lake, Table
from oncelake.common.models import fingerprint
from oncelake.engine.settings import Settings
from oncelake.exactly_once.batch import Write
from oncelake.exactly_once.checkpoint import position
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import Files, files_at
from oncelake.exactly_once.positions import TablePosition
from oncelake.gold import stream as gold
from oncelake.gold.declaration import GoldTable
from oncelake.gold.schema import gold_schema
from oncelake.quality.gate import checks
from oncelake.quality.suite import Suites, read_suites, refuse_names
from oncelake.serving.settings import CHANGE_FEED
from oncelake.silver import stream as silver
from oncelake.silver.format import LogFormat, column_rule
from oncelake.silver.schema import QUARANTINE as QUARANTINE_SCHEMA

if TYPE_CHECKING:
    from oncelake.serving.served import Served

# A table with at most this many commits has few.
FEW_COMMITS = 20
# The table property that holds the declaration a gold table was built from.
DECLARATION = "oncelake.declaration"
# No deletion vectors, so that readers other than Spark can open every table.
_READABLE = {"delta.enableDeletionVectors": "false"}
_APPEND_ONLY = {**_READABLE, "delta.appendOnly": "true"}
_STATS = "delta.dataSkippingStatsColumns"
_ORIGIN = "partition,offset,file,ingested_at"


@dataclass(frozen=True)
class Target:
    """A table that a stage writes.

    Attributes:
        schema: returns the columns; for a gold table, Spark derives them from its declaration.
        properties: the table's Delta properties, set when the table is created. Only the named columns have
            statistics: on text they cost much, and they prune nothing if every file holds the same texts.
    """

    table: Table
    schema: Callable[[SparkSession], StructType]
    properties: Mapping[str, str]


@dataclass(frozen=True)
class Stage:
    """One streaming query with its own checkpoint.

    Attributes:
        name: `bronze`, `silver`, `gold.<table>` or `serving.<table>`.
        reads: the table it reads; None for the source.
        writes: its tables in the lake; every batch writes to the first.
        read: returns the stream of its input.
        write: the work of one batch.
        rules: a short hash of the settings that decide its rows.
        served: its table in the serving database; such a stage has no tables in the lake.
    """

    name: str
    reads: Table | None
    writes: tuple[Target, ...]
    read: Callable[[SparkSession], DataFrame] = field(repr=False)
    write: Write = field(repr=False)
    rules: str = ""
    served: "Served | None" = None

    @property
    def layer(self) -> str:
        """Return the layer of the stage; with `--once`, the stages of one layer run in parallel."""
        return self.name.split(".")[0]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return all tables of the stage, in the lake and in the serving database."""
        return (*(target.table for target in self.writes), *([self.served.table] if self.served else []))


def chain(settings: Settings, made_by: silver.Silver) -> tuple[Stage, ...]:
    """Build the stages declared in the settings."""
    records = made_by.log_format.record
    lake, source, wanted = settings.places(), kind_of(settings.source, records), settings.serving
    followed = wanted.tables if wanted.url is not None and wanted.mode == "idempotent" else ()

    return (
        Stage(
            "bronze",
            reads=None,
            writes=(Target(BRONZE, lambda _: BRONZE_SCHEMA, {**_APPEND_ONLY, _STATS: _ORIGIN}),),
            read=source.read,
            write=partial(source.write, checkpoint=lake.checkpoint("bronze")),
            rules=fingerprint(records) if records and source.directory else "",
        ),
        Stage(
            "silver",
            reads=BRONZE,
            writes=(
                Target(SILVER, lambda _: made_by.schema, {**_APPEND_ONLY, _STATS: f"log_time,{_ORIGIN}"}),
                Target(QUARANTINE, lambda _: QUARANTINE_SCHEMA, {**_READABLE, _STATS: _ORIGIN}),
            ),
            read=_appends(settings, BRONZE, "silver"),
            write=silver.write(made_by),
            rules=fingerprint(made_by.log_format, made_by.limits, *made_by.rules),
        ),
        *(
            Stage(
                f"gold.{name}",
                reads=SILVER,
                writes=(_gold_target(name, declared, made_by.schema, changes=name in followed),),
                read=_appends(settings, SILVER, f"gold.{name}"),
                write=gold.write(name, declared),
                rules=fingerprint(declared),
            )
            for name, declared in settings.gold.items()
        ),
        *_serving(settings, lake, made_by.schema),
    )


def suites(settings: Settings) -> Suites:
    """Read the suites of expectations of the configuration; empty without a directory of suites.

    Raises:
        ConfigError: a suite is invalid; the message names the file, the expectation and what is accepted.
    """
    directory = settings.quality.expectations
    tables = (BRONZE, SILVER, QUARANTINE, *(Table("gold", name) for name in settings.gold))
    return read_suites(Path(directory), tables) if directory is not None else {}


def silver_rules(settings: Settings, log_format: LogFormat, found: Suites) -> silver.Silver:
    """Return how silver's rows are made: its format, time limits, and the rules and gate of its suite.

    Raises:
        ConfigError: a rule of the suite has the name of the rule of a column.
    """
    suite = found.get(SILVER)
    if suite is not None:
        refuse_names(suite, [column_rule(name) for name in log_format.columns])
    gate = tuple(checks(settings.quality.gate, suite))
    return silver.Silver(log_format, settings.silver, suite.rules if suite else (), gate)


def _serving(settings: Settings, lake: Lake, silver_schema: StructType) -> Iterator[Stage]:
    """Yield the stages that write to the serving database."""
    wanted, most = settings.serving, int(settings.run.max_bytes_per_batch)
    if wanted.url is None:
        return
    from oncelake.serving import stream as serving  # noqa: PLC0415 - SQLAlchemy, which only a served lake needs
    from oncelake.serving.database import Database  # noqa: PLC0415
    from oncelake.serving.served import Served  # noqa: PLC0415

    database = Database(wanted.address())
    idempotent = wanted.mode == "idempotent"
    for name in wanted.tables:
        follows = Table("gold", name) if idempotent else SILVER
        served = Served(Table("serving", name), settings.gold[name], wanted.mode, follows, database, silver_schema)
        yield Stage(
            served.stage,
            reads=follows,
            writes=(),
            read=partial(serving.follow_changes, path=lake.at(follows), max_bytes=most)
            if idempotent
            else _appends(settings, follows, served.stage),
            write=serving.write(served),
            rules=fingerprint(served.declared),
            served=served,
        )


def _gold_target(name: str, declared: GoldTable, silver_schema: StructType, *, changes: bool) -> Target:
    """Return the target of a gold table. A property holds its declaration: rows of two declarations must not mix."""
    properties = {**_READABLE, DECLARATION: declared.model_dump_json(exclude_none=True)}
    properties |= {CHANGE_FEED: "true"} if changes else {}
    return Target(Table("gold", name), lambda spark: gold_schema(spark, declared, silver_schema), properties)


def _appends(settings: Settings, table: Table, stage: str) -> Callable[[SparkSession], DataFrame]:
    """Return the function that streams a table to a stage: first its current rows, then every later append.

    The current rows are those of the table's snapshot, which takes some jobs of Spark. Of a table with few commits, all
    appends, they are the rows of these commits. That is not so for a query whose first batch was planned within a
    snapshot or a commit: its position counts the files of the one or of the other. Spark asks for a query's first batch
    again if the query starts after it.
    """
    lake, most = settings.places(), int(settings.run.max_bytes_per_batch)
    path, offsets = lake.at(table), f"{lake.checkpoint(stage)}/offsets"

    def read(spark: SparkSession) -> DataFrame:
        reader = spark.readStream.option("maxBytesPerTrigger", f"{most}b")
        may_count = not tables.is_name(path) and _begins_whole(files_at(offsets, spark), offsets)
        if may_count and DeltaLog(files_at(path, spark), path).only_appends(most=FEW_COMMITS):
            reader = reader.option("startingVersion", "0")
        return tables.follow(reader, path)

    return read


def _begins_whole(files: Files, offsets: str) -> bool:
    """Return True if a query has no planned batch, or its first one ends between two commits of its table."""
    text = files.read(f"{offsets}/0")
    if text is None:
        return not files.names(offsets)
    at = TablePosition.parse(position(text))
    return at is not None and at.is_whole
