"""Personal data in a record's value, key and headers is masked before bronze, on a real broker."""

import shutil
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from tests.support import masking
from tests.support.broker import Broker
from tests.support.crashing import crashed
from tests.support.house import House

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

TOPIC = "masked"
CANARY = b"canary.7c1e"
MAIL, SESSION = CANARY + b"@mask.example", b"session of " + CANARY
KEY = "canary-key-of-records-0123456789"
MARK = b"marker-51aa"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


def send(broker: Broker, first: int, number: int) -> None:
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})
    for at in range(first, first + number):
        producer.produce(
            TOPIC,
            b"2017-07-30 14:09:%02d ERROR %s from %s" % (at, MARK, MAIL),
            key=MAIL if at % 2 else None,
            headers=[("session", SESSION), ("Trace", b"of " + MAIL), ("empty", None)],
            partition=at % 2,
        )
    producer.flush()


def pseudonym(text: bytes) -> bytes:
    return masking.pseudonym(KEY, text)


def holding(house: House) -> list[str]:
    """Return where the masked text or the key is stored."""
    secrets = (CANARY, KEY.encode())
    files = [path for path in house.root.rglob("*") if path.is_file()]
    rows = [name for name in house.tables if house.table(name).exists() and CANARY.decode() in repr(house.rows(name))]
    return [*(str(path) for path in files if any(secret in path.read_bytes() for secret in secrets)), *rows]


def test_a_record_is_masked_as_a_whole_and_still_proven(
    broker: Broker, house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECORD_MASK_KEY", KEY)
    broker.make_topic(TOPIC, partitions=2)
    house.sets = ["source.kind=kafka", f"source.bootstrap_servers={broker.servers}", f"source.topic={TOPIC}"]
    session = "{name: session, find: all, fields: [headers.session], action: hash}"
    house.sets += [
        f"source.mask={{key_variable: RECORD_MASK_KEY, rules: [{{find: email, action: hash}}, {session}]}}",
        "silver.deduplicate={key: ['header:session'], within: 1 second}",
    ]
    send(broker, 0, 6)
    for before in (True, False):
        step = f"bronze/access_log/_delta_log/{1:020}.json"
        with crashed(spark, step, before=before), pytest.raises((StageError, Py4JJavaError)):
            house.run(spark)
    house.run(spark)
    shutil.rmtree(house.checkpoint("bronze"))
    house.recover(spark, "bronze")
    send(broker, 6, 4)
    house.run(spark)

    rows = house.rows("bronze/access_log")
    assert len(rows) == 10
    mail = pseudonym(MAIL)
    for row in rows:
        assert row["value"].endswith(b" from " + mail)
        assert row["key"] == (mail if row["partition"] else None)
        headers = [(header["key"], header["value"]) for header in row["headers"]]
        assert headers == [("session", pseudonym(SESSION)), ("Trace", b"of " + mail), ("empty", None)]
        assert row["value_bytes"] == len(row["value"]) - len(mail) + len(MAIL)
    # all have one session, so of ten seconds each second one is within a second of one that stays
    assert (house.size("silver/access_log"), house.size("silver/duplicates")) == (5, 5)
    links = house.lakehouse(spark).prove(full=True, deep=True).links
    assert [str(link) for link in links if not link.holds] == []
    assert holding(house) == []
    assert any(MARK in path.read_bytes() for path in house.lake.rglob("*.parquet")), "the search sees into the tables"
    assert CANARY.decode() not in "".join([*house.said, repr(house.reports)])
