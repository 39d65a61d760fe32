"""This is where it is asked whether a source still holds all that a stage has taken from it."""

from pyspark.sql import SparkSession

from oncelake.common import tables
from oncelake.common.lake import SILVER, Table
from oncelake.engine.chain import Chain, View
from oncelake.engine.graph import Stage
from oncelake.engine.start_gate import unfinished_replay
from oncelake.exactly_once.delta_log import Standing
from oncelake.exactly_once.delta_source import DeltaSource


def lost_for_good(chain: Chain, spark: SparkSession, stage: Stage) -> str | None:
    """Say what a stage's tables hold that its source could not give again; None when all can be had again."""
    view = chain.view(stage)
    if isinstance(view.source, DeltaSource):
        return _fewer_rows(chain, spark, view, view.source)
    table = stage.writes[0].table
    if chain.commit_log(table).newest() is None:
        return None
    return chain.kind.lost(spark, tables.read(spark, chain.lake.at(table)), view.standings[table].metadata)


def _fewer_rows(chain: Chain, spark: SparkSession, view: View, source: DeltaSource) -> str | None:
    if view.stage.name != "silver":  # a gold row is of many lines
        return None
    held = sum(_rows(chain, spark, table, standing) for table, standing in view.standings.items())
    there = source.commit_log.standing().rows
    moving = view.standings[SILVER].last
    if moving is not None and unfinished_replay(chain) is not None:
        held -= moving.rows_added  # lines that are in both tables
    names = " and ".join(map(str, view.standings))
    return f"{source.name} holds {there:,} lines, {names} were made of {held:,}" if there < held else None


def _rows(chain: Chain, spark: SparkSession, table: Table, standing: Standing) -> int:
    """Return a table's rows by the chain's own count, or counted where no batch of the chain wrote them."""
    return tables.read(spark, chain.lake.at(table)).count() if standing.strange else standing.rows
