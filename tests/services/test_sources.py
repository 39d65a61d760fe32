"""A topic, complete text files and growing JSON files in one lake: each line counts once, and one may be away."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError, StateError
from oncelake.lab.demo.server import free_port
from tests.support.broker import Broker
from tests.support.crashing import crashed
from tests.support.several import Several

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

LINES = [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:09:59 error two", b"broken"]
JSON = [b'{"time": "2017-07-30T14:09:08Z", "level": "error", "message": "json"}', b"broken"]
STEPS = (
    "_checkpoints/bronze.orders/offsets/*",
    "bronze/orders/_delta_log/*.json",
    "_checkpoints/silver/offsets/*",
    "silver/access_log/_delta_log/*.json",
    "silver/quarantine/_delta_log/*.json",
    "_checkpoints/silver/commits/*",
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def lake(tmp_path: Path) -> Several:
    return Several.at(tmp_path, "access_log")


def topic(servers: str) -> dict[str, Any]:
    return {
        "kind": "kafka",
        "bootstrap_servers": servers,
        "topic": "orders",
        "kafka": {"default.api.timeout.ms": "4000", "request.timeout.ms": "3000"},
    }


@pytest.mark.long  # tests/streaming/test_sources.py crashes at each step within one process
@pytest.mark.timeout(1200)
def test_a_source_comes_and_goes_and_the_proof_holds_after_every_kill(
    broker: Broker, lake: Several, spark: SparkSession
) -> None:
    broker.make_topic("orders", partitions=2)
    orders = topic(broker.servers)
    json = {"kind": "tail", "path": str(lake.logs / "json"), "format": "json"}
    lake.write("access_log/0.log", *LINES)
    lake.run(spark)
    lake.write("json/0.log", *JSON)
    lake.declare("access_log", orders=orders, json=json)
    for number, step in enumerate(STEPS):
        broker.send("orders", LINES)
        lake.write(f"access_log/k{number}.log", *LINES)
        with crashed(spark, step, before=number % 2 == 0), pytest.raises((StageError, Py4JJavaError)):
            lake.run(spark)
        assert lake.doubts(spark) == []
    lake.run(spark)
    kills = len(STEPS)
    assert lake.counts() == {"access_log": 2 * (kills + 1), "orders": 2 * kills, "json": 1}
    lake.declare("access_log", orders=orders)
    with (lake.logs / "json" / "0.log").open("ab") as file:
        file.write(b"".join(line + b"\n" for line in JSON))
    broker.send("orders", LINES, partition=1)
    with crashed(spark, "_checkpoints/silver/offsets/*", before=False), pytest.raises((StageError, Py4JJavaError)):
        lake.run(spark)
    assert lake.doubts(spark) == []
    lake.run(spark)
    lake.declare("access_log", orders={**orders, "bootstrap_servers": f"127.0.0.1:{free_port()}"}, json=json)
    with pytest.raises(StageError, match=r"bronze\.orders stopped: Kafka at .* did not answer"):
        lake.run(spark)
    assert lake.counts() == {"access_log": 2 * (kills + 1), "orders": 2 * (kills + 1), "json": 2}
    assert "bronze.orders: source away: Kafka at" in lake.tell(spark, "doctor", expect=1)
    assert "source away" in lake.tell(spark, "status")
    lake.declare("access_log", orders=orders, json=json)
    lake.run(spark)
    assert lake.errors().total() == 2 * (kills + 1) * 2 + 2
    assert lake.doubts(spark) == []
    proof = lake.tell(spark, "prove", "--deep", "--full")
    assert "every one exactly once" in proof


def test_one_topic_under_two_addresses_is_not_read_twice(broker: Broker, lake: Several, spark: SparkSession) -> None:
    broker.make_topic("twice", partitions=1)
    broker.send("twice", LINES)
    names = {"one": broker.servers, "two": broker.servers.replace("127.0.0.1", "localhost")}
    assert len(set(names.values())) == 2
    lake.declare("access_log", **{name: {**topic(servers), "topic": "twice"} for name, servers in names.items()})
    with pytest.raises(StateError, match=r"sources\.two reads topic twice, which bronze\.one reads or has read"):
        lake.run(spark)
    assert not lake.table("bronze/one").exists()
