"""Several sources in one lake: refuse changes of `sources` that lose or repeat lines, and isolate a failed source."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from pyspark.sql import SparkSession

from oncelake.bronze.mask import check_key
from oncelake.common.errors import ConfigError, LockedError, OncelakeError, StageError
from oncelake.common.lake import BRONZE, SILVER, Table, bronze_of, bronze_stage
from oncelake.common.spark.runtime import on_databricks
from oncelake.common.table_rows import TableRows
from oncelake.common.wording import did_you_mean
from oncelake.engine.chain import Chain, named
from oncelake.engine.graph import Stage
from oncelake.engine.markers import emptied
from oncelake.engine.settings import Settings
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.delta_sources import DeltaSources, table_ids
from oncelake.exactly_once.files import files_at
from oncelake.sources.directory.census import Census
from oncelake.sources.directory.kind import DirectoryKind
from oncelake.sources.directory.overlap import Claims
from oncelake.sources.directory.resolve import Resolve
from oncelake.sources.kind import SourceKind
from oncelake.sources.registry import shared_parts

# Why each failed source stopped, by the name of its stage.
Failed = dict[str, str]


def refused_change(chain: Chain) -> str | None:
    """Return why the sources in the settings do not fit the lake, and what to do; None if they do."""
    overlap = Claims(chain.settings.local_paths).overlap() if len(chain.settings.local_paths) > 1 else None
    if overlap is not None:
        return overlap  # guard: sources-compared-through-links
    silver = chain.silver_stage
    if silver is None:
        return None
    state = chain.commit_log(SILVER).state()
    recorded = table_ids(state.metadata.source) if state.metadata else {}
    source = chain.source(silver)
    is_named = isinstance(source, DeltaSources)
    if not is_named and state.metadata is not None and "table_id" not in state.metadata.source and recorded:
        return _without_names(recorded)
    former = source.unread(state.end) if isinstance(source, DeltaSources) else []  # guard: removed-source-read-to-end
    unread = next(iter([*former, *_never_read(chain, recorded)]), None)
    if unread is not None:
        name = unread.partition(".")[2]
        return (
            f"{unread} has lines that silver has not read, and sources.{name} is not in the settings. Put it back, "
            "run oncelake run --once, then remove it. To give up its lines, and those of other removed sources: "
            "oncelake rebuild silver --accept-loss"
        )
    if not is_named:
        return None
    states = {name: chain.commit_log(Table.named(name)).state().metadata for name in recorded}
    places = {name: metadata.source for name, metadata in states.items() if metadata}
    return next(_renamed(chain, recorded, places), None) or next(_read_twice(chain), None)


def former_sources(chain: Chain) -> list[str]:
    """Return the bronze tables of sources that are no longer in the settings, which silver has read or would read."""
    state = chain.commit_log(SILVER).state()
    recorded = table_ids(state.metadata.source) if state.metadata else {}
    source = chain.source(chain.silver_stage) if chain.silver_stage is not None else None
    former = source.former() if isinstance(source, DeltaSources) else ()
    return [*former, *_never_read(chain, recorded)]


def _never_read(chain: Chain, recorded: Collection[str]) -> Iterator[str]:  # guard: removed-source-never-read
    """Yield the bronze tables with lines whose sources are not in the settings, and that silver has never read.

    A rebuild of silver that accepts their loss makes silver after their last batch.

    Args:
        chain: the chain.
        recorded: the bronze tables that silver has read.
    """
    former = [
        table
        for table in map(_read_by, _bronze_stages(chain))
        if table is not None and table.name not in chain.settings.by_name and str(table) not in recorded
    ]
    lasts = {table: chain.commit_log(table).state().last for table in former}
    made = _made_at(chain) if lasts else None
    for table, last in lasts.items():
        if made is None:
            return
        if last is not None and last.rows_in_all and last.timestamp >= made:  # guard: accepted-loss-stays-accepted
            yield str(table)


def _bronze_stages(chain: Chain) -> list[str]:
    """Return the stages with a checkpoint; if each host has its own checkpoints, those with a bronze table."""
    lake = chain.lake
    if lake.per_host:  # guard: removed-source-of-another-host
        names = files_at(lake.root, chain.spark).names(f"{lake.root}/{BRONZE.layer}")
        return sorted(map(bronze_stage, names))
    return sorted(chain.checkpoint_files.names(lake.checkpoints))


def _read_by(stage: str) -> Table | None:
    """Return the bronze table of a stage, by the name of its checkpoint; None for another stage."""
    layer, _, name = stage.partition(".")
    table = bronze_of(name) if name else BRONZE
    return table if layer == BRONZE.layer and table.name.isidentifier() else None


def _made_at(chain: Chain) -> int | None:
    """Return when silver got its first batch, in milliseconds; 0 if there is none, None if a rebuild has emptied it."""
    log = chain.commit_log(SILVER)
    commits = [commit for commit, stands in log.newest_first() if stands and isinstance(commit, ChainCommit)]
    if not commits:
        return None if SILVER.layer in emptied(chain) else 0
    is_known = commits[-1].is_first or log.versions()[0] == 0
    return commits[-1].timestamp if is_known else 0


def refused_after(chain: Chain, before: Chain) -> str | None:
    """Return why the sources do not fit a lake that was filled by other settings, as far as these say; None if they do.

    Args:
        chain: the chain of the settings.
        before: the chain of the other settings.
    """
    if before.silver.named and not chain.silver.named:
        return _without_names([str(bronze_of(name)) for name in before.settings.by_name])
    answering = replace(chain, stages=tuple(stage for stage in chain.stages if is_comparable(chain, stage)))
    places = {
        str(stage.tables[0]): before.source(stage).identity() for stage in before.stages if is_comparable(before, stage)
    }
    recorded = [str(bronze_of(name)) for name in before.settings.by_name]
    return next(_renamed(answering, recorded, places), None)


def is_comparable(chain: Chain, stage: Stage) -> bool:
    """Return True if a stage reads a source whose identity is in its settings, and not in a broker."""
    return not stage.reads and not chain.kind(stage).needs_spark


def missing_key(chain: Chain) -> str | None:
    """Return which source lacks the key that masks its data, or has one that is too short; None if none does."""
    for kind in chain.kinds.values():
        try:
            if kind.settings.mask is not None:
                check_key(kind.settings.mask, kind.key)
        except ConfigError as error:
            return str(error)
    return None


def _without_names(recorded: Iterable[str]) -> str:
    names = ", ".join(sorted(recorded))
    return (
        f"the settings have source, but silver has read {names} as sources of their own names. Write sources instead, "
        f"with {' and '.join(sorted(name.partition('.')[2] for name in recorded))} as names"
    )


def _renamed(  # guard: source-keeps-name
    chain: Chain, recorded: Collection[str], places: dict[str, Mapping[str, str]]
) -> Iterator[str]:
    """Yield each source that silver has not read yet, and that reads what another name reads or has read.

    Args:
        chain: the chain.
        recorded: the bronze tables that silver has read.
        places: the identities of their sources, by table; each further source is added.
    """
    for stage in chain.stages:
        table = stage.tables[0]
        if stage.reads or str(table) in recorded:
            continue
        mine = chain.source(stage).identity()
        for name, place in places.items():
            if _same(place, mine):
                old, words = name.partition(".")[2], chain.kind(stage).words
                yield (
                    f"sources.{table.name} reads {words}, which {name} reads or has read: every line would count "
                    f"twice. A source keeps its name: name it {old}"
                )
        places[str(table)] = mine


def _same(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    if "path" in one and "path" in other:
        paths = [(f"{way(one['path'])}/", f"{way(other['path'])}/") for way in (str, os.path.realpath)]
        return any(first.startswith(second) or second.startswith(first) for first, second in paths)
    return bool(shared_parts(one).keys() & shared_parts(other).keys())


def _read_twice(chain: Chain) -> Iterator[str]:
    """Yield each topic that one source reads, and another one reads or has read."""
    of_topics = [stage for stage in chain.stages if not stage.reads and chain.kind(stage).has_shared_parts]
    sources = {stage.tables[0]: chain.source(stage) for stage in of_topics}
    readers: dict[str, str] = {}
    for table, source in sources.items() if len(sources) > 1 else ():
        metadata = chain.commit_log(table).state().metadata
        for identity in (source.identity(), metadata.source if metadata else {}):
            for topic_id, topic in shared_parts(identity).items():
                other = readers.setdefault(topic_id, table.name)
                if other != table.name:  # guard: topic-read-once
                    yield (
                        f"sources.{other} and sources.{table.name} both read topic {topic}, or have read it: its lines "
                        "would count twice. Let only one of them choose it, the one that has read it"
                    )


def stands_alone(chain: Chain, stage: Stage) -> bool:
    """Return True if a stage reads one source of several, so that its failure stops no other stage."""
    return not stage.reads and len(chain.settings.by_name) > 1


def try_sources(chain: Chain, check: Callable[[Stage], None], failed: Failed) -> Chain:
    """Check the stages that read a source, and return the chain without those that fail.

    Args:
        chain: the chain.
        check: raises OncelakeError if a stage cannot run.
        failed: receives why, by the stage's name.

    Raises:
        OncelakeError: the only source fails, or all sources do.
    """
    for stage in chain.stages:
        if stage.reads or stage.name in failed:
            continue
        try:
            check(stage)
        except LockedError:
            raise
        except OncelakeError as error:
            if not stands_alone(chain, stage):
                raise
            failed[stage.name] = str(error).removeprefix(f"{stage.name}: ")
    return without(chain, failed)


def unreadable(chain: Chain) -> Failed:
    """Return which sources of several cannot be read, and why, as far as this is known before Spark starts.

    Raises:
        OncelakeError: the only source cannot be read, or no source can.
    """
    failed = Failed()
    try_sources(chain, lambda stage: chain.kind(stage).check_here(), failed)
    return failed


def without(chain: Chain, failed: Failed) -> Chain:
    """Return the chain without the stages of failed sources.

    Raises:
        StageError: no source is left.
    """
    if failed and all(stage.reads or stage.name in failed for stage in chain.stages):
        raise StageError(failure_lines(failed))
    return replace(chain, stages=tuple(stage for stage in chain.stages if stage.name not in failed))


def failure_lines(failed: Failed) -> str:
    """Return one line for each failed source."""
    return "\n".join(f"{name} stopped: {why}" for name, why in failed.items())


def bronze_tables(chain: Chain) -> list[Table]:
    """Return the bronze tables that silver has read or will read: also those of removed sources."""
    source = chain.source(chain.silver_stage) if chain.silver_stage is not None else None
    if not isinstance(source, DeltaSources):
        return [BRONZE]
    return [Table.named(name) for name in (*source.declared, *source.former())]


def census_kind(settings: Settings, name: str | None, spark: Callable[[], SparkSession]) -> DirectoryKind:
    """Return the source to take a census of; without a name, the only one that has files.

    Args:
        settings: the lake's settings.
        name: the source's name; None if none was given.
        spark: returns the session; called only on Databricks, where Auto Loader may read the files.

    Raises:
        ConfigError: there is no such source, several sources have files, or nobody can count the source's files.
    """
    kind = _kind_of_files(settings, name)
    uncounted = kind.uncounted(None) or (kind.uncounted(spark()) if on_databricks() else None)
    if uncounted is not None:
        raise ConfigError(uncounted)
    assert isinstance(kind, DirectoryKind), "what can be counted has files"
    return kind


def take_census(chain: Chain, kind: DirectoryKind, rows: TableRows) -> tuple[Census, Resolve]:
    """Check every file of a source; return the census, and the object that resolves its faults."""
    ingestion = chain.ingestion(named(chain.stages, bronze_stage(kind.table.name)), rows)
    table_id = ingestion.log.table_id()
    census, positions = kind.census(ingestion)
    return census, Resolve(ingestion, kind.name, positions, kind.planned(ingestion), table_id)


def declared_kind(settings: Settings, name: str) -> SourceKind:
    """Return the source with a name.

    Raises:
        ConfigError: there is no such source.
    """
    kinds = settings.kinds()
    if name not in kinds:
        raise ConfigError(f"there is no source {name!r}; the sources are {', '.join(kinds)}{did_you_mean(name, kinds)}")
    return kinds[name]


def sources_of_files(settings: Settings) -> list[str]:
    """Return the names of the sources that have files."""
    return [name for name, kind in settings.kinds().items() if kind.uncounted(None) is None]


def _kind_of_files(settings: Settings, name: str | None) -> SourceKind:
    if name is not None:
        return declared_kind(settings, name)
    kinds, of_files = settings.kinds(), sources_of_files(settings)
    if len(of_files) > 1:
        raise ConfigError(f"several sources have files: {', '.join(of_files)}; choose one with --source")
    return kinds[next(iter(of_files or kinds))]
