"""This is where late lines are counted.

A line is late when, in a batch before its own, a line with a later time had been taken in already; by how much is the
time between it and the latest of those. That depends on the log and the batches alone, not on when it is asked: a log
of last year that is taken in today is as late as it was then. Lines that are out of order within a batch are not late.
"""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from oncelake.common import tables
from oncelake.common.lake import SILVER
from oncelake.engine.chain import Chain
from oncelake.gold.declaration import LOG_TIME
from oncelake.observe.report.facts import LateFacts

# The spans of lateness: from more than the one before up to so many seconds.
SPANS = {"up to a minute": 60, "up to an hour": 3600, "up to a day": 86_400, "more than a day": 2**62}


def late_lines(chain: Chain, spark: SparkSession) -> LateFacts | None:
    """Count the late lines of silver, in one look at two narrow columns for each of two passes."""
    if chain.commit_log(SILVER).newest() is None:
        return None
    rows = tables.read(spark, chain.lake.at(SILVER)).select("ingested_at", F.unix_seconds(LOG_TIME).alias("at"))
    before = Window.orderBy("ingested_at").rowsBetween(Window.unboundedPreceding, -1)
    newest = rows.groupBy("ingested_at").agg(F.max("at").alias("at"))
    known = newest.select("ingested_at", F.max("at").over(before).alias("newest"))
    late = rows.join(F.broadcast(known), "ingested_at").withColumn("late", F.col("newest") - F.col("at"))
    bounds = zip(SPANS.items(), [0, *SPANS.values()], strict=False)
    counts = [F.count_if((F.col("late") > low) & (F.col("late") <= high)).alias(name) for (name, high), low in bounds]
    found = late.agg(
        F.count(F.lit(1)).alias("lines"),
        F.max("late").alias("most"),
        F.count_distinct(F.when(F.col("late") > 0, F.col("ingested_at"))).alias("batches"),
        *counts,
    ).collect()[0]
    by = {name: int(found[name]) for name in SPANS}
    return LateFacts(int(found["lines"]), by, max(int(found["most"] or 0), 0), int(found["batches"]))
