"""What docs/getting-started.md shows of Kafka and MySQL works on a real broker and a real MariaDB."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.lab.demo.made_log import lines_of, write_log
from tests.support.broker import Broker
from tests.support.mariadb import MariaDB
from tests.support.readme import Shell, block


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch, spark: SparkSession, tmp_path: Path) -> pytest.MonkeyPatch:
    """Set an empty working directory, and the session that commands get."""
    del spark
    monkeypatch.chdir(tmp_path)
    return monkeypatch


@pytest.mark.spark
@pytest.mark.kafka
def test_a_topic_is_counted_as_on_the_page(patch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write_log(tmp_path / "logs", 20_000)
    with Broker(tmp_path / "kafka") as broker:
        broker.make_topic("alog", partitions=2)
        broker.send("alog", lines_of(tmp_path / "logs"))
        shell = Shell(patch, {"broker1:9092": broker.servers, "/tmp/kafka-lake": str(tmp_path / "lake")})
        shell.must_show(block("Your own Kafka", "console"))


@pytest.mark.spark
@pytest.mark.database
def test_a_table_is_served_as_on_the_page(patch: pytest.MonkeyPatch, tmp_path: Path, mariadb: MariaDB) -> None:
    write_log(tmp_path / "logs", 20_000)
    mariadb.sql("CREATE DATABASE alog CHARACTER SET utf8mb4")
    server = f"127.0.0.1:{mariadb.port}"
    shell = Shell(patch, {"user:password@db.example": f"root@{server}", "db.example": server})
    shell.run(f"export ONCELAKE_SOURCE__PATH={tmp_path / 'logs'} ONCELAKE_LAKE__ROOT={tmp_path / 'lake'}")
    shell.run("oncelake run --once", expect=0)
    shell.must_show(block("Into MySQL", "console"))
