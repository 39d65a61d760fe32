"""Gold is served into a real Cassandra: the kit passes it, and the served table equals gold after its node was away."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from oncelake.lab.demo.made_log import write_log
from oncelake.lab.sink_test.sink_check import SinkTest
from oncelake.serving.load import make_sink
from tests.support.cassandra import CassandraNode
from tests.support.house import House
from tests.support.serving_house import STAGE, more

pytest.importorskip("cassandra", reason="needs the extra cassandra: pip install 'oncelake[cassandra]'")
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
SINK = "oncelake.serving.sinks.cassandra:Cassandra"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CassandraNode]:
    with CassandraNode(tmp_path_factory.mktemp("cassandra")) as node:
        yield node


def test_the_kit_passes_cassandra(node: CassandraNode) -> None:
    found = list(SinkTest(SINK, node.options, kills=50, seed=1, lines=40, pauses=8).checks())
    assert [str(each) for each in found if not each.holds] == []
    assert len(found) == 17


@pytest.mark.spark
def test_gold_is_served_into_cassandra(node: CassandraNode, tmp_path: Path, spark: SparkSession) -> None:
    house = House.with_error_log(tmp_path)
    house.sets += [f"serving.sink={SINK}", "serving.wait=1 second"]
    house.sets += [f"serving.options.{key}={value}" for key, value in node.options.items()]
    write_log(house.logs, 300)
    house.tell(spark, "serving", "init")
    house.run(spark)
    assert house.doubts(spark) == []
    more(house, 0)
    node.stop()
    with pytest.raises(StageError, match=r"cassandra 127\.0\.0\.1:\d+/oncelake is unavailable"):
        house.run(spark)
    node.start()
    house.sets += ["serving.wait=60 seconds"]
    house.run(spark)
    assert house.doubts(spark) == []
    house.rebuild(spark, STAGE)
    more(house, 1)
    house.run(spark)
    assert house.doubts(spark) == []
    sink = make_sink(SINK, "error_log", node.options)
    last = sink.last()
    assert last is not None
    assert last.batch_id == 1
