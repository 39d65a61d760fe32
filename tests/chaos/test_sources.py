"""Whatever happens to the sources of a lake, its rules, its gold table and the runs, every line is accounted for."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.chaos.draw import seeds
from tests.chaos.kinds import KINDS
from tests.chaos.known import RECORDS, RULES, SOURCES, TAIL, TAIL_RECORDS, TAIL_RULES, WHOLE
from tests.chaos.play import Table
from tests.chaos.steps import parsed

pytestmark = pytest.mark.spark

SECONDS = 20.0
# what other tests do not cover: the rest is in make test-long
IN_MAKE_TEST = (
    "bytes that are deleted after a batch planned or read them, before it was done",
    *RULES,
    *TAIL_RULES,
    *WHOLE,
)
SEQUENCES = {
    "records": RECORDS,
    "rules": RULES,
    "tail": TAIL,
    "tail-records": TAIL_RECORDS,
    "tail-rules": TAIL_RULES,
    "sources": SOURCES,
    "whole": WHOLE,
}
KNOWN = [
    pytest.param(kind, steps, id=name, marks=[] if name in IN_MAKE_TEST else pytest.mark.long)
    for kind, sequences in SEQUENCES.items()
    for name, steps in sequences.items()
]


@pytest.mark.parametrize(("kind", "steps"), KNOWN)
def test_a_known_sequence(kind: str, steps: str, spark: SparkSession, tmp_path: Path) -> None:
    make = KINDS[kind].make
    assert make is not None
    result = Table(spark, tmp_path, make).play(parsed(steps))
    assert not result.broken, str(result)


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [("tail", 3.0), ("rules", 3.0), *(pytest.param(kind, SECONDS, marks=pytest.mark.long) for kind in SEQUENCES)],
)
def test_random_sequences_until_the_time_is_over(
    kind: str, seconds: float, spark: SparkSession, tmp_path: Path
) -> None:
    make = KINDS[kind].make
    assert make is not None
    played = Table(spark, tmp_path, make).play_all(seeds(seconds), KINDS[kind].draw)
    assert not played.broken, "\n".join(
        f"python -m tests.chaos --only {kind} --seed {seed}\n{each}" for seed, each in played.broken.items()
    )
