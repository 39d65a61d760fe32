"""Access to Spark's JVM for what PySpark does not offer; Spark Connect has no such access."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jvm(spark: "SparkSession") -> Any:
    """Return py4j's view of the JVM's packages."""
    return spark._jvm


def hadoop(spark: "SparkSession", place: Any) -> tuple[Any, Any]:
    """Return Hadoop's path of a place (text or java.net.URI), and its file system with Spark's credentials."""
    path = jvm(spark).org.apache.hadoop.fs.Path(place)
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())


def file_name_encoding(spark: "SparkSession") -> str:
    """Return the encoding that a session's driver uses for file names; names outside it are not listed.

    oncelake's own Spark starts with UTF-8 if the system has it; a Spark started by someone else has its own encoding.
    """
    return str(jvm(spark).java.lang.System.getProperty("sun.jnu.encoding"))
