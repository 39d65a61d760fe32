"""Whatever happens to a topic and to the runs, `prove` exits 0 only if every record is accounted for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos.draw import draw_topic, seeds
from tests.chaos.kinds import topics
from tests.chaos.known import TOPICS
from tests.chaos.play import Table
from tests.chaos.steps import parsed
from tests.support.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SECONDS = 10.0
# the others are played on files too, are cases of this one, or are in tests/services (aborted transactions)
IN_MAKE_TEST = ("records that are deleted before they are read, also of a partition that was added",)
KNOWN = [
    pytest.param(steps, id=name, marks=[] if name in IN_MAKE_TEST else pytest.mark.long)
    for name, steps in TOPICS.items()
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture
def table(spark: SparkSession, broker: Broker, tmp_path: Path) -> Table:
    return Table(spark, tmp_path, topics(broker))


@pytest.mark.parametrize("steps", KNOWN)
def test_a_known_sequence(table: Table, steps: str) -> None:
    result = table.play(parsed(steps))
    assert not result.broken, str(result)


@pytest.mark.long
def test_random_sequences_until_the_time_is_over(table: Table) -> None:
    played = table.play_all(seeds(SECONDS), draw_topic)
    assert not played.broken, "\n".join(f"seed {seed}: {each}" for seed, each in played.broken.items())
