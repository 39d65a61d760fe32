"""Send the log of a Java service to a Kafka topic: each record is one log event, many with a stack trace.

    python3 make.py data

creates the topic `shop` if it is missing, sends 2,000 records, and writes data/expected.json: what the counts must be.
The broker is that of ONCELAKE_SOURCE__BOOTSTRAP_SERVERS. Needs `pip install confluent-kafka`.
"""

import json
import os
import random
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC, PARTITIONS = "shop", 2
FIRST = datetime(2025, 11, 25, 9)
QUIET = (("INFO", "c.e.shop.Orders", "order {n} accepted"), ("DEBUG", "c.e.shop.Cache", "evicted {n} entries"))
FAILED = (
    ("c.e.shop.Payments", "payment {n} failed", "java.io.IOException: gateway closed the connection", None),
    ("c.e.shop.Orders", "order {n} failed", "org.example.OrderException: no stock", "java.sql.SQLException: deadlock"),
    ("c.e.shop.Api", "request {n} failed", "java.lang.NullPointerException", None),
)


def trace(first: str, cause: str | None) -> list[str]:
    """Return the lines of a stack trace."""
    lines = [first, "\tat com.example.shop.Api.handle(Api.java:42)", "\tat com.example.shop.Main.run(Main.java:7)"]
    return [*lines, f"Caused by: {cause}", "\t... 12 more"] if cause else lines


def make(records: int, seed: int) -> tuple[list[str], Counter[tuple[str, str]]]:
    """Return the records in the order of their times, and the number of errors of each logger and exception."""
    chance, errors = random.Random(seed), Counter[tuple[str, str]]()
    made = []
    for number in range(records):
        at = FIRST + timedelta(milliseconds=number * 1500 + chance.randrange(1500))
        head = f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}"
        if chance.random() < 0.1:
            logger, text, first, cause = chance.choice(FAILED)
            errors[logger, (cause or first).partition(":")[0]] += 1
            lines = [f"{head} ERROR [http-{number % 8}] {logger} - {text.format(n=number)}", *trace(first, cause)]
            made.append("\n".join(lines))
        else:
            level, logger, text = chance.choice(QUIET)
            made.append(f"{head} {level} [http-{number % 8}] {logger} - {text.format(n=number)}")
    return made, errors


def send(servers: str, records: list[str]) -> None:
    """Send the records, each to one of the partitions, and wait until the broker has all of them."""
    admin = AdminClient({"bootstrap.servers": servers})
    try:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20})
    for number, record in enumerate(records):
        producer.produce(TOPIC, record.encode(), partition=number % PARTITIONS)
        producer.poll(0)
    if producer.flush(60):
        raise SystemExit(f"the broker {servers} did not take all records")


def main(place: Path) -> None:
    """Send the records, and write what the counts must be."""
    records, errors = make(2_000, seed=7)
    send(os.environ["ONCELAKE_SOURCE__BOOTSTRAP_SERVERS"], records)
    place.mkdir(parents=True, exist_ok=True)
    told = {"lines": len(records), "errors": [[*key, count] for key, count in sorted(errors.items())]}
    (place / "expected.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
