"""This is where Spark's JVM is reached for what PySpark has no words for; classic Spark alone has one."""

from typing import Any

from pyspark.sql import SparkSession


def jvm(spark: SparkSession) -> Any:
    """Give the view of the JVM's packages."""
    return spark._jvm


def hadoop(spark: SparkSession, place: Any) -> tuple[Any, Any]:
    """Give a place, as text or java.net.URI, as Hadoop's path, and its file system with Spark's own credentials."""
    path = jvm(spark).org.apache.hadoop.fs.Path(place)
    return path, path.getFileSystem(spark._jsc.hadoopConfiguration())


def file_name_encoding(spark: SparkSession) -> str:
    """Return the encoding by which a session's driver reads the names of files; a name that is not in it is not listed.

    Ours is started with UTF-8 wherever the system has it; one that is given has its own.
    """
    return str(jvm(spark).java.lang.System.getProperty("sun.jnu.encoding"))
