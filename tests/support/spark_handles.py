"""Wrap Spark's private handles for tests that inspect the JVM; the JVM itself is `oncelake.common.spark.jvm`."""

from types import SimpleNamespace
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def java_session(spark: SparkSession) -> Any:
    """Return the session's Java object."""
    return spark._jsparkSession


def hadoop_conf(spark: SparkSession) -> Any:
    """Return the session's Hadoop settings."""
    return spark._jsc.hadoopConfiguration()


def cached_frames(spark: SparkSession) -> Any:
    """Return the cached frames, by their ID."""
    return spark.sparkContext._jsc.getPersistentRDDs()


def gateway(spark: SparkSession) -> Any:
    """Return the gateway to the JVM, which creates Java arrays and has the server that Java calls."""
    return spark.sparkContext._gateway


def callback_server(spark: SparkSession) -> Any:
    """Return the server that Java calls; None if nothing has requested one."""
    return gateway(spark)._callback_server


def query_listeners(spark: SparkSession) -> Any:
    """Return the listeners of the session's queries."""
    return spark.streams._jsqm.listListeners()


def optimized_plan(frame: DataFrame) -> str:
    """Return the optimized plan of a frame as text."""
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


def first_expression(frame: DataFrame) -> Any:
    """Return the first expression of a frame's analyzed plan."""
    return frame._jdf.queryExecution().analyzed().expressions().head()


def session_over(java: Any) -> Any:
    """Return a stand-in for a session whose JVM is made of Python."""
    return SimpleNamespace(_jvm=java)
