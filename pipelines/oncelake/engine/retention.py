"""This is where it is asked whether a source still holds all that a stage has taken from it."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.sources.files_again import files_lost
from oncelake.common import tables
from oncelake.common.lake import SILVER, Table, place
from oncelake.engine.chain import Chain, View
from oncelake.engine.graph import Stage
from oncelake.engine.start_gate import unfinished_replay
from oncelake.exactly_once.delta_log import Standing
from oncelake.exactly_once.delta_source import DeltaSource
from oncelake.exactly_once.kafka_source import KafkaSource


def lost_for_good(chain: Chain, spark: SparkSession, stage: Stage) -> str | None:
    """Say what a stage's tables hold that its source could not give again; None when all can be had again.

    A topic that Kafka compacts may lack single records between the oldest and the newest; that is not seen here.
    """
    view = chain.view(stage)
    if isinstance(view.source, DeltaSource):
        return _fewer_rows(chain, spark, view, view.source)
    path = chain.lake.at(stage.writes[0].table)
    if chain.commit_log(stage.writes[0].table).newest() is None:
        return None
    if isinstance(view.source, KafkaSource):
        return _expired(spark, path, view.source) or _made_anew(view, view.source)
    lost = files_lost(spark, tables.read(spark, path), place(chain.settings.source.path or ""))
    more = f", and {len(lost) - 1:,} more like it" if len(lost) > 1 else ""
    return f"{lost[0]}{more}" if lost else None


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


def _made_anew(view: View, source: KafkaSource) -> str | None:
    metadata = next(iter(view.standings.values())).metadata
    was, now = (metadata.source.get("topic_id") if metadata else None), source.identity()["topic_id"]
    return f"topic {source.topic} was made anew (id {now}, lines are of {was})" if was and was != now else None


def _expired(spark: SparkSession, path: str, source: KafkaSource) -> str | None:
    earliest = source.describe().earliest
    bronze = tables.read(spark, path).groupBy("topic", "partition")
    gone = []
    for row in bronze.agg(F.min("offset").alias("oldest"), F.max("offset").alias("newest")).collect():
        if row["topic"] is None:
            return f"bronze holds lines of files, the source is topic {source.topic}"
        held_from = earliest.get(str(row["partition"])) if row["topic"] == source.topic else None
        if held_from is None or row["oldest"] < held_from:
            last = row["newest"] if held_from is None else min(row["newest"], held_from - 1)
            gone.append(f"{row['topic']}/{row['partition']}/{row['oldest']} to {last}")
    return f"Kafka no longer holds {', '.join(gone)}" if gone else None
