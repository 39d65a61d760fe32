"""This is where it is told whose Spark the program runs on, and whether it is one that the promise holds on.

A Spark of one's own is started and ended by `session`. One that is given (Databricks, spark-submit, a notebook or a
program that has a session) is taken as it is: with its own settings, in a session beside its own, and left running.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError
from oncelake.common.spark.jars import DELTA, DELTA_SPARK, SPARK_KAFKA
from oncelake.common.spark.jvm import jvm

AUTO_LOADER = "cloudFiles"
DATABRICKS = "DATABRICKS_RUNTIME_VERSION"
# The oldest of Databricks' runtimes whose Spark is the one that this is tested on.
OLDEST_RUNTIME = (17, 3)
# Spark Connect is asked for by one of these; a session by it has no JVM, and batches are written in another process.
_CONNECT = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_GATEWAY = "PYSPARK_GATEWAY_PORT"

# What switches Delta on in a session.
DELTA_ON: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
DELTA_LOG = "org.apache.spark.sql.delta.DeltaLog"
_CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_DELTA_ARTIFACT, _KAFKA_ARTIFACT = ":".join(DELTA_SPARK), ":".join(SPARK_KAFKA)


def is_given() -> bool:
    """Tell whether somebody else has started Spark for this process, or is about to."""
    return DATABRICKS in os.environ or _GATEWAY in os.environ or _active() is not None


def on_databricks() -> bool:
    """Tell whether this is a cluster of Databricks, which has a Spark, a Delta and a Kafka connector of its own."""
    return DATABRICKS in os.environ


def refuse_connect() -> None:
    """Refuse Spark Connect, before anything is started.

    Raises:
        ConfigError: a session would be one of Spark Connect.
    """
    asked = next((name for name in _CONNECT if os.environ.get(name)), None)
    active = _active()
    serverless = os.environ.get(DATABRICKS, "").startswith("client")
    if asked is None and not serverless and (active is None or hasattr(active, "_jvm")):
        return
    seen = f"{asked} is set" if asked else f"{DATABRICKS} is {os.environ[DATABRICKS]}" if serverless else "it is one"
    raise ConfigError(
        f"this Spark is reached by Spark Connect ({seen}), as on serverless or standard compute: there a batch is "
        "written in another process, in a session that the stages share, so a batch could not be known to count once. "
        "Use dedicated compute on Databricks, or a Spark of your own (unset the variable)"
    )


def check_delta(spark: SparkSession) -> None:
    """Check that a session that is given has a Delta that the promise holds on.

    Raises:
        ConfigError: there is none, it is not switched on, or it is another version; says what to do.
    """
    if on_databricks():
        version, oldest = os.environ[DATABRICKS], ".".join(map(str, OLDEST_RUNTIME))
        if _numbers(version)[:2] < OLDEST_RUNTIME:
            raise ConfigError(f"this is Databricks runtime {version}; {oldest} LTS or later is needed, for Spark 4.0")
        return
    if not spark.version.startswith("4.0."):
        raise ConfigError(
            f"this session's Spark is {spark.version}; the chain is tested on Spark 4.0, whose Delta it needs: "
            "use a Spark 4.0, or a Databricks runtime of 17.3 LTS or later"
        )
    log = _class(spark, DELTA_LOG)
    if log is None:
        raise ConfigError(f"this session has no Delta Lake: start it with --packages {_DELTA_ARTIFACT}")
    found = str(log.getPackage().getImplementationVersion())
    if _numbers(found) < _numbers(DELTA):
        raise ConfigError(
            f"this session's Delta Lake is {found}; {DELTA} or later is needed, as a stream from a table can lose a "
            f"trailing commit before: start it with --packages {_DELTA_ARTIFACT}"
        )
    for key, wanted in DELTA_ON.items():
        has = spark.conf.get(key, "") or ""
        if wanted not in has:
            raise ConfigError(
                f"this session has Delta Lake, and it is not switched on: {key} is {has or 'unset'}; start it with "
                f"--conf {key}={wanted}"
            )


def has_auto_loader(spark: SparkSession) -> bool:
    """Tell whether files are read through Databricks' Auto Loader: on Databricks, where the session has it."""
    if not on_databricks():
        return False
    look_up = jvm(spark).org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource
    try:
        look_up(AUTO_LOADER, spark._jsparkSession.sessionState().conf())
    except Exception:  # py4j's error of a source that is not there
        return False
    return True


def check_connector(spark: SparkSession) -> None:
    """Check that a session can read Kafka.

    Raises:
        ConfigError: it has no Kafka connector.
    """
    if not has_class(spark, _CONNECTOR):
        raise ConfigError(
            f"source.kind is kafka, and this session has no Kafka connector: start it with --packages {_KAFKA_ARTIFACT}"
        )


def check_catalog(spark: SparkSession, catalog: str) -> None:
    """Check that a catalog is there, and keeps its tables.

    Raises:
        ConfigError: there is none of that name, or it forgets its tables when this process ends.
    """
    try:
        spark.sql(f"SHOW SCHEMAS IN `{catalog}`").limit(1).collect()
    except Exception as error:
        said = str(error).splitlines()[0]
        raise ConfigError(f"lake.catalog {catalog}: Spark cannot look into it: {said}") from error
    kept = spark.conf.get("spark.sql.catalogImplementation")
    if catalog == "spark_catalog" and kept == "in-memory":
        raise ConfigError(
            "lake.catalog spark_catalog: this Spark keeps its catalog in memory, and forgets it when this process "
            "ends; set spark.conf.spark.sql.catalogImplementation=hive and spark.conf.spark.sql.warehouse.dir"
        )


def has_delta_log(spark: SparkSession) -> bool:
    """Tell whether Delta can be asked for a table's files; Databricks' own Delta keeps that to itself."""
    return has_class(spark, DELTA_LOG)


def has_class(spark: SparkSession, name: str) -> bool:
    """Tell whether a session's JVM has a class."""
    return _class(spark, name) is not None


def _class(spark: SparkSession, name: str) -> Any | None:
    try:
        return jvm(spark).java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Exception:  # py4j's error of a ClassNotFoundException
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version)[:3])


def _active() -> SparkSession | None:
    found: SparkSession | None = SparkSession.getActiveSession()
    return found
