"""This is where the command is that proposes a suite."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from oncelake.cli.options import DEFAULT_CONF, Conf, Sets, Verbose
from oncelake.cli.program import reported
from oncelake.common import tables
from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.lake import BRONZE, SILVER, Table
from oncelake.common.spark.session import spark_session
from oncelake.engine.configuration import configured, format_places
from oncelake.engine.settings import Settings
from oncelake.engine.survey import survey
from oncelake.quality.suggest import suggest_bronze, suggest_silver
from oncelake.silver.format import load_format
from oncelake.silver.transform import is_accepted, parse

_TABLES = {str(table): table for table in (SILVER, BRONZE)}


def suggest(
    table: Annotated[str, typer.Argument(help="silver.access_log or bronze.access_log.")] = str(SILVER),
    conf: Conf = DEFAULT_CONF,
    sets: Sets = None,
    rows: Annotated[int, typer.Option(min=1, help="How many rows to look at.")] = 100_000,
    verbose: Verbose = False,
) -> None:
    """Propose a suite for a table as JSON to edit; for bronze also say which log format fits best."""
    with reported(as_json=False, verbose=verbose):
        settings, log_format = configured(conf, sets or [])
        if table not in _TABLES:
            raise ConfigError(f"a suite is proposed for {' or '.join(_TABLES)}, not for {table}")
        with spark_session(settings.spark, verbose=verbose) as spark:
            chain = survey(settings, log_format, spark)
            if chain.ledger(_TABLES[table]).newest() is None:
                raise OncelakeError(f"there is no table {table} yet: run the chain first")
            found = tables.read(spark, chain.lake.at(_TABLES[table])).limit(rows).persist()
            try:
                suite = _suite(found, _TABLES[table], settings, conf)
            finally:
                found.unpersist()
        typer.echo(json.dumps(suite, indent=2, ensure_ascii=False))


def _suite(rows: DataFrame, table: Table, settings: Settings, conf: Path) -> dict[str, Any]:
    if table == SILVER:
        return {"name": str(table), "expectations": suggest_silver(rows)}
    formats = dict(sorted(_formats(rows, settings, conf), key=lambda each: -each[1]))
    return {"name": str(table), "expectations": suggest_bronze(rows), "meta": {"formats": formats}}


def _formats(rows: DataFrame, settings: Settings, conf: Path) -> Iterator[tuple[str, float]]:
    """Give the share of lines that each log format takes apart."""
    places = format_places(conf)
    for name in sorted({path.stem for place in places for path in place.glob("*.yaml")}):
        parsed = parse(rows, load_format(name, places), settings.silver)
        (share,) = parsed.agg(F.avg(F.when(is_accepted(), 1.0).otherwise(0.0))).collect()[0]
        yield name, round(share or 0.0, 4)
