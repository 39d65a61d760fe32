"""This is where it is asked whether a source still holds all that a stage has taken from it."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipelines import tables
from pipelines.chain import Stage
from pipelines.exactly_once.delta_source import DeltaSource
from pipelines.exactly_once.kafka_source import KafkaSource
from pipelines.jvm import hadoop, jvm
from pipelines.lake import SILVER
from pipelines.refusal import unfinished_replay
from pipelines.survey import Survey, View


def lost_for_good(survey: Survey, spark: SparkSession, stage: Stage) -> str | None:
    """Say what a stage's tables hold that its source could not give again; None when all can be had again.

    A topic that Kafka compacts may lack single records between the oldest and the newest; that is not seen here.
    """
    view = survey.view(stage)
    if isinstance(view.source, DeltaSource):
        return _fewer_rows(survey, view, view.source)
    if view.standings[stage.writes[0].table].last is None:
        return None
    path = survey.lake.at(stage.writes[0].table)
    if isinstance(view.source, KafkaSource):
        return _expired(spark, path, view.source) or _made_anew(view, view.source)
    return _gone_or_shorter(spark, path)


def _fewer_rows(survey: Survey, view: View, source: DeltaSource) -> str | None:
    if view.stage.name != "silver":  # a gold row is of many lines
        return None
    held, there = sum(standing.rows for standing in view.standings.values()), source.ledger.standing().rows
    moving = view.standings[SILVER].last
    if moving is not None and unfinished_replay(survey) is not None:
        held -= moving.rows_added  # lines that are in both tables
    tables = " and ".join(map(str, view.standings))
    return f"{source.name} holds {there:,} lines, {tables} were made of {held:,}" if there < held else None


def _made_anew(view: View, source: KafkaSource) -> str | None:
    note = next(iter(view.standings.values())).note
    was, now = (note.source.get("topic_id") if note else None), source.identity()["topic_id"]
    return f"topic {source.topic} was made anew (id {now}, lines are of {was})" if was and was != now else None


def _expired(spark: SparkSession, path: str, source: KafkaSource) -> str | None:
    earliest = source.describe().earliest
    bronze = tables.read(spark, path).groupBy("topic", "partition")
    gone = []
    for row in bronze.agg(F.min("offset").alias("oldest"), F.max("offset").alias("newest")).collect():
        held_from = earliest.get(str(row["partition"])) if row["topic"] == source.topic else None
        if held_from is None or row["oldest"] < held_from:
            last = row["newest"] if held_from is None else min(row["newest"], held_from - 1)
            gone.append(f"{row['topic']}/{row['partition']}/{row['oldest']} to {last}")
    return f"Kafka no longer holds {', '.join(gone)}" if gone else None


def _gone_or_shorter(spark: SparkSession, path: str) -> str | None:
    files = tables.read(spark, path).select("file", "file_size").distinct().orderBy("file")
    short = [reason for row in files.toLocalIterator() if (reason := _is_short(spark, row["file"], row["file_size"]))]
    more = f", and {len(short) - 1} more like it" if len(short) > 1 else ""
    return f"{short[0]}{more}" if short else None


def _is_short(spark: SparkSession, uri: str | None, size: int) -> str | None:
    if uri is None:
        return "bronze holds lines of Kafka, the source is a directory"
    where, store = hadoop(spark, jvm(spark).java.net.URI(uri))
    if not store.exists(where):
        return f"{uri} is gone"
    length = int(store.getFileStatus(where).getLen())
    return f"{uri} had {size:,} bytes and has {length:,}" if length < size else None
