"""Check that Java accepts a log format, before any stream starts."""

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, reason
from oncelake.common.spark.jvm import jvm
from oncelake.common.wording import count_of
from oncelake.quality.check import compiled
from oncelake.silver.parsing.events import check_each
from oncelake.silver.parsing.format import LogFormat
from oncelake.silver.parsing.pattern import groups, whole_line
from oncelake.silver.parsing.times import SPECIAL


def check(spark: SparkSession, fmt: LogFormat) -> None:
    """Compile the format's pattern, datetime patterns and zone in the same way as Spark.

    Raises:
        ConfigError: Java rejects one of them; the message says which, where and why.
    """
    _check_zone(spark, fmt.zone)
    if fmt.each is not None:
        check_each()
    if fmt.pattern is not None:
        _check_pattern(spark, fmt.pattern)
    if fmt.record is not None:
        for name in ("starts", "lines", "part", "joint"):
            if getattr(fmt.record, name) is not None:
                compiled(spark, f"record.{name}", getattr(fmt.record, name))
    of_columns = {f"columns.{name}.time": each.time for name, each in fmt.columns.items()}
    for key, patterns in {"time": fmt.time, **of_columns}.items():
        for pattern in patterns:
            if pattern not in SPECIAL:
                _check_time(spark, key, pattern)


def _check_pattern(spark: SparkSession, pattern: str) -> None:
    compiled(spark, "pattern", pattern)
    count = compiled(spark, "pattern", whole_line(pattern)).matcher("").groupCount()
    if count != groups(pattern).count:
        raise ConfigError(
            f"pattern: Java finds {count_of(count, 'group')} in {pattern!r}, oncelake finds {groups(pattern).count}; "
            "write the groups of the regular expression in a simpler way"
        )


def _check_time(spark: SparkSession, key: str, pattern: str) -> None:
    try:
        spark.sql("SELECT try_to_timestamp('x', :pattern)", {"pattern": pattern}).collect()  # runs on the driver only
    except PySparkException as error:
        raise ConfigError(
            f"{key}: Spark cannot read a time with the pattern {pattern!r}: {reason(error)}. Correct it as described "
            "in https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html"
        ) from error


def _check_zone(spark: SparkSession, zone: str) -> None:
    try:
        jvm(spark).java.time.ZoneId.of(zone)
    except PySparkException as error:
        raise ConfigError(f"zone: Java does not know {zone!r}; use an IANA name such as Europe/Paris") from error
