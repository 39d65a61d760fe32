"""The example of a Java service counts its exceptions from a real broker into a real MariaDB, and proves it."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.broker import Broker
from tests.support.examples import Example
from tests.support.mariadb import MariaDB


@pytest.mark.long  # the other examples run in tests/streaming; the page's Kafka and MySQL in test_readme.py
@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.database
def test_the_exceptions_of_a_java_service_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mariadb: MariaDB, spark: SparkSession
) -> None:
    assert spark.getActiveSession() is not None  # the commands get it
    mariadb.sql("CREATE DATABASE shop CHARACTER SET utf8mb4")
    example = Example.copied("java", tmp_path, monkeypatch)
    with Broker(tmp_path / "kafka") as broker:
        monkeypatch.setenv("ONCELAKE_SOURCE__BOOTSTRAP_SERVERS", broker.servers)
        monkeypatch.setenv("ONCELAKE_SERVING__URL", mariadb.owner_url("shop"))
        *_, proof = example.run()
    expected = example.expected
    assert f"{expected['lines']:,} lines, every one exactly once" in proof
    served = mariadb.sql("SELECT logger, exception, SUM(errors) FROM by_exception GROUP BY 1, 2", "shop")
    assert sorted([logger, exception, int(errors)] for logger, exception, errors in served) == expected["errors"]
    assert example.rows("silver/quarantine") == []
    traces = [row["message"] for row in example.rows("silver/access_log") if row["level"] == "ERROR"]
    assert len(traces) == sum(count for *_, count in expected["errors"])
    assert all("\n\tat com.example.shop.Main.run(Main.java:7)" in trace for trace in traces), "a trace is whole"
