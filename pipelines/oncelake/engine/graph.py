"""The map of the pipeline: its stages in data order. Every streaming query belongs to one of them.

source → bronze.access_log → silver.access_log (+ silver.quarantine) → gold.<each declared table>
silver also writes silver.duplicates if it drops repeats
each of several sources → bronze.<source>; silver reads all of them
and, if a database or another sink is configured, gold (or silver, in transactional mode) → serving.<each served table>
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from oncelake.bronze.mask import COLUMNS
from oncelake.bronze.schema import BRONZE as BRONZE_SCHEMA
from oncelake.common import tables
from oncelake.common.errors import ConfigError
from oncelake.common.lake import BRONZE, DUPLICATES, QUARANTINE, SILVER, Lake, Table, bronze_of, bronze_stage, is_name
from oncelake.common.models import fingerprint
from oncelake.engine.settings import Settings
from oncelake.engine.table_changes import APPEND_ONLY
from oncelake.exactly_once.batch import Write
from oncelake.exactly_once.checkpoint import position
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.delta_source import DeltaSource
from oncelake.exactly_once.delta_sources import DeltaSources, first_is_whole
from oncelake.exactly_once.files import Files, files_at
from oncelake.exactly_once.history import DeltaHistory
from oncelake.exactly_once.positions import TablePosition
from oncelake.gold import stream as gold
from oncelake.gold.declaration import LOG_TIME, GoldTable
from oncelake.gold.schema import gold_schema
from oncelake.quality.gate import checks
from oncelake.quality.suite import Suites, read_suites, refuse_names
from oncelake.serving.settings import CHANGE_FEED
from oncelake.silver import stream as silver
from oncelake.silver.duplicates import refuse_key
from oncelake.silver.parsing.format import column_rule
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.rules import Silver
from oncelake.silver.schema import DUPLICATES as DUPLICATES_SCHEMA
from oncelake.silver.schema import EACH, SOURCE, with_source
from oncelake.silver.schema import QUARANTINE as QUARANTINE_SCHEMA
from oncelake.silver.user_code import find_code
from oncelake.silver.user_transform import UserTransform
from oncelake.sources.kind import SourceKind

if TYPE_CHECKING:
    from oncelake.serving.served import Served

# A table with at most this many commits has few.
FEW_COMMITS = 20
# The table property that holds the declaration a gold table was built from.
DECLARATION = "oncelake.declaration"
# No deletion vectors, so that readers other than Spark can open every table.
_READABLE = {"delta.enableDeletionVectors": "false"}
_APPENDED = {**_READABLE, APPEND_ONLY: "true"}
STATS = "delta.dataSkippingStatsColumns"
_ORIGIN = "partition,offset,file,ingested_at"
# Returns a table's columns; those of the user's own code are known only with Spark.
SchemaOf = Callable[[SparkSession], StructType]


@dataclass(frozen=True)
class Target:
    """A table that a stage writes.

    Attributes:
        schema: returns the columns; for a gold table, Spark derives them from its declaration.
        properties: the table's Delta properties, set when the table is created. Only the named columns have
            statistics: on text they cost much, and they prune nothing if every file holds the same texts. Those of
            decimals and floats are not exact for every reader, see `bounds`.
    """

    table: Table
    schema: SchemaOf
    properties: Mapping[str, str]


@dataclass(frozen=True)
class Stage:
    """One streaming query with its own checkpoint.

    Attributes:
        name: `bronze` or `bronze.<source>`, `silver`, `gold.<table>` or `serving.<table>`.
        reads: the tables it reads; none for a stage that reads a source.
        writes: its tables in the lake; every batch writes to the first.
        read: returns the stream of its input.
        write: the work of one batch.
        made_by: the settings that decide its rows.
        served: its table in the serving database or another sink; such a stage has no tables in the lake.
    """

    name: str
    reads: tuple[Table, ...]
    writes: tuple[Target, ...]
    read: Callable[[SparkSession], DataFrame] = field(repr=False)
    write: Write = field(repr=False)
    made_by: tuple[BaseModel, ...] = ()
    served: "Served | None" = None

    @cached_property
    def rules(self) -> str:
        """Return a short hash of the settings that decide its rows; empty if none do."""
        return fingerprint(*self.made_by) if self.made_by else ""

    @property
    def layer(self) -> str:
        """Return the layer of the stage; with `--once`, the stages of one layer run in parallel."""
        return self.name.split(".")[0]

    @property
    def tables(self) -> tuple[Table, ...]:
        """Return all tables of the stage, in the lake and in the sink."""
        return (*(target.table for target in self.writes), *([self.served.table] if self.served else []))


def chain(settings: Settings, made_by: Silver) -> tuple[Stage, ...]:
    """Build the stages declared in the settings."""
    lake, declared_serving = settings.places(), settings.serving
    kinds = settings.kinds(made_by.records)
    refused = with_source(QUARANTINE_SCHEMA, named=made_by.named)
    changes_read = declared_serving.served if declared_serving.mode == "idempotent" else ()

    return (
        *(_bronze(bronze_stage(name), kind, lake) for name, kind in kinds.items()),
        Stage(
            "silver",
            reads=tuple(kind.table for kind in kinds.values()),
            writes=(
                Target(SILVER, made_by.table_schema, {**_APPENDED, STATS: f"log_time,{_ORIGIN}"}),
                Target(QUARANTINE, lambda _: refused, {**_READABLE, STATS: _ORIGIN}),
                *([duplicates_target(named=made_by.named)] if made_by.deduplicate is not None else ()),
            ),
            read=_unions(settings) if made_by.named else _appends(settings, BRONZE, "silver"),
            write=silver.write(made_by),
            made_by=(
                *(made_by.parsers[name].declared for name in sorted(kinds)),
                made_by.limits,
                *made_by.rules,
                # guard: code-in-silver-rules
                *([made_by.transform.code.identity] if made_by.transform is not None else []),
                *([made_by.deduplicate] if made_by.deduplicate is not None else []),
            ),
        ),
        *(gold_stage(settings, made_by, name, lake, changes=name in changes_read) for name in settings.gold),
        *_serving(settings, lake, made_by.table_schema),
    )


def gold_stage(settings: Settings, made_by: Silver, name: str, lake: Lake, *, changes: bool = False) -> Stage:
    """Build the stage of a gold table.

    Args:
        settings: the settings.
        made_by: how silver's rows are made.
        name: the gold table.
        lake: the places of the table and its checkpoint.
        changes: True if a stage reads the table's changes.
    """
    declared = settings.gold[name]
    return Stage(
        f"gold.{name}",
        reads=(SILVER,),
        writes=(_gold_target(name, declared, made_by.table_schema, changes=changes),),
        read=_appends(settings, SILVER, f"gold.{name}", lake),
        write=gold.write(name, declared),
        made_by=(declared,),
    )


def _bronze(name: str, kind: SourceKind, lake: Lake) -> Stage:
    """Build the stage that reads a source."""
    records, mask = kind.records if kind.directory else None, kind.settings.mask
    made_by = tuple(  # guard: masked-line-bound-kept
        rule for rule in (records, mask.resolved(kind.settings.max_line) if mask is not None else None) if rule
    )
    return Stage(
        name,
        reads=(),
        writes=(bronze_target(kind.table, masked=kind.settings.mask is not None),),
        read=partial(kind.masked, version=fingerprint(*made_by)),
        write=partial(kind.write, checkpoint=lake.checkpoint(name)),
        made_by=made_by,
    )


def bronze_target(table: Table, *, masked: bool = False) -> Target:
    """Return a bronze table with its columns and properties; `masked` if its source has rules that mask data."""
    schema = StructType([*BRONZE_SCHEMA, *COLUMNS]) if masked else BRONZE_SCHEMA
    return Target(table, lambda _: schema, {**_APPENDED, STATS: _ORIGIN})


def duplicates_target(*, named: bool) -> Target:
    """Return the table of the lines that silver dropped as repeats."""
    schema = with_source(DUPLICATES_SCHEMA, named=named)
    return Target(DUPLICATES, lambda _: schema, {**_APPENDED, STATS: f"log_time,{_ORIGIN}"})


def suites(settings: Settings) -> Suites:
    """Read the suites of expectations of the configuration; empty without a directory of suites.

    Raises:
        ConfigError: a suite is invalid; the message names the file, the expectation and what is accepted.
    """
    directory = settings.quality.expectations
    bronze = map(bronze_of, settings.by_name)
    tables = (*bronze, SILVER, QUARANTINE, *(Table("gold", name) for name in settings.gold))
    return read_suites(Path(directory), tables) if directory is not None else {}


def silver_rules(
    settings: Settings, parsers: Mapping[str, Parser], declared_suites: Suites, places: Sequence[Path] = ()
) -> Silver:
    """Return how silver's rows are made: formats, time limits, the user's own code, the rules and gate of its suite.

    Args:
        settings: the settings.
        parsers: the parser of each source's log format, by the source's name.
        declared_suites: the suites.
        places: the directories in which the user's own code is looked for first.

    Raises:
        ConfigError: a rule of the suite has the name of the rule of a column, two formats declare a column with
            different types, the key of repeats names a column that silver does not have, or there is no such code.
    """
    suite = declared_suites.get(SILVER)
    if suite is not None:
        refuse_names(suite, [column_rule(name) for parser in parsers.values() for name in parser.columns])
    _refuse_other_types(parsers)
    gate = tuple(checks(settings.quality.gate, suite))
    rules = suite.rules if suite else ()
    named, deduplicate = bool(settings.sources), settings.silver.deduplicate
    _refuse_with_events(parsers, is_deduplicated=deduplicate is not None)
    if deduplicate is not None:
        refuse_key(deduplicate, {name for parser in parsers.values() for name in parser.columns}, named=named)
    name = settings.silver.transform
    own = UserTransform(find_code(name, places)) if name is not None else None
    return Silver(parsers, settings.silver.limits, rules, gate, named=named, transform=own, deduplicate=deduplicate)


def _refuse_with_events(parsers: Mapping[str, Parser], *, is_deduplicated: bool) -> None:
    """Raise ConfigError for what lines of several events cannot be combined with."""
    of_events = [source for source, parser in parsers.items() if parser.has_events]
    if not of_events:
        return
    if is_deduplicated:
        raise ConfigError(
            f"silver.deduplicate compares lines, but the lines of source {of_events[0]} have several events, by each "
            "in its log format; remove one of the two"
        )
    names = {field.name for field in EACH}
    for source, parser in parsers.items():
        for name in parser.columns:
            if name.lower() in names:
                raise ConfigError(
                    f"the log format of source {source} declares the column {name}, which silver has for lines of "
                    f"several events; give it another name, as in my_{name}: …"
                )


def _refuse_other_types(parsers: Mapping[str, Parser]) -> None:
    """Raise ConfigError if the formats of two sources declare a column of silver with different types or spellings."""
    seen: dict[str, tuple[str, StructField]] = {}
    for source, parser in parsers.items():
        for column in parser.column_fields:
            other, first = seen.setdefault(column.name.lower(), (source, column))
            if (first.name, first.dataType) != (column.name, column.dataType):
                raise ConfigError(
                    f"the log format of source {other} declares the column {first.name} as "
                    f"{first.dataType.simpleString()}, the format of source {source} declares {column.name} as "
                    f"{column.dataType.simpleString()}; they share silver's table, so give one of them another name"
                )


def _serving(settings: Settings, lake: Lake, silver_schema: SchemaOf) -> Iterator[Stage]:
    """Yield the stages that write to the serving database, or to another sink."""
    declared, most = settings.serving, int(settings.run.max_bytes_per_batch)
    if not declared.is_set:
        return
    from oncelake.serving import stream as serving  # noqa: PLC0415 - SQLAlchemy, which only a served lake needs
    from oncelake.serving.load import make_sink  # noqa: PLC0415
    from oncelake.serving.served import Served  # noqa: PLC0415

    kind, options = declared.sink_class()
    idempotent = declared.mode == "idempotent"
    for name in declared.tables:
        follows = Table("gold", name) if idempotent else SILVER
        sink = make_sink(kind, name, options)
        served = Served(
            Table("serving", name), settings.gold[name], declared.mode, follows, sink, silver_schema, declared.unheld
        )
        yield Stage(
            served.stage,
            reads=(follows,),
            writes=(),
            read=partial(serving.follow_changes, path=lake.at(follows), max_bytes=most)
            if idempotent
            else _appends(settings, follows, served.stage),
            write=serving.write(served),
            made_by=(served.declared,),
            served=served,
        )


def _gold_target(name: str, declared: GoldTable, silver_schema: SchemaOf, *, changes: bool) -> Target:
    """Return the target of a gold table. A property holds its declaration: rows of two declarations must not mix."""
    properties = {**_READABLE, STATS: LOG_TIME, DECLARATION: declared.model_dump_json(exclude_none=True)}
    properties |= {CHANGE_FEED: "true"} if changes else {}
    # Spark takes some 50 ms to derive it, and a start asks for it more than once
    schema = cache(lambda spark: gold_schema(spark, declared, silver_schema(spark)))
    return Target(Table("gold", name), schema, properties)


def _appends(
    settings: Settings, table: Table, stage: str, lake: Lake | None = None
) -> Callable[[SparkSession], DataFrame]:
    """Return the function that streams a table to a stage: first its current rows, then every later append.

    The current rows are those of the table's snapshot, which takes some jobs of Spark. Of a table with few commits, all
    appends, they are the rows of these commits. That is not so for a query whose first batch was planned within a
    snapshot or a commit: its position counts the files of the one or of the other. Spark asks for a query's first batch
    again if the query starts after it.
    """
    lake, most = lake or settings.places(), int(settings.run.max_bytes_per_batch)
    path, offsets = lake.at(table), f"{lake.checkpoint(stage)}/offsets"

    def read(spark: SparkSession) -> DataFrame:
        # guard: first-batch-as-planned
        return _stream(spark, path, most, begins_whole=lambda: _begins_whole(files_at(offsets, spark), offsets))

    return read


def _stream(spark: SparkSession, path: str, most: int, *, begins_whole: Callable[[], bool]) -> DataFrame:
    """Stream a table; `begins_whole` is False if the first batch must be planned from its snapshot again."""
    reader = spark.readStream.option("maxBytesPerTrigger", f"{most}b")
    may_count = not is_name(path) and begins_whole()
    # guard: uncompacted-table-by-commits
    if may_count and DeltaLog(files_at(path, spark), path).only_appends(most=FEW_COMMITS):
        reader = reader.option("startingVersion", "0")
    return tables.follow(reader, path)


def _unions(settings: Settings) -> Callable[[SparkSession], DataFrame]:
    """Return the function that streams the bronze tables to silver, each row with the name of its source.

    Before, the lines of silver's checkpoint are matched to the tables. A table whose source is no longer in the
    settings has no rows left to read; if it has some after all, the batch fails.
    """
    lake, most = settings.places(), int(settings.run.max_bytes_per_batch)
    checkpoint = lake.checkpoint("silver")

    def read(spark: SparkSession) -> DataFrame:
        files = files_at(checkpoint, spark)
        read_from = silver_source(settings, partial(log_at, lake, spark=spark)).fit(files, checkpoint)
        parts = []
        for name, table in read_from.items():
            source, path = name.partition(".")[2], lake.at(Table.named(name))
            begins_whole = partial(first_is_whole, files, checkpoint, table.commit_log.table_id())
            rows = _stream(spark, path, most, begins_whole=begins_whole)
            message = f"{name} has new rows, but its source is not in the settings. Put sources.{source} back"
            value = F.lit(source) if source in settings.sources else F.raise_error(F.lit(message))
            parts.append(rows.withColumn(SOURCE.name, value.cast("string")))
        return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)

    return read


def silver_source(settings: Settings, commit_log: Callable[[Table], DeltaLog]) -> DeltaSources:
    """Return the bronze tables of a lake with `sources`, as the source of silver."""

    def table(name: str) -> DeltaSource:
        return DeltaSource(name, commit_log(Table.named(name)))

    def recorded() -> Mapping[str, str]:
        metadata = commit_log(SILVER).state().metadata
        return metadata.source if metadata else {}

    declared = {str(bronze_of(source)): table(str(bronze_of(source))) for source in settings.sources}
    return DeltaSources(declared, recorded, table)


def log_at(lake: Lake, table: Table, spark: SparkSession | None, *, at_one_moment: bool = False) -> DeltaLog:
    """Return the Delta log of a table.

    Args:
        lake: the lake.
        table: the table.
        spark: needed for a catalog and for storage that is not local.
        at_one_moment: in a catalog, read the history once, so that all answers describe the same moment.
    """
    at = lake.at(table)
    if not is_name(at):
        return DeltaLog(files_at(lake.root, spark), at)
    assert spark is not None, "a catalog is read through Spark"
    return DeltaHistory(spark, at, at_one_moment=at_one_moment)


def _begins_whole(files: Files, offsets: str) -> bool:
    """Return True if a query has no planned batch, or its first one ends between two commits of its table."""
    text = files.read(f"{offsets}/0")
    if text is None:
        return not files.names(offsets)
    at = TablePosition.parse(position(text))
    return at is not None and at.is_whole
