"""Describe and change Kafka topics and consumer groups, with the Kafka client that Spark reads with."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, OncelakeError, SourceError
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.runtime import check_connector, has_class
from oncelake.common.wording import duration
from oncelake.sources.kafka.source import Topic

TIMEOUT_MS = 20_000
# The `cleanup.policy` of a topic in which a record is there until it and all before it expire.
NEVER_COMPACTED = "delete"
_PATIENCE = "default.api.timeout.ms"
_ADVICE = {
    "AuthenticationException": "; check security.protocol, sasl.mechanism and sasl.jaas.config in source.kafka",
    "AuthorizationException": "; give this user the rights to describe and to read the topic",
}
_SECRET = ("password", "jaas", "secret", "token", "key", "credential")


def describe(spark: SparkSession, client: Mapping[str, str], topics: Collection[str]) -> dict[str, Topic]:
    """Describe topics: the ID of each, and per partition the oldest offset, both ends and the leader epoch.

    Raises:
        SourceError: the broker cannot be reached or lacks one of the topics.
        ConfigError: the client refuses its settings.
    """
    with _admin(spark, client) as (kafka, admin):
        futures = admin.describeTopics(_list(spark, *topics)).topicNameValues()
        described = {}
        for topic in topics:
            with _explaining(client, topic):
                described[topic] = _done(spark, futures.get(topic))
        partitions = [
            kafka.common.TopicPartition(topic, partition.partition())
            for topic, description in described.items()
            for partition in description.partitions()
        ]
        spec, level = kafka.clients.admin.OffsetSpec, kafka.common.IsolationLevel
        epochs: dict[str, dict[str, int]] = {topic: {} for topic in topics}

        def offsets(spec: Any, level: Any) -> dict[str, dict[str, int]]:
            specs = jvm(spark).java.util.HashMap()
            for partition in partitions:
                specs.put(partition, spec)
            ends = _done(spark, admin.listOffsets(specs, kafka.clients.admin.ListOffsetsOptions(level)).all())
            by_topic: dict[str, dict[str, int]] = {topic: {} for topic in topics}
            for topic_partition in ends:
                name, partition = str(topic_partition.topic()), str(topic_partition.partition())
                by_topic[name][partition] = int(ends[topic_partition].offset())
                if ends[topic_partition].leaderEpoch().isPresent():
                    epochs[name][partition] = int(ends[topic_partition].leaderEpoch().get())
            return by_topic

        earliest = offsets(spec.earliest(), level.READ_COMMITTED)
        # the readable end first: what is committed between the requests then counts as waiting, and not as read
        latest, written = (
            offsets(spec.latest(), isolation) for isolation in (level.READ_COMMITTED, level.READ_UNCOMMITTED)
        )
        return {
            topic: Topic(
                str(description.topicId().toString()), earliest[topic], latest[topic], written[topic], epochs[topic]
            )
            for topic, description in described.items()
        }


def cleanup_policies(spark: SparkSession, client: Mapping[str, str], topics: Collection[str]) -> dict[str, str]:
    """Return the setting `cleanup.policy` of topics; a topic that this user may not ask about is left out.

    Raises:
        SourceError: the broker cannot be reached.
        ConfigError: the client refuses its settings.
    """
    with _admin(spark, client) as (kafka, admin):
        resource, policies = kafka.common.config.ConfigResource, dict[str, str]()
        resources = {topic: resource(resource.Type.TOPIC, topic) for topic in topics}
        answers = admin.describeConfigs(_list(spark, *resources.values())).values()
        for topic, config in resources.items():
            with suppress(Py4JJavaError):
                policies[topic] = str(_done(spark, answers.get(config)).get("cleanup.policy").value())
        return policies


def topic_names(spark: SparkSession, client: Mapping[str, str]) -> list[str]:
    """Return the names of all topics but Kafka's internal ones.

    Raises:
        SourceError: the broker cannot be reached.
        ConfigError: the client refuses its settings.
    """
    with _admin(spark, client) as (_, admin):
        return sorted(str(name) for name in _done(spark, admin.listTopics().names()))


def make_topic(spark: SparkSession, client: Mapping[str, str], topic: str, partitions: int) -> None:
    """Create a topic with the broker's default replication.

    Raises:
        SourceError: the broker cannot be reached or refuses.
        ConfigError: the client refuses its settings.
    """
    optional = jvm(spark).java.util.Optional
    with _admin(spark, client, topic) as (kafka, admin):
        new_topic = kafka.clients.admin.NewTopic(topic, optional.of(partitions), optional.empty())
        _done(spark, admin.createTopics(_list(spark, new_topic)).all())


def delete_topic(spark: SparkSession, client: Mapping[str, str], topic: str) -> None:
    """Delete a topic.

    Raises:
        SourceError: the broker cannot be reached or refuses.
        ConfigError: the client refuses its settings.
    """
    with _admin(spark, client, topic) as (_, admin):
        _done(spark, admin.deleteTopics(_list(spark, topic)).all())


def tell_group(
    spark: SparkSession, client: Mapping[str, str], group: str, topics: Mapping[str, Mapping[str, int]]
) -> None:
    """Set a consumer group's offsets: per topic and partition, the next offset to read.

    Raises:
        SourceError: the broker cannot be reached or refuses; it refuses while the group has members.
        ConfigError: the client refuses its settings.
    """
    with _admin(spark, client) as (kafka, admin):
        group_offsets = jvm(spark).java.util.HashMap()
        for topic, offsets in topics.items():
            for partition, offset in offsets.items():
                at = kafka.clients.consumer.OffsetAndMetadata(offset)
                group_offsets.put(kafka.common.TopicPartition(topic, int(partition)), at)
        _done(spark, admin.alterConsumerGroupOffsets(group, group_offsets).all())


@contextmanager
def _admin(spark: SparkSession, client: Mapping[str, str], topic: str = "") -> Iterator[tuple[Any, Any]]:
    """Yield Kafka's Java packages and an open admin client; convert Kafka's errors to oncelake's."""
    kafka = _packages(spark)
    try:
        admin = kafka.clients.admin.AdminClient.create(_properties(spark, client))
    except Py4JJavaError as error:
        raise ConfigError(f"source.kafka: {_without_secrets(_root(error)[1], client)}") from None
    try:
        with _explaining(client, topic):
            yield kafka, admin
    finally:
        admin.close()


@contextmanager
def _explaining(client: Mapping[str, str], topic: str) -> Iterator[None]:
    """Convert Kafka's errors to oncelake's."""
    try:
        yield
    except Py4JJavaError as error:
        raise _explained(error, client, topic) from None


def _packages(spark: SparkSession) -> Any:
    """Return Kafka's Java packages; Databricks has them under its own prefix.

    Raises:
        ConfigError: this Spark session does not have them.
    """
    for prefix in ("", "kafkashaded."):
        if has_class(spark, f"{prefix}org.apache.kafka.clients.admin.AdminClient"):
            root = jvm(spark).kafkashaded if prefix else jvm(spark)
            return root.org.apache.kafka
    check_connector(spark)
    raise ConfigError(
        "this session has a Kafka connector, but not the library org.apache.kafka:kafka-clients that it needs; add the "
        "library, for example with spark.jars.packages"
    )


def _done(spark: SparkSession, future: Any) -> Any:
    """Wait for Kafka's answer and return it."""
    return future.get(TIMEOUT_MS, jvm(spark).java.util.concurrent.TimeUnit.MILLISECONDS)


def _list(spark: SparkSession, *items: Any) -> Any:
    values = jvm(spark).java.util.ArrayList()
    for value in items:
        values.add(value)
    return values


def _properties(spark: SparkSession, client: Mapping[str, str]) -> Any:
    properties = jvm(spark).java.util.Properties()
    for key, value in {_PATIENCE: str(TIMEOUT_MS), "request.timeout.ms": "10000", **client}.items():
        if key != "isolation.level":  # the admin client takes it per request
            properties.setProperty(key, value)
    return properties


def _explained(error: Py4JJavaError, client: Mapping[str, str], topic: str) -> OncelakeError:
    name, message = _root(error)
    servers = client["bootstrap.servers"]
    if name.endswith("UnknownTopicOrPartitionException"):
        return SourceError(f"Kafka at {servers} has no topic {topic!r}; create it, or set source.topic")
    if name.endswith("UnknownMemberIdException"):
        return SourceError(
            f"Kafka at {servers}: the group has active members; set source.group_id to a group that nothing else uses"
        )
    if name.endswith("TimeoutException"):
        return SourceError(
            f"Kafka at {servers} did not answer in {duration(int(client.get(_PATIENCE, TIMEOUT_MS)) // 1000)}; "
            "check that it is running, that source.bootstrap_servers is right, and that source.kafka has the "
            "security.protocol of that port"
        )
    advice = next((text for end, text in _ADVICE.items() if name.endswith(end)), "")
    return SourceError(f"Kafka at {servers}: {name.rsplit('.', 1)[-1]}: {_without_secrets(message, client)}{advice}")


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
