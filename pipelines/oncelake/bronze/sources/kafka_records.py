"""Read records of Kafka topics, and compare them with the rows that bronze has of them."""

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.records import why_not_on_class_path
from oncelake.common.spark.runtime import on_databricks

_READER = "oncelake.Topics"

def format_of(spark: SparkSession) -> str:
    """Return the name of Spark's source for topics.

    Ours is Spark's own, and reads records with any timestamp. Spark's own fails on one that is too large. It is used
    where our classes are not, and on Databricks, whose connector has other classes.
    """
    return "kafka" if on_databricks() or why_not_on_class_path(spark, _READER, "") is not None else _READER
