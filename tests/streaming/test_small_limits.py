"""With small limits where the code chooses between two ways, a small test goes the ways of a large batch.

The counts and the proof must be the same: a large batch has more keys, windows, parts and versions than any test.
"""

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from oncelake.common import table_rows
from oncelake.engine import source_rebuild
from oncelake.engine.conf_file import shipped_conf
from oncelake.exactly_once import delta_log, delta_source, history
from oncelake.exactly_once.writers import local
from oncelake.gold import transform, window
from oncelake.lab.demo.made_log import lines_of, write_late_and_broken, write_log
from oncelake.proof import recount
from oncelake.serving import rows
from oncelake.silver import collected_duplicates, duplicates
from tests.support.house import House
from tests.support.repeated import Sent, must_hold, repeating
from tests.support.writers import each_writer

pytestmark = pytest.mark.spark

LIMITS = (
    (transform, "NAMED"),
    (window, "MOST_RANGES"),
    (source_rebuild, "MOST_RANGES"),
    (source_rebuild, "MOST_WINDOWS"),
    (recount, "MOST_WINDOWS"),
    (duplicates, "MOST_PARTS"),
    (duplicates, "MOST_RANGES"),
    (collected_duplicates, "AT_ONCE"),
    (local, "MERGED"),
    (table_rows, "ROWS_AT_ONCE"),
    (delta_log, "LOOK_BACK"),
    (delta_source, "LOOK"),
    (history, "FIRST"),
    (rows, "PART"),
    (rows, "CHUNK"),
)
GOLD = {
    "by_level": {"every": "1 minute", "by": {"level": "level"}, "measures": {"lines": "count"}},
    "by_day": {
        "every": "1 day",
        "zone": "Europe/Berlin",
        "by": {"level": "level"},
        "measures": {"lines": "count", "half": "percentile(length(message), 0.5)", "least": "min(message)"},
    },
}


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set each limit to 3: below that, no batch has more rows than windows within the limit."""
    for module, name in LIMITS:
        monkeypatch.setattr(module, name, 3)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """Return the shipped configuration with more gold tables."""
    settings = yaml.safe_load((shipped_conf() / "local.yaml").read_text())
    path = tmp_path / "conf.yaml"
    path.write_text(yaml.safe_dump({**settings, "gold": {**settings["gold"], **GOLD}}))
    return path


@pytest.mark.parametrize("small_batch", ["1", pytest.param("0", marks=pytest.mark.long)])
def test_batches_add_up_and_are_served_and_proven(
    tmp_path: Path, conf: Path, spark: SparkSession, small_batch: str
) -> None:
    house = House(tmp_path, conf=conf, sets=[f"run.small_batch={small_batch}"])
    house.sets += [f"serving.url=sqlite:///{tmp_path}/served.db", "serving.tables=[error_log, by_level]"]
    house.tell(spark, "serving", "init")
    for batch in range(3):
        write_log(house.logs / f"{batch}", 80)
        write_late_and_broken(house.logs / f"late-{batch}", late=20, broken=3, seed=batch)
        house.run(spark)
    lines = [line for directory in house.logs.iterdir() for line in lines_of(directory)]
    for rebuilt in (False, True):
        if rebuilt:
            house.tell(spark, "maintain")
            house.rebuild(spark, "silver")
        answer = house.must_be(lines)
        for table in GOLD:
            assert sum(row["lines"] for row in house.rows(f"gold/{table}")) == answer.parsed
        assert '"holds": true' in house.tell(spark, "prove", "--json", *(["--full"] if rebuilt else []))


@each_writer
def test_a_repeat_of_any_batch_is_dropped_once(tmp_path: Path, spark: SparkSession, small_batch: str) -> None:
    house = repeating(tmp_path)
    house.sets += [f"run.small_batch={small_batch}"]
    kept, dropped = list[Sent](), list[tuple[Sent, Sent]]()
    for batch in range(3):
        new = [Sent(f"event {batch}-{number}", 60 * number + batch) for number in range(12)]
        again = [(Sent(sent.event, sent.minute + 20), sent) for sent in kept[batch::5]]
        dropped += again
        kept += new
        house.write(f"{batch}.log", *(sent.line for sent in new), *(sent.line for sent, _ in again))
        house.run(spark)
        must_hold(house, spark, kept, dropped)
