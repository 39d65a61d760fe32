"""This is where Kafka is asked what a topic is and holds, by the client that Spark reads it with."""

from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from pipelines.errors import ConfigError, OncelakeError, SourceError
from pipelines.exactly_once.kafka_source import Topic
from pipelines.jvm import jvm

TIMEOUT_MS = 20_000
_SECRET = ("password", "jaas", "secret", "token", "key", "credential")


def describe(spark: SparkSession, client: Mapping[str, str], topic: str) -> Topic:
    """Describe a topic: its id, and per partition the oldest offset and the next committed one.

    Raises:
        SourceError: the broker cannot be reached or has no such topic.
        ConfigError: the client refuses its settings.
    """
    kafka: Any = jvm(spark).org.apache.kafka
    try:
        admin = kafka.clients.admin.AdminClient.create(_properties(spark, client))
    except Py4JJavaError as error:
        raise ConfigError(f"source.kafka: {_without_secrets(_root(error)[1], client)}") from None
    try:
        return _ask(spark, kafka, admin, topic)
    except Py4JJavaError as error:
        raise _explained(error, client, topic) from None
    finally:
        admin.close()


def _ask(spark: SparkSession, kafka: Any, admin: Any, topic: str) -> Topic:
    java: Any = jvm(spark).java
    seconds = java.util.concurrent.TimeUnit.MILLISECONDS
    names = java.util.ArrayList()
    names.add(topic)
    description = admin.describeTopics(names).allTopicNames().get(TIMEOUT_MS, seconds).get(topic)
    partitions = [each.partition() for each in description.partitions()]
    committed = kafka.clients.admin.ListOffsetsOptions(kafka.common.IsolationLevel.READ_COMMITTED)

    def offsets(spec: Any) -> dict[str, int]:
        wanted = java.util.HashMap()
        for number in partitions:
            wanted.put(kafka.common.TopicPartition(topic, number), spec)
        found = admin.listOffsets(wanted, committed).all().get(TIMEOUT_MS, seconds)
        return {str(each.partition()): int(found[each].offset()) for each in found}

    spec = kafka.clients.admin.OffsetSpec
    return Topic(description.topicId().toString(), offsets(spec.earliest()), offsets(spec.latest()))


def _properties(spark: SparkSession, client: Mapping[str, str]) -> Any:
    properties = jvm(spark).java.util.Properties()
    for key, value in {"default.api.timeout.ms": str(TIMEOUT_MS), "request.timeout.ms": "10000", **client}.items():
        if key != "isolation.level":  # the admin client takes it with each question
            properties.setProperty(key, value)
    return properties


def _explained(error: Py4JJavaError, client: Mapping[str, str], topic: str) -> OncelakeError:
    name, message = _root(error)
    servers = client["bootstrap.servers"]
    if name.endswith("UnknownTopicOrPartitionException"):
        return SourceError(f"Kafka at {servers} has no topic {topic!r}; make it, or set source.topic")
    if name.endswith("TimeoutException"):
        return SourceError(
            f"Kafka at {servers} did not answer in {TIMEOUT_MS // 1000} s; "
            "is it running, and is source.bootstrap_servers right?"
        )
    return SourceError(f"Kafka at {servers}: {name.rsplit('.', 1)[-1]}: {_without_secrets(message, client)}")


def _root(error: Py4JJavaError) -> tuple[str, str]:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getClass().getName()), str(cause.getMessage())


def _without_secrets(text: str, client: Mapping[str, str]) -> str:
    for key, value in client.items():
        if value and any(word in key.lower() for word in _SECRET):
            text = text.replace(value, "***")
    return text
