"""Spark's private handles, for tests that look at the JVM's own side; the JVM itself is `oncelake.common.spark.jvm`."""

from types import SimpleNamespace
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def java_session(spark: SparkSession) -> Any:
    """Return the session's Java object."""
    return spark._jsparkSession


def hadoop_conf(spark: SparkSession) -> Any:
    """Return Hadoop's settings as the session has them."""
    return spark._jsc.hadoopConfiguration()


def cached_frames(spark: SparkSession) -> Any:
    """Return the frames that are cached, by their id."""
    return spark.sparkContext._jsc.getPersistentRDDs()


def gateway(spark: SparkSession) -> Any:
    """Return the gateway to the JVM, which makes Java's arrays and has the server that Java calls."""
    return spark.sparkContext._gateway


def callback_server(spark: SparkSession) -> Any:
    """Return the server that Java calls; None when nothing has asked for one."""
    return gateway(spark)._callback_server


def query_listeners(spark: SparkSession) -> Any:
    """Return the listeners that are told of the session's queries."""
    return spark.streams._jsqm.listListeners()


def optimized_plan(frame: DataFrame) -> str:
    """Return the optimized plan of a frame as text."""
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


def session_over(java: Any) -> Any:
    """Return what stands in for a session whose JVM is made of Python."""
    return SimpleNamespace(_jvm=java)
