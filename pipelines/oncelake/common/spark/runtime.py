"""Detect the Spark that oncelake runs on, and check that the exactly-once guarantee holds on it.

`session` starts and stops oncelake's own Spark. A given Spark is one that someone else started: Databricks,
spark-submit, a notebook or a program with a session. oncelake uses it with its settings, in a new session, and leaves
it running.
"""

import os
import re
import socket
from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, SparkSession

from oncelake.common.errors import ConfigError
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.versions import DELTA, NAMES, SparkLine, line_of

AUTO_LOADER = "cloudFiles"
DATABRICKS = "DATABRICKS_RUNTIME_VERSION"
# The oldest Databricks runtime with a Spark that oncelake is tested on.
_OLDEST_RUNTIME = (17, 3)
# The runtimes with a Spark on which the tests run; since 18, a version has no second number.
_TESTED_RUNTIMES = {"17.3 LTS": (17, 3), "18 LTS": (18,), "19": (19,)}
# Each of these variables selects Spark Connect. Its sessions have no JVM, and another process writes the batches.
_CONNECT = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_GATEWAY = "PYSPARK_GATEWAY_PORT"

# The settings that switch Delta on in a session.
DELTA_ON: Mapping[str, str] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
DELTA_LOG = "org.apache.spark.sql.delta.DeltaLog"
_CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def is_given() -> bool:
    """Return True if someone else started Spark for this process, or is about to."""
    return DATABRICKS in os.environ or _GATEWAY in os.environ or _active() is not None


def on_databricks() -> bool:
    """Return True on a Databricks cluster, which has its own Spark, Delta and Kafka connector."""
    return DATABRICKS in os.environ


def untested_runtime() -> list[str]:
    """Return a warning if this is a Databricks runtime with a Spark that the tests do not run on.

    `check_delta` refuses older ones.
    """
    version = os.environ.get(DATABRICKS, "")
    numbers = _numbers(version)
    if numbers < _OLDEST_RUNTIME or any(numbers[: len(tested)] == tested for tested in _TESTED_RUNTIMES.values()):
        return []
    return [
        f"this is Databricks runtime {version}; the tests run on the Spark of these only: {', '.join(_TESTED_RUNTIMES)}"
    ]


def refuse_connect() -> None:
    """Raise ConfigError if the session is or would be a Spark Connect session; call this before anything is started.

    Raises:
        ConfigError: the session is or would be a Spark Connect session.
    """
    variable = next((name for name in _CONNECT if os.environ.get(name)), None)
    active = _active()
    serverless = os.environ.get(DATABRICKS, "").startswith("client")
    if variable is None and not serverless and (active is None or hasattr(active, "_jvm")):
        return
    seen = (
        f"{variable} is set"
        if variable
        else f"{DATABRICKS} is {os.environ[DATABRICKS]}"
        if serverless
        else "the active session is one"
    )
    raise ConfigError(
        f"this Spark uses Spark Connect ({seen}), as serverless and standard compute do. There another "
        "process writes the batches of all stages in one session, so oncelake cannot guarantee that each batch counts "
        f"once. On Databricks use dedicated compute; elsewhere unset {' and '.join(_CONNECT)}"
    )


def check_gateway() -> None:
    """Raise ConfigError if a variable names a port of a Spark that is not there."""
    port = os.environ.get(_GATEWAY)
    if port is None or _active() is not None or SparkContext._gateway is not None:
        return
    try:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=5):
            pass
    except (OSError, ValueError, OverflowError):
        raise ConfigError(
            f"{_GATEWAY}={port}: no Spark listens there; unset it, and oncelake starts its own Spark"
        ) from None


def check_delta(spark: SparkSession) -> None:
    """Check that a given session has a Spark and a Delta Lake on which the guarantee holds.

    Raises:
        ConfigError: Delta is missing or not switched on, or a version does not fit; the message says what to do.
    """
    if on_databricks():
        version, oldest = os.environ[DATABRICKS], ".".join(map(str, _OLDEST_RUNTIME))
        if _numbers(version)[:2] < _OLDEST_RUNTIME:
            raise ConfigError(f"this is Databricks runtime {version}; use {oldest} LTS or later, which has Spark 4.0")
        return
    line = _line(spark)
    package = ":".join(line.delta)
    log = _class(spark, DELTA_LOG)
    if log is None:
        raise ConfigError(f"this session has no Delta Lake: start it with --packages {package}")
    delta_version = str(log.getPackage().getImplementationVersion())
    if _numbers(delta_version) < _numbers(DELTA):
        raise ConfigError(
            f"this session's Delta Lake is {delta_version}; {DELTA} or later is needed, because in older versions a "
            f"stream from a table can lose its last commit: start the session with --packages {package}"
        )
    for key, value in DELTA_ON.items():
        has = spark.conf.get(key, "") or ""
        if value not in has:
            raise ConfigError(
                f"this session has Delta Lake, but it is not switched on: {key} is {has or 'unset'}; start the session "
                f"with --conf {key}={value}"
            )


def _line(spark: SparkSession) -> SparkLine:
    line = line_of(spark.version)
    if line is None:
        raise ConfigError(
            f"this session's Spark is {spark.version}, but oncelake runs on Spark {NAMES} with its Delta Lake: use one "
            "of these, or a Databricks runtime of 17.3 LTS or later"
        )
    return line


def has_auto_loader(spark: SparkSession) -> bool:
    """Return True if Databricks' Auto Loader reads the files: on Databricks, if the session has Auto Loader."""
    if not on_databricks():
        return False
    look_up = jvm(spark).org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource
    try:
        look_up(AUTO_LOADER, spark._jsparkSession.sessionState().conf())
    except Exception:  # py4j's error for a missing data source
        return False
    return True


def check_connector(spark: SparkSession) -> None:
    """Check that a session can read Kafka.

    Raises:
        ConfigError: it has no Kafka connector.
    """
    if not has_class(spark, _CONNECTOR):
        raise ConfigError(
            "source.kind is kafka, and this session has no Kafka connector: start it with --packages "
            f"{':'.join(_line(spark).kafka)}"
        )


def check_catalog(spark: SparkSession, catalog: str) -> None:
    """Check that a catalog exists and keeps its tables.

    Raises:
        ConfigError: Spark cannot read the catalog, or loses it when this process ends.
    """
    try:
        spark.sql(f"SHOW SCHEMAS IN `{catalog}`").limit(1).collect()
    except Exception as error:
        message = str(error).splitlines()[0]
        raise ConfigError(f"lake.catalog {catalog}: Spark cannot read this catalog: {message}") from error
    implementation = spark.conf.get("spark.sql.catalogImplementation")
    if catalog == "spark_catalog" and implementation == "in-memory":
        raise ConfigError(
            "lake.catalog spark_catalog: this Spark keeps its catalog in memory and loses it when this process "
            "ends; set spark.conf.spark.sql.catalogImplementation=hive and spark.conf.spark.sql.warehouse.dir"
        )


def has_delta_log(spark: SparkSession) -> bool:
    """Return True if Delta's Java classes can be called; Databricks' own Delta hides them."""
    return has_class(spark, DELTA_LOG)


def has_class(spark: SparkSession | SparkContext, name: str) -> bool:
    """Return True if a session's JVM has a class."""
    return _class(spark, name) is not None


def applied(function: Any, *columns: Column) -> Column:
    """Return a function that one of our Java classes has made, of columns."""
    context = SparkContext._active_spark_context
    assert context is not None, "the function is of the running Spark"
    assert context._gateway is not None, "a session has a JVM"
    arguments = context._gateway.new_array(jvm(context).org.apache.spark.sql.Column, len(columns))
    for place, column in enumerate(columns):
        arguments[place] = column._jc
    return Column(function.apply(arguments))


def _class(spark: SparkSession | SparkContext, name: str) -> Any | None:
    try:
        return jvm(spark).java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    except Exception:  # py4j's error for a ClassNotFoundException
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _active() -> SparkSession | None:
    session: SparkSession | None = SparkSession.getActiveSession()
    return session
