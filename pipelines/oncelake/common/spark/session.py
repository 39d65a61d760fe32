"""This is the only place that builds a SparkSession."""

import logging
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import SparkSession
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner

from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.spark import class_data, direct_file_system, jars
from oncelake.common.spark.java import java_command
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.launch import JAVA_OPTIONS, launch
from oncelake.common.spark.runtime import DELTA_ON, check_delta, is_given, on_databricks, refuse_connect
from oncelake.common.spark.settings import SparkSettings

# What the guarantee rests on; a configuration that names one of these is refused by the settings.
OWNED: Mapping[str, str] = {
    **DELTA_ON,
    # every time in a table is UTC, whatever the machine's zone
    "spark.sql.session.timeZone": "UTC",
    # a cast or a division that fails on one row gives NULL there; gold/expression.py refuses what throws all the same
    "spark.sql.ansi.enabled": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # a directory that another stream wrote is listed file by file like any other, not by that stream's own list
    "spark.sql.streaming.fileStreamSink.ignoreMetadata": "true",
    # of equal keys of a map the last wins; Spark's own default throws
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    # a batch that is being stopped may finish; then it is interrupted, which equals a crash
    "spark.sql.streaming.stopTimeout": "60s",
}

DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # a batch is small beside a warehouse's query: 200 partitions would be 200 tasks of nothing
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Parquet's own type for a time, which has statistics and takes less time to write than Spark's default, INT96
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # a line is seldom said twice: looking each up in a dictionary that is thrown away a megabyte later is for nothing
    "spark.hadoop.parquet.enable.dictionary#value": "false",
    "spark.hadoop.parquet.enable.dictionary#message": "false",
    "spark.sql.debug.maxToStringFields": "200",
    # a round of all stages uses some 110 generated classes: of 100, the default, each is gone before it is used again
    "spark.sql.codegen.cache.maxEntries": "1000",
}

# Of a Spark on this machine alone; executors elsewhere must reach the driver.
_ALONE: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # VACUUM makes as many tasks as this says, 10,000 where it says nothing
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
}

# The first are taken before the second; both are said to Java's launcher.
_JAVA = ("spark.driver.defaultJavaOptions", JAVA_OPTIONS)
# The collector that takes least processor time on few cores; and no collection for each few MB of classes more.
_MEMORY = ("-XX:+UseParallelGC", "-XX:MetaspaceSize=256m")


def build(settings: SparkSettings, *, app: str = "oncelake") -> SparkSession:
    """Start a Spark of one's own.

    Raises:
        ConfigError: Java is missing or of another version, or its options cannot be taken.
        OncelakeError: Spark did not start.
    """
    java_command()  # Spark's own word on a missing or too old Java is a stack trace
    master, local = settings.master, settings.master.startswith("local")
    # On one machine the class path is enough; executors elsewhere need the jars sent to them.
    if local:
        paths = direct_file_system.class_path()
        own = {**_ALONE, direct_file_system.CLASS_PATH: paths, **direct_file_system.conf(settings.conf)}
    else:
        own = {"spark.jars": jars.class_path().replace(os.pathsep, ",")}
    own["spark.driver.memory"] = settings.driver_memory
    own["spark.sql.warehouse.dir"] = str(Path(tempfile.gettempdir()) / f"oncelake-{os.getpid()}-warehouse")
    given = {key: value for key, value in settings.conf.items() if key not in _JAVA}
    conf = {"spark.app.name": app, "spark.master": master, **DEFAULTS, **own, **given, **OWNED}
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    options = [f"-Dlog4j2.configurationFile={log4j}", *_MEMORY, *(class_data.options() if local else ())]
    options += _java_options_of(settings)
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        if SparkContext._gateway is None:  # a JVM of this process stays when its Spark is stopped
            SparkContext._ensure_initialized(gateway=launch(conf, options))
        session: SparkSession = builder.getOrCreate()
    except OncelakeError:
        raise
    except Exception as error:
        raise OncelakeError(f"Spark did not start with master {master}: {_why(error)}") from error
    return session


def take(settings: SparkSettings, *, app: str = "oncelake") -> SparkSession:
    """Take the Spark that is given, as a session beside the one that is there; its settings stay as they are.

    Raises:
        ConfigError: it is set up so that the promise does not hold on it, or a setting cannot be given to it any more.
        OncelakeError: Spark did not start.
    """
    builder, wanted = SparkSession.builder.appName(app), {**settings.conf, **OWNED}
    if SparkSession.getActiveSession() is None and not on_databricks():  # spark-submit: its session is yet to be made
        for key, value in wanted.items():
            builder = builder.config(key, value)
    try:
        given: SparkSession = builder.getOrCreate()
    except Exception as error:
        raise OncelakeError(f"Spark did not start: {_why(error)}") from error
    check_delta(given)
    session: SparkSession = given.newSession()
    for key, value in wanted.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
        elif key in settings.conf and session.conf.get(key, None) != value:
            raise ConfigError(
                f"spark.conf.{key} cannot be set on a Spark that is already running; set it where that is "
                "started, or leave it out"
            )
    return session


def _why(error: Exception) -> str:
    """Give what Java says, which py4j puts behind a line of its own."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString()).splitlines()[0]
    return str(error).splitlines()[0]


def _java_options_of(settings: SparkSettings) -> list[str]:
    """Return the options that the user adds, each without its quotes."""
    options = []
    for key in _JAVA:
        try:
            options += shlex.split(settings.conf.get(key, ""))
        except ValueError as error:
            raise ConfigError(f"spark.conf.{key} cannot be split into options: {str(error).lower()}") from None
    heap = next((each for each in options if each.startswith("-Xmx")), None)
    if heap is not None:
        raise ConfigError(f"the heap is set by spark.driver_memory, not by {heap}; set that, and take the option out")
    return options


@contextmanager
def java_output_to(log: Path) -> Iterator[None]:
    """Send what the JVM prints on its own to a file while it is being started.

    The JVM inherits the two descriptors; Python's own streams are put back afterwards. Without this,
    its warnings stand between the lines that people, or a program that asked for JSON, read.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        os.dup2(saved[0], 1)
        os.dup2(saved[1], 2)
        for descriptor in (target, *saved):
            os.close(descriptor)


def leave_stopping_to_us(spark: SparkSession) -> None:
    """Make the JVM deaf to SIGTERM, so that a signal to the whole group ends batches, not Spark under them.

    SIGINT is already kept from it by PySpark. The JVM still ends with this process: PySpark's gateway
    stops at the end of its standard input.
    """
    with suppress(Exception):  # another JVM may not offer sun.misc; then a group's SIGTERM equals a crash
        misc = jvm(spark).sun.misc
        misc.Signal.handle(misc.Signal("TERM"), misc.SignalHandler.SIG_IGN)


def spark_log() -> Path:
    """Give the file that takes what Spark says while a command runs."""
    return Path(tempfile.gettempdir()) / f"oncelake-{os.getpid()}-spark.log"


@contextmanager
def spark_session(settings: SparkSettings, *, verbose: bool) -> Iterator[SparkSession]:
    """Give a Spark that lives as long as one command, or a session of the one that is given.

    What a JVM of one's own says goes to a file, which stays when the command fails.

    Raises:
        ConfigError: the promise does not hold on this Spark; says why.
    """
    refuse_connect()
    if is_given():
        yield take(settings)
        return
    log = spark_log()
    with nullcontext() if verbose else _showing("starting Spark"), nullcontext() if verbose else java_output_to(log):
        spark = build(settings)
    leave_stopping_to_us(spark)
    try:
        yield spark
    finally:
        with suppress(Exception):  # the JVM may be gone already; the command's own error says so
            spark.stop()
    log.unlink(missing_ok=True)


@contextmanager
def _showing(what: str) -> Iterator[None]:
    """Show a line on the terminal that is gone when the work has ended; nothing where errors go elsewhere.

    It writes to a descriptor of its own, as a JVM that is being started has this process's two for a time.
    """
    if not sys.stderr.isatty():
        yield
        return
    with os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding=sys.stderr.encoding) as file:
        console = Console(file=file)
        if console.is_dumb_terminal:
            yield
            return
        ascii_only = console.options.ascii_only
        spinner = Spinner("line" if ascii_only else "dots", text=f"{what} {'...' if ascii_only else '…'}", style="dim")
        with Live(spinner, console=console, transient=True, redirect_stdout=False, redirect_stderr=False):
            yield


def quiet_libraries() -> None:
    """Keep PySpark from printing a failed analysis as JSON, and py4j a traceback, before the one line that says it."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # py4j logs a call that the JVM's end broke off to the root logger; one function is added once, however often asked
    logging.getLogger().addFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"
