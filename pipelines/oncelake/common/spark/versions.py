"""The versions of Spark that oncelake runs on, and the Java libraries that belong to each."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

# The same for all of them. Before 4.4.0, a stream from a table can lose a trailing commit.
DELTA = "4.4.0"
Artifact = tuple[str, str, str]
_STREAMS, _TRIGGER = "org.apache.spark.sql.execution.streaming", "ProcessingTimeExecutor"


@dataclass(frozen=True)
class SparkLine:
    """A line of Spark's releases, such as 4.1.

    Attributes:
        name: its first two numbers.
        connector: the version of Spark's Kafka connector; it works on all of the line, and the newest of which Maven
            Central has the token provider as well.
        clients: the version of Kafka's clients that the connector is built with.
        pool: the version of commons-pool2 that it is built with.
        trigger: Spark's class that waits for the next trigger of a query.
        javas: the oldest version of each Java that it runs on. Source: "Apache Spark Overview" in its documentation.
    """

    name: str
    connector: str
    clients: str
    pool: str
    trigger: str
    javas: tuple[str, ...] = ("17", "21")

    @property
    def delta(self) -> Artifact:
        """Return Delta Lake's artifact: organization, name and version."""
        return ("io.delta", f"delta-spark_{self.name}_2.13", DELTA)

    @property
    def kafka(self) -> Artifact:
        """Return the artifact of Spark's Kafka connector."""
        return ("org.apache.spark", "spark-sql-kafka-0-10_2.13", self.connector)

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Return all artifacts that a local Spark needs in addition to its own jars."""
        return (
            self.delta,
            ("io.delta", "delta-storage", DELTA),
            self.kafka,
            ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", self.connector),
            ("org.apache.kafka", "kafka-clients", self.clients),
            ("org.apache.commons", "commons-pool2", self.pool),
        )


LINES: Mapping[str, SparkLine] = {
    line.name: line
    for line in (
        SparkLine("4.0", "4.0.0", "3.9.0", "2.12.0", f"{_STREAMS}.{_TRIGGER}"),
        SparkLine("4.1", "4.1.1", "3.9.1", "2.12.1", f"{_STREAMS}.runtime.{_TRIGGER}"),
        # an older Java 25 can damage data: Spark's issue 55852
        SparkLine("4.2", "4.2.0", "3.9.2", "2.13.1", f"{_STREAMS}.runtime.{_TRIGGER}", ("17", "21", "25.0.3")),
    )
}
NAMES = ", ".join(LINES)
OLDEST, *_, _NEWEST = LINES.values()


def line_of(version: str) -> SparkLine | None:
    """Return the line that a version of Spark is of; None if oncelake does not run on it."""
    return LINES.get(".".join(re.findall(r"\d+", version)[:2]))


def installed() -> SparkLine:
    """Return the line of the PySpark that this Python imports; the newest one if it has none, or another one."""
    try:
        import pyspark  # noqa: PLC0415 - only the extra `local` has it
    except ImportError:
        return _NEWEST
    return line_of(pyspark.__version__) or _NEWEST
