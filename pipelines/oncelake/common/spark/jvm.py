"""Access to Spark's JVM for what PySpark does not offer; Spark Connect has no such access."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

T = TypeVar("T")
# The classes that PySpark looks up by name for each column and each plan.
_OFTEN = (
    "PythonUtils",
    "PythonSQLUtils",
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
)
_OTHER_INTERNALS = ("java.lang.LinkageError", "java.lang.ReflectiveOperationException")


def jvm(spark: "SparkSession | SparkContext") -> Any:
    """Return py4j's view of the JVM's packages."""
    return spark._jvm


def has_other_internals(spark: "SparkSession", error: "Py4JJavaError") -> bool:
    """Return True if one of our Java classes failed because this Spark has other classes, methods or fields inside."""
    from py4j.java_gateway import is_instance_of  # noqa: PLC0415 - --help imports this module, and py4j takes long

    gateway, thrown = spark.sparkContext._gateway, error.java_exception
    return any(is_instance_of(gateway, thrown, name) for name in _OTHER_INTERNALS)


def elements(sequence: Any) -> list[Any]:
    """Return the elements of one of Scala's sequences."""
    return [sequence.apply(index) for index in range(sequence.size())]


def hadoop(spark: "SparkSession", place: Any) -> tuple[Any, Any]:
    """Return Hadoop's path of a place (text or java.net.URI), and its file system with Spark's credentials."""
    path = jvm(spark).org.apache.hadoop.fs.Path(place)
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())


def unless_missing(spark: "SparkSession", look: "Callable[[], T]") -> T | None:
    """Return what a look at a file by Hadoop returns; None if Hadoop finds no such file."""
    from py4j.java_gateway import is_instance_of  # noqa: PLC0415 - --help imports this module, and py4j takes long
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415

    try:
        return look()
    except Py4JJavaError as error:
        if not is_instance_of(spark.sparkContext._gateway, error.java_exception, "java.io.FileNotFoundException"):
            raise
        return None


def file_name_encoding(spark: "SparkSession") -> str:
    """Return the encoding that a session's driver uses for file names; names outside it are not listed.

    oncelake's own Spark starts with UTF-8 if the system has it; a Spark started by someone else has its own encoding.
    """
    return str(jvm(spark).java.lang.System.getProperty("sun.jnu.encoding"))


def keep_classes(spark: "SparkSession") -> None:
    """Keep the classes that PySpark looks up often; without it, Java searches the jars for each of them again."""
    view = jvm(spark)
    for name in _OFTEN:
        setattr(view, name, getattr(view, name))


@contextmanager
def with_conf(spark: "SparkSession", conf: Mapping[str, str]) -> Iterator[None]:
    """Set some settings of a session during the block, and then set the values that they had before."""
    before = {key: str(spark.conf.get(key)) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.set(key, old)
