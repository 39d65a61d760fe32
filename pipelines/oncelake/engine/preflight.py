"""Preflight: check before a start that Spark accepts the configuration, and warn if a commit can be overwritten.

Delta requires that each version is written once, and that a second writer gets an error. Our log store ensures this
with a hard link. On a local disk, Hadoop checks whether the name is free and then renames the file. The rename replaces
a commit that another process wrote between the two steps.
"""

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from oncelake.common.errors import ConfigError, TargetAwayError
from oncelake.common.lake import SILVER, Lake, Table, is_local
from oncelake.common.spark import direct_file_system, first_use
from oncelake.common.spark.runtime import check_catalog, is_given, on_databricks
from oncelake.common.spark.settings import SparkSettings
from oncelake.engine.chain import Chain
from oncelake.engine.differences import Difference, differences, sides
from oncelake.engine.graph import DECLARATION, Stage
from oncelake.engine.markers import unfinished_rebuild
from oncelake.engine.sources import Failed, try_sources
from oncelake.engine.table_changes import refuse_altered
from oncelake.exactly_once.lease import has_lock, links_are_missing
from oncelake.gold.declaration import GoldTable
from oncelake.gold.declaration_check import check as check_gold
from oncelake.quality.suite_check import check_suite, refuse_columns
from oncelake.sources.kind import SourceKind

if TYPE_CHECKING:
    from oncelake.serving.served import Served

_REMEDY = "declare the new table under another name; it is then built from all of silver"
_CHANGE = "To build it again by the new declaration, while a run may go on with the old one: oncelake rebuild gold."


def preflight(
    spark: SparkSession,
    chain: Chain,
    *,
    passed: bool = False,
    emptied: Collection[Table] = frozenset(),
    failed: Failed | None = None,
) -> None:
    """Check the catalog, the source, the format, the suites, and every gold declaration and served table.

    Args:
        spark: the session.
        chain: the chain.
        passed: True if this configuration has passed the checks before; then only what can have changed is checked.
        emptied: the tables that a rebuild creates again, so that their columns may have other types.
        failed: receives why one source of several cannot be read; None to raise its error.

    Raises:
        ConfigError: one of them cannot work; nothing has been started.
        SourceError: the source has something that would stop Spark.
        TargetError: the serving database refuses the check.
    """
    settings = chain.settings
    if settings.lake.catalog is not None:
        check_catalog(spark, settings.lake.catalog)
    if failed is not None:
        chain = try_sources(chain, lambda stage: _check_source(spark, chain.kind(stage)), failed)
    else:
        for stage in chain.stages:
            if not stage.reads:
                _check_source(spark, chain.kind(stage))
    if not passed:
        _check_configured(spark, chain)
    check_tables(chain, emptied, spark)
    for stage in chain.stages:
        check_served_stage(spark, stage)
        with suppress(TargetAwayError):  # each batch asks again
            refused = counted_otherwise(stage) if not emptied else None  # a rebuild stops for no other table
            if refused and stage.name not in unfinished_rebuild(chain):
                raise ConfigError(refused)  # guard: served-declaration-unchanged


def check_served_stage(spark: SparkSession, stage: Stage) -> None:
    """Check the table of a stage in the serving database, if it has one.

    Raises:
        ConfigError: the table cannot be served as configured; the message says what to do.
        TargetError: the serving database refuses the check.
    """
    if stage.served is not None:
        from oncelake.serving.table_setup import check_served  # noqa: PLC0415 - SQLAlchemy, as in graph

        check_served(spark, stage.served)


def counted_otherwise(stage: Stage) -> str | None:
    """Return what to do if a served table holds counts by another declaration, see `Served.counted_otherwise`.

    Raises:
        TargetAwayError: its sink is unavailable, so it is not known what the table holds.
    """
    if stage.served is None or stage.served.follows_changes:
        return None
    return stage.served.counted_otherwise(stage.served.state().last, stage.rules)


def _check_source(spark: SparkSession, kind: SourceKind) -> None:
    kind.check(spark)
    kind.check_mask(spark)


def _check_configured(spark: SparkSession, chain: Chain) -> None:
    """Check what depends on nothing but the configuration and the versions of oncelake and Spark."""
    chain.silver.check(spark)
    schemas = {target.table: target.schema for stage in chain.stages for target in stage.writes}
    for table, suite in chain.suites.items():
        if table in schemas:  # a source that failed has none
            check_suite(spark, suite, schemas[table](spark))
            if table == SILVER:
                refuse_columns(suite, [field.name for field in chain.silver.transform_fields(spark)])
    for name, declared in chain.settings.gold.items():
        _check_declared(spark, chain, name, declared)


def check_tables(chain: Chain, emptied: Collection[Table] = frozenset(), spark: SparkSession | None = None) -> None:
    """Check the properties and columns of the existing tables.

    Args:
        chain: the chain.
        emptied: the tables that a rebuild creates again.
        spark: the session; without it, the columns of the user's own code are not checked.

    Raises:
        ConfigError: a table is set to expire its transactions, so a replayed batch would be counted twice; a gold
            table was built from another declaration; or a declared column has another type in silver's table.
    """
    for check in _table_checks(chain, emptied, spark):
        check()


def _table_checks(
    chain: Chain, emptied: Collection[Table] = frozenset(), spark: SparkSession | None = None
) -> Iterator[Callable[[], None]]:
    """Yield the checks of `check_tables`; one that fails raises ConfigError."""
    if SILVER not in emptied:
        yield partial(check_columns, chain, spark)
    for target in (target for stage in chain.stages for target in stage.writes):
        columns = target.schema(spark) if spark is not None and target.table not in emptied else None
        # guard: altering-table-change-refused
        yield partial(
            refuse_altered, target.table, chain.lake.at(target.table), chain.commit_log(target.table), columns
        )
    for name in chain.settings.gold:
        if Table("gold", name) not in emptied:
            yield partial(refuse_other_declaration, name, chain.settings.gold[name], built_as(chain, name))
    for stage in chain.stages:
        if stage.served is not None and Table("gold", stage.served.table.name) not in emptied:
            yield partial(refuse_another_order, chain, stage.served, built_as(chain, stage.served.table.name))


def refuse_other_declaration(name: str, declared: GoldTable, built: str | None) -> None:
    """Raise ConfigError if a gold table was built from another declaration.

    Args:
        name: the table's name.
        declared: its declaration in the settings.
        built: the declaration that it was built from, as JSON; None without a table.
    """
    if built is None or not is_other(declared, built):
        return
    now, before = sides(gold_differences(declared, built))
    raise ConfigError(
        f"gold.{name} is declared as {now}, but its table was built as {before}. {_CHANGE}{name}. "
        f"Or put the old one back, and {_REMEDY}"
    )


def gold_differences(declared: GoldTable, built: str) -> list[Difference]:
    """Return in which keys a declaration differs from the one that a gold table was built from."""
    return differences(json.loads(built), declared.model_dump(mode="json", exclude_none=True))


def refuse_another_order(chain: Chain, served: "Served", built: str | None) -> None:
    """Raise ConfigError if the declaration of a served gold table has another order than its table was built with.

    The key of a served row is made of the gold table's keys in their order. A served table that counts by itself is
    compared by the hash of the declaration, which depends on the order too.
    """
    name = served.table.name
    built_declaration, declared = (None if built is None else json.loads(built)), chain.settings.gold[name]
    if built is None or built_declaration is None or is_other(declared, built):
        return
    orders = {"by": declared.by} if served.follows_changes else {"by": declared.by, "measures": declared.measures}
    for part, names in orders.items():
        if [*built_declaration.get(part, ())] != [*names]:
            raise ConfigError(  # guard: served-order-unchanged
                f"gold.{name}.{part} has the order {', '.join(names)}, but its table was built with "
                f"{', '.join(built_declaration[part])}, and the rows of {served.table} depend on the order. Put the "
                f"old order back. To build it with the new one: oncelake rebuild gold.{name}"
            )


def refused_root(lake: Lake) -> str | None:  # guard: lake-root-is-no-file
    """Return why the lake's tables cannot be at its root, and what to do; None if they can, as far as is known here."""
    root = Path(lake.root)
    if not is_local(lake.root):
        return None
    place = next(path for path in (root, *root.parents) if path.exists())
    if not place.is_dir():
        return (
            f"lake.root {root}: {place} is a file, and the tables need a directory; set another directory, or move the "
            "file"
        )
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        return f"lake.root {root}: the file system of {place} is read-only; set another directory, or mount it writable"
    if not os.access(place, os.W_OK | os.X_OK):
        return f"lake.root {root}: this process may not write to {place}; set another directory, or grant it"
    disk = shutil.disk_usage(place)
    if disk.total and not disk.free:
        return f"lake.root {root}: the disk of {place} is full; free some space, or set another directory"
    return None


def refused_tables(chain: Chain) -> Iterator[str]:
    """Yield why a table does not fit the settings, and what to do, see `check_tables`."""
    for check in _table_checks(chain):
        try:
            check()
        except ConfigError as error:
            yield str(error)


def is_changed(chain: Chain, name: str) -> bool:
    """Return True if the table of a gold declaration was built from another declaration."""
    built = built_as(chain, name)
    return built is not None and is_other(chain.settings.gold[name], built)


def is_other(declared: GoldTable, built: str) -> bool:
    """Return True if a declaration is another one than a table was built from; the order of its keys does not matter.

    Args:
        declared: the declaration.
        built: the other one, as JSON.
    """
    return bool(json.loads(built) != json.loads(declared.model_dump_json(exclude_none=True)))


def built_by(chain: Chain, name: str) -> GoldTable:
    """Return the declaration that a gold table was built from; without a table, the one in the settings.

    Raises:
        ConfigError: this version of oncelake does not accept the table's declaration.
    """
    built = built_as(chain, name)
    try:
        return GoldTable.model_validate_json(built) if built is not None else chain.settings.gold[name]
    except ValidationError as error:
        raise ConfigError(
            f"gold.{name} was built as {built}, which this version does not accept: {error.errors()[0]['msg']}. To "
            f"build it again: oncelake rebuild gold.{name}"
        ) from None


def all_built_by(chain: Chain) -> dict[str, GoldTable]:
    """Return the declaration that each declared gold table was built from, see `built_by`."""
    return {name: built_by(chain, name) for name in chain.settings.gold}


def check_columns(chain: Chain, spark: SparkSession | None) -> None:
    """Raise ConfigError if silver's table has a column of the settings with another type or spelling."""
    silver = chain.silver
    own = silver.transform_fields(spark) if spark is not None else []
    by = {column.name: f"silver.transform gives {column.name} the type" for column in own}
    declared = [*silver.added_fields, *own]
    metadata = chain.commit_log(SILVER).metadata() if declared else None
    if metadata is None:
        return
    refuse_other_types(declared, StructType.fromJson(json.loads(metadata["schemaString"])), by)


def refuse_other_types(
    declared: Iterable[StructField], schema: Iterable[StructField], by: Mapping[str, str] | None = None
) -> None:
    """Raise ConfigError if silver's table has a declared column with another type or spelling.

    Args:
        declared: the columns that the settings declare.
        schema: the columns of silver's table.
        by: what declares a column, if it is not the log format.
    """
    existing = {field.name.lower(): field for field in schema}
    for field in declared:
        actual = existing.get(field.name.lower(), field)
        if (actual.name, actual.dataType) != (field.name, field.dataType):
            raise ConfigError(  # guard: typed-columns-match
                f"{(by or {}).get(field.name, f'columns.{field.name} is declared as')} "
                f"{field.dataType.simpleString()}, but "
                f"{SILVER} has the column {actual.name} of type {actual.dataType.simpleString()}. Declare it under "
                "another name, or make silver and gold again from bronze: oncelake rebuild silver"
            )


def built_as(chain: Chain, name: str) -> str | None:
    """Return the declaration that a gold table was built from; None if there is no table."""
    return chain.commit_log(Table("gold", name)).properties().get(DECLARATION)


def _check_declared(spark: SparkSession, chain: Chain, name: str, declared: GoldTable) -> None:
    """Raise ConfigError if a declaration is invalid."""
    try:
        check_gold(spark, name, declared, chain.silver.table_schema(spark))
    except ConfigError as error:
        if built_as(chain, name) is None:
            raise
        raise ConfigError(f"{error}; the existing table gold.{name} is unchanged: {_REMEDY}") from None


def other_log_store(lake: Lake, settings: SparkSettings) -> list[str]:  # guard: overwritable-commit-warned
    """Return a warning if our log store does not write the commits to a lake.

    Call this before oncelake starts its own Spark: a session that already exists counts as started by someone else.
    """
    why = _other_log_store(settings) if has_lock(lake) and not on_databricks() else None
    return [_warning(lake, why)] if why else []


def no_hard_links(lake: Lake) -> list[str]:  # guard: missing-hard-links-warned
    """Return a warning if the last process that held a lake's lock found no hard links on its file system."""
    missing = has_lock(lake) and links_are_missing(lake)
    return [_warning(lake, "its file system has no hard links; put the lake on one that has them")] if missing else []


def _warning(lake: Lake, why: str) -> str:
    return (
        f"{lake.root}: if two processes commit at the same moment, one can overwrite the other's commit. Run "
        f"`oncelake maintain` only while no other process writes to the lake. The reason: {why}"
    )


def _other_log_store(settings: SparkSettings) -> str | None:
    """Return why Spark does not write commits with our log store, and what to do; None if it does."""
    if is_given():
        active = SparkSession.getActiveSession()
        used = active.conf.get(direct_file_system.LOG_STORE, "") if active is not None else ""
        ours = used == direct_file_system.CONF[direct_file_system.LOG_STORE]
        return None if ours else "oncelake did not start this Spark, which has another log store"
    if not settings.master.startswith("local"):
        return f"with spark.master {settings.master}, Spark uses Delta's own log store"
    if first_use.compiles_at_the_start():
        return direct_file_system.replaced(settings.conf)
    return direct_file_system.why_not(settings.conf)
