"""Whatever happens to a directory and to the runs, `prove` exits 0 only if every line is accounted for."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos.draw import draw, seeds
from tests.chaos.known import FILES
from tests.chaos.operations import Place
from tests.chaos.play import Table
from tests.chaos.steps import parsed
from tests.chaos.world import Directory

pytestmark = pytest.mark.spark

SECONDS = 8.0


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    return Table(spark, tmp_path, lambda directory: Directory(Place.below(directory)))


@pytest.mark.parametrize("steps", FILES.values(), ids=FILES)
def test_a_known_sequence(table: Table, steps: str) -> None:
    result = table.play(parsed(steps))
    assert not result.broken, str(result)


def test_random_sequences_until_the_time_is_over(table: Table) -> None:
    played = table.play_all(seeds(SECONDS), draw)
    assert not played.broken, "\n".join(
        f"python -m tests.chaos --seed {seed}\n{each}" for seed, each in played.broken.items()
    )
    assert played.counts["prove: exit 0"], "no proof held in any of them"
