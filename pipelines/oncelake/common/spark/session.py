"""Build the SparkSession; no other module does."""

import atexit
import logging
import os
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from rich.live import Live
from rich.spinner import Spinner

from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.explain import explain
from oncelake.common.spark import class_data, compiled, direct_file_system, first_use, s3
from oncelake.common.spark.java import java_command
from oncelake.common.spark.jvm import jvm, keep_classes
from oncelake.common.spark.launch import (
    JAVA_OPTIONS,
    end_jvm,
    java_output_to,
    jvm_is_ending,
    launch,
    wait_for_jvm,
)
from oncelake.common.spark.machine import check_machine
from oncelake.common.spark.runtime import DELTA_ON, check_delta, check_gateway, is_given, on_databricks, refuse_connect
from oncelake.common.spark.settings import SparkSettings
from oncelake.common.terminal import own_console

# The settings that the guarantee depends on. They override the configuration, which may not even name most of them.
_OWNED: Mapping[str, str] = {
    **DELTA_ON,
    # every time in a table is UTC, independent of the machine's time zone
    "spark.sql.session.timeZone": "UTC",
    # a cast or division that fails on one row returns NULL; gold/expression.py refuses expressions that still throw
    "spark.sql.ansi.enabled": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    # list the files of a directory that another stream wrote, instead of using that stream's own metadata log
    "spark.sql.streaming.fileStreamSink.ignoreMetadata": "true",
    # for duplicate keys of a map, the last one wins; Spark's default is an error
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    # bind the named values of a query as before Spark 4.1: since then, those of a query that Delta parses are not bound
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    # Spark 4.2 has a second form of a checkpoint's files, which earlier ones do not read
    "spark.sql.streaming.offsetLog.formatVersion": "1",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "false",
    # Spark 4.1 and 4.2 refuse the first batch if a kill has left the temporary file of its position
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    # a batch may finish for this long after a stop; then it is interrupted, which equals a crash
    "spark.sql.streaming.stopTimeout": "60s",
}

_DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # a batch is small compared with a warehouse's query: most of 200 partitions, the default, would be empty tasks
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Parquet's own timestamp type has statistics and is faster to write than INT96, Spark's default
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # lines rarely repeat: Parquet would look each one up in a dictionary, and drop the dictionary a megabyte later
    "spark.hadoop.parquet.enable.dictionary#value": "false",
    "spark.hadoop.parquet.enable.dictionary#message": "false",
    "spark.sql.debug.maxToStringFields": "200",
    # no record of the caller of each column expression, for error messages: it takes most of the time of such a call
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # a round of all stages uses about 110 generated classes: a cache of 100, the default, drops each before its reuse
    "spark.sql.codegen.cache.maxEntries": "1000",
    # no cache of the files that each batch of a source has read: nothing reads them again, and it grows up to 250 MB
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
}

# Settings only for a Spark on one machine; executors on other machines must be able to reach the driver.
_ALONE: Mapping[str, str] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # VACUUM starts this number of tasks; the default is 10,000
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
}

# Both go to Java's launcher, the first before the second.
_JAVA = ("spark.driver.defaultJavaOptions", JAVA_OPTIONS)
# Delta reads a table's state again after each commit of a JVM in another zone.
# Source: `allFilesInCrc.verificationMode.forceOnNonUTC` of Delta 4.4.
# In another language, Java may write a number with other digits, which oncelake does not read.
_PLACE = ("-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US")
# The garbage collector that uses least processor time on few cores; and no collection for every few MB of new classes.
_MEMORY = ("-XX:+UseParallelGC", "-XX:MetaspaceSize=256m")
# Spark makes one method of silver's whole plan. HotSpot leaves methods of more than 8,000 bytes to the interpreter,
# unless it is asked not to; silver takes twice the time then. For a thousand lines it would be time spent in vain.
_METHODS = ("-XX:-DontCompileHugeMethods",)


def build(
    settings: SparkSettings, *, app: str = "oncelake", quick: bool = False, places: s3.Places = s3.NOWHERE
) -> SparkSession:
    """Start oncelake's own Spark.

    Args:
        settings: the settings of Spark.
        app: its name.
        quick: True if the backlog is small, so that a short start is worth more than fast code.
        places: the places that it reads and writes, as some need libraries of their own.

    Raises:
        ConfigError: Java is missing or of another version, or its options are not accepted.
        OncelakeError: Spark did not start, or the Java libraries could not be downloaded.
    """
    java_command()  # Spark itself would report a missing or too old Java with a stack trace
    master, local = settings.master, settings.master.startswith("local")
    user_conf = {key: value for key, value in settings.conf.items() if key not in _JAVA}
    of_stores = s3.conf(places, user_conf)
    # On one machine the class path is enough; executors on other machines need the jars sent to them.
    paths = os.pathsep.join(filter(None, (compiled.class_path(), s3.class_path(places))))
    if local:
        own = {**_ALONE, compiled.CLASS_PATH: paths, **direct_file_system.conf(settings.conf)}
        # otherwise the Python functions of silver.transform run in the first `python3` on the path
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    else:
        own = {"spark.jars": paths.replace(os.pathsep, ","), "spark.executor.defaultJavaOptions": " ".join(_METHODS)}
    own["spark.driver.memory"] = settings.driver_memory
    own["spark.sql.warehouse.dir"] = str(_own_directory() / "warehouse")
    conf = {"spark.app.name": app, "spark.master": master, **_DEFAULTS, **of_stores, **own, **user_conf, **_OWNED}
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    options = [
        f"-Dlog4j2.configurationFile={log4j}",
        *_PLACE,
        *_MEMORY,
        *(() if quick else _METHODS),
        *(class_data.options(quick=quick) if local else ()),
    ]
    options += _java_options_of(settings)
    builder = SparkSession.builder
    for key, value in conf.items():
        builder = builder.config(key, value)
    try:
        if SparkContext._gateway is None:  # this process's JVM stays when its Spark is stopped
            SparkContext._ensure_initialized(gateway=launch(conf, options))
        with _own_interrupt():
            SparkContext.getOrCreate(SparkConf().setAll([*conf.items()]))
        session: SparkSession = builder.getOrCreate()
    except OncelakeError:
        raise
    except Exception as error:
        raise OncelakeError(f"Spark did not start with master {master}: {explain(error)}") from error
    keep_classes(session)
    return session


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Keep a handler for Ctrl-C that this process has installed.

    PySpark replaces it by one that asks the JVM to cancel all jobs, on a connection that waits for the answer to an
    interrupted call: the two answers are mixed up, and the command ends with an error instead of the interrupt.
    """
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not signal.default_int_handler and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def take(settings: SparkSettings, *, app: str = "oncelake") -> SparkSession:
    """Return a new session of the given Spark; the existing session keeps its settings.

    Raises:
        ConfigError: the guarantee does not hold on this Spark, or a setting cannot be changed any more.
        OncelakeError: Spark did not start.
    """
    check_gateway()
    builder, conf = SparkSession.builder.appName(app), {**settings.conf, **_OWNED}
    if SparkSession.getActiveSession() is None and not on_databricks():  # spark-submit has no session yet
        for key, value in conf.items():
            builder = builder.config(key, value)
    try:
        existing: SparkSession = builder.getOrCreate()
    except Exception as error:
        raise OncelakeError(f"Spark did not start: {explain(error)}") from error
    check_delta(existing)
    session: SparkSession = existing.newSession()
    for key, value in conf.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
        elif key in settings.conf and session.conf.get(key, None) != value:
            raise ConfigError(
                f"spark.conf.{key} cannot be set on a Spark that is already running; set it where that Spark is "
                "started, or remove it"
            )
    return session


def _java_options_of(settings: SparkSettings) -> list[str]:
    """Return the Java options that the user adds, each without quotes.

    Raises:
        ConfigError: they cannot be split, or one of them sets the heap.
    """
    options = []
    for key in _JAVA:
        try:
            options += shlex.split(settings.conf.get(key, ""))
        except ValueError as error:
            raise ConfigError(
                f"spark.conf.{key} cannot be split into options: {str(error).lower()}; check its quotes"
            ) from None
    heap = next((option for option in options if option.startswith("-Xmx")), None)
    if heap is not None:
        raise ConfigError(f"{heap}: the heap is set by spark.driver_memory; set that, and remove the option")
    return options


def _leave_stopping_to_us(spark: SparkSession) -> None:
    """Make the JVM ignore SIGTERM, so that after a signal to the whole process group, batches end before Spark does.

    PySpark already keeps SIGINT from the JVM. The JVM still ends with this process: PySpark's gateway stops at the end
    of its standard input.
    """
    with suppress(Exception):  # another JVM may lack sun.misc; then SIGTERM to the group equals a crash
        misc = jvm(spark).sun.misc
        misc.Signal.handle(misc.Signal("TERM"), misc.SignalHandler.SIG_IGN)


def spark_log() -> Path:
    """Return the file for Spark's output while a command runs."""
    return _own_directory() / "spark.log"


@cache
def _own_directory() -> Path:
    """Create this process's directory for temporary files, in which nobody else can put a link under a known name.

    It is removed when the process ends, unless a file was kept in it.
    """
    directory = Path(tempfile.mkdtemp(prefix=f"oncelake-{os.getpid()}-"))  # guard: private-temporary-directory
    atexit.register(_remove_if_empty, directory)
    return directory


def _remove_if_empty(directory: Path) -> None:
    with suppress(OSError):
        directory.rmdir()


@contextmanager
def spark_session(
    settings: SparkSettings, *, verbose: bool, quick: bool = False, places: s3.Places = s3.NOWHERE
) -> Iterator[SparkSession]:
    """Yield a session of oncelake's own Spark, which stops at the end of the block, or of a given Spark.

    Unless `verbose` is set, the output of oncelake's own JVM goes to a file, which is kept if the command fails. For
    `quick` and `places`, see `build`.

    Raises:
        ConfigError: the guarantee does not hold on this Spark; the message says why.
        OncelakeError: Spark did not start.
    """
    refuse_connect()
    if is_given():
        yield take(settings)
        return
    check_machine(settings)  # guard: machine-can-run-spark
    if settings.master.startswith("local"):
        first_use.prepare()
    with _jvm_ends_at_ctrl_c():
        yield from _own_session(settings, verbose=verbose, quick=quick, places=places)


@contextmanager
def _jvm_ends_at_ctrl_c() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:  # a call that was interrupted still waits for its answer, so Spark hears no other call
        end_jvm()
        wait_for_jvm()
        spark_log().unlink(missing_ok=True)
        raise


def _own_session(settings: SparkSettings, *, verbose: bool, quick: bool, places: s3.Places) -> Iterator[SparkSession]:
    log = spark_log()
    with nullcontext() if verbose else _spinner(), nullcontext() if verbose else java_output_to(log):
        spark = build(settings, quick=quick, places=places)
    _leave_stopping_to_us(spark)
    try:
        yield spark
    finally:
        with suppress(Exception):  # the JVM may have ended already; the command's own error reports that
            if not jvm_is_ending():
                _stop(spark)
    log.unlink(missing_ok=True)


def _stop(spark: SparkSession) -> None:
    """Stop Spark, and do not wait for PySpark's accumulators: their server asks only twice a second whether to end."""
    context = spark.sparkContext
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        context._accumulatorServer = None  # type: ignore[assignment]
        threading.Thread(target=server.shutdown, daemon=True).start()
    spark.stop()


@contextmanager
def _spinner() -> Iterator[None]:
    """Show on the terminal, until the block ends, that Spark is starting; show nothing if stderr is not a terminal."""
    with own_console() as console:
        if console is None:
            yield
            return
        ascii_only = console.options.ascii_only
        text = f"starting Spark {'...' if ascii_only else '…'}"
        spinner = Spinner("line" if ascii_only else "dots", text=text, style="dim")
        with Live(spinner, console=console, transient=True, redirect_stdout=False, redirect_stderr=False):
            yield


def quiet_libraries() -> None:
    """Stop PySpark's JSON about a failed analysis, and py4j's tracebacks; the command's own error line is enough."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # py4j logs a call interrupted by the JVM's end to the root logger; adding the same filter twice has no effect
    logging.getLogger().addFilter(_not_of_py4j)


def _not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"
