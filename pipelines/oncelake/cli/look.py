"""This is where the commands are that look at a lake and change nothing."""

import json
import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from oncelake.cli.options import DEFAULT_CONF, Conf, Json, Sets, Verbose
from oncelake.cli.program import reported, stop_on_signals, warn
from oncelake.common.errors import StateError
from oncelake.common.lake import BRONZE
from oncelake.common.spark.session import spark_session
from oncelake.common.spark.settings import SparkSettings
from oncelake.engine.configuration import configured
from oncelake.engine.graph import Stage
from oncelake.engine.put_if_absent import no_hard_links, other_log_store
from oncelake.engine.settings import Settings
from oncelake.engine.start_gate import unfinished
from oncelake.engine.survey import Survey, needs_spark, survey
from oncelake.exactly_once.files_source import FilesSource
from oncelake.observe.display import watching_on
from oncelake.observe.follow import Follow
from oncelake.observe.kept import kept
from oncelake.observe.source_files import recorded_sizes, tell
from oncelake.observe.status import StageStatus, quality_lines, stage_status
from oncelake.observe.status_table import status_table
from oncelake.silver.format import LogFormat


def status(
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    watch: Annotated[bool, typer.Option("--watch", help="Go on showing it, with each batch, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="With --watch, look again after so many seconds.")] = 2.0,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Show per stage its state, last batch, rows, backlog and freshness; with --watch go on showing it."""
    stopping = threading.Event()
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        if watch:
            stop_on_signals(stopping)
            with _spark(settings, verbose=verbose) as spark:
                stop_on_signals(stopping)
                chain = kept(survey(settings, log_format, spark))
                with watching_on(console, chain, as_json=as_json) as display:
                    Follow(chain, display).go(every, stopping)
            return
        rows = _look(settings, log_format, verbose=verbose, judge=False)[0]
        warn(warning for row in rows for warning in row.warnings)
        if as_json:
            typer.echo(_json(rows))
        else:
            for line in (*status_table(rows, console.width if console.is_terminal else None), *quality_lines(rows)):
                console.print(line, highlight=False, markup=False, soft_wrap=True)


def doctor(conf: Conf = DEFAULT_CONF, sets: Sets = None, as_json: Json = False, verbose: Verbose = False) -> None:
    """Name the state of each stage, and the command that mends it; exit 1 when one may not start. Changes nothing."""
    with reported(as_json=as_json, verbose=verbose) as console:
        settings, log_format = configured(conf, sets or [])
        lake = settings.places()
        writers = [*other_log_store(lake, settings.spark), *no_hard_links(lake)]
        rows, begun = _look(settings, log_format, verbose=verbose, judge=True)
        if as_json:
            typer.echo(_json(rows, warnings=writers))
        for row in rows if not as_json else ():
            said = f"{row.stage}: {row.state}: {row.detail}" if row.may_start else row.detail
            console.print("ok " if row.may_start else "no ", said, highlight=False, markup=False, soft_wrap=True)
        warn([*writers, *(warning for row in rows for warning in row.warnings)])
        if begun:
            raise StateError(begun)
    if not all(row.may_start for row in rows):
        raise typer.Exit(1)


def _look(
    settings: Settings, log_format: LogFormat, *, verbose: bool, judge: bool
) -> tuple[list[StageStatus], str | None]:
    """Give the stages, and what was begun and not finished."""
    with _spark(settings, verbose=verbose) as spark:
        chain = survey(settings, log_format, spark)
        rows = [_row(chain, stage, settings.spark, judge=judge, verbose=verbose) for stage in chain.stages]
        return rows, unfinished(chain)


def _spark(settings: Settings, *, verbose: bool) -> AbstractContextManager[SparkSession | None]:
    return spark_session(settings.spark, verbose=verbose) if needs_spark(settings) else nullcontext()


def _row(chain: Survey, stage: Stage, spark: SparkSettings, *, judge: bool, verbose: bool) -> StageStatus:
    view = chain.view(stage)
    row = stage_status(view)
    if judge and isinstance(view.source, FilesSource):
        return replace(row, warnings=_files(chain, view.source, spark, verbose=verbose))
    return row


def _files(chain: Survey, source: FilesSource, settings: SparkSettings, *, verbose: bool) -> list[str]:
    """Say what became of the files that were read; only where one was changed is Spark asked for its old size."""
    census = source.glance()
    if census is None:
        return []
    changed = [each.path for each in census.touched]
    there = chain.spark is None and changed and chain.ledger(BRONZE).newest() is not None
    with spark_session(settings, verbose=verbose) if there else nullcontext(chain.spark) as spark:
        sizes = recorded_sizes(spark, chain.lake.at(BRONZE), changed) if spark and changed else {}
    return tell(census, sizes)


def _json(rows: list[StageStatus], **more: list[str]) -> str:
    return json.dumps({"stages": [row.to_dict() for row in rows], **more})
