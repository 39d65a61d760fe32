"""Check that Java accepts the parts of a log format, before any stream starts."""

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, reason
from oncelake.common.spark.jvm import jvm
from oncelake.common.wording import count_of
from oncelake.quality.suite_check import compiled
from oncelake.silver.parsing.pattern import groups, whole_line


def check_pattern(spark: SparkSession, pattern: str) -> None:
    """Raise ConfigError if Java does not accept a pattern of lines, or finds other groups in it."""
    compiled(spark, "pattern", pattern)
    count = compiled(spark, "pattern", whole_line(pattern)).matcher("").groupCount()
    if count != groups(pattern).count:
        raise ConfigError(
            f"pattern: Java finds {count_of(count, 'group')} in {pattern!r}, oncelake finds {groups(pattern).count}; "
            "write the groups of the regular expression in a simpler way"
        )


def check_time(spark: SparkSession, key: str, pattern: str) -> None:
    """Raise ConfigError if Spark does not accept a datetime pattern; `key` names it."""
    try:
        spark.sql("SELECT try_to_timestamp('x', :pattern)", {"pattern": pattern}).collect()  # runs on the driver only
    except PySparkException as error:
        raise ConfigError(
            f"{key}: Spark cannot read a time with the pattern {pattern!r}: {reason(error)}. Correct it as described "
            "in https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html"
        ) from error


def check_zone(spark: SparkSession, zone: str) -> None:
    """Raise ConfigError if Java does not know a zone."""
    try:
        jvm(spark).java.time.ZoneId.of(zone)
    except PySparkException as error:
        raise ConfigError(f"zone: Java does not know {zone!r}; use an IANA name such as Europe/Paris") from error
