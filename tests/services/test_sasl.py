"""A topic behind SASL is read with a password from the environment, as docs/how-to.md says, and not without it."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

from oncelake.lab.demo.broker import Broker
from tests.support.house import House

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]  # it starts a broker of its own

LINES = [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:00 INFO two", b"broken"]
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SASL = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": f'{MODULE} username="u" password="canary" user_u="canary";',
}


def test_a_topic_behind_sasl_is_read_with_its_password(
    tmp_path: Path, house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(tmp_path / "kafka", SASL) as broker:
        client: dict[str, Any] = {"bootstrap.servers": broker.servers, "security.protocol": "SASL_PLAINTEXT"}
        client |= {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "canary"}
        admin = AdminClient(client)
        admin.create_topics([NewTopic("app-log", 1, 1)])["app-log"].result(30)
        producer = Producer(client)
        for line in LINES:
            producer.produce("app-log", line)
        assert producer.flush(30) == 0
        house.sets = ["source.kind=kafka", f"source.bootstrap_servers={broker.servers}", "source.topic=app-log"]
        house.sets += ["source.kafka.security.protocol=SASL_PLAINTEXT", "source.kafka.sasl.mechanism=PLAIN"]
        for password, code in (("wrong", 1), ("canary", 0)):
            jaas = f'{MODULE} username="u" password="{password}";'
            monkeypatch.setenv("ONCELAKE_SOURCE__KAFKA", json.dumps({"sasl.jaas.config": jaas}))
            said = house.tell(spark, "run", "--once", expect=code)
            assert "canary" not in said
            assert ("check security.protocol, sasl.mechanism and sasl.jaas.config" in said) == (code == 1)
        house.must_be(LINES)
        assert "every one exactly once" in house.tell(spark, "prove")
