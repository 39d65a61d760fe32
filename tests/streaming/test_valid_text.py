"""Text that is not UTF-8, from a user's expression, is made valid before it gets into a table, and counted."""

import json
from typing import Any

import polars
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.writers import each_writer

pytestmark = pytest.mark.spark

FROM_BYTES = "cast(unhex(message) as string)"
GOLD: dict[str, Any] = {
    "keyed": {"every": "1 hour", "by": {"text": FROM_BYTES}, "measures": {"lines": "count"}},
    "extremes": {
        "every": "1 hour",
        "measures": {
            "lines": "count",
            "least": f"min({FROM_BYTES})",
            "most": f"max(array(struct({FROM_BYTES} as text, level)))",
            "total": "sum(offset)",
        },
    },
    "of_own": {"every": "1 hour", "by": {"own": "own"}, "measures": {"lines": "count"}},
}
CODE = "def add(rows):\n    return rows.selectExpr('*', 'cast(unhex(message) as string) own', 'level as same')\n"
# 'a', two texts that become the same valid one, and none
LINES = [f"2017-07-30 14:09:08 ERROR {value}".encode() for value in ("61", "ff", "fe", "ff", "x")]
BAD = "\N{REPLACEMENT CHARACTER}"
COUNTS = [("a", 2), (BAD, 6), (None, 2)]
SAID = "a text that is not UTF-8; what no reader can read became U+FFFD"


@pytest.fixture
def declared(house: House, small_batch: str) -> House:
    """Declare gold tables and a transform with such expressions."""
    (house.conf.parent / "own_code.py").write_text(CODE)
    gold = [f"gold.{name}={json.dumps(table)}" for name, table in GOLD.items()]
    house.sets += ["silver.transform=own_code:add", f"run.small_batch={small_batch}", *gold]
    return house


def read(house: House, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Read a table with Polars, which refuses text that is not UTF-8."""
    rows = polars.read_delta(str(house.table(table))).select(columns).rows()
    return sorted(rows, key=str)


def faults(house: House, spark: SparkSession) -> list[str]:
    return [str(link) for link in house.lakehouse(spark).prove(full=True, deep=True).links if not link.holds]


def recorded(house: House, table: str) -> dict[str, int]:
    metadata = DeltaLog(LocalFiles(), str(house.table(table))).state().metadata
    assert metadata is not None
    return dict(metadata.quality["not_utf8"])


@each_writer
def test_gold_goes_on_and_every_reader_reads_it(declared: House, spark: SparkSession, small_batch: str) -> None:
    for number in (1, 2):  # gold once stopped at the second batch
        declared.write(f"{number}.log", *LINES)
        reports = {report.stage: report.warned for report in declared.run(spark)}
        assert reports["silver"] == (f"own: 3 lines have {SAID}",)
        assert reports["gold.keyed"] == (f"text: 3 lines have {SAID}",)
        assert reports["gold.extremes"] == (f"least: 3 lines have {SAID}", f"most: 3 lines have {SAID}")
        assert reports["gold.of_own"] == ()
    assert read(declared, "gold/keyed", "text", "lines") == COUNTS
    assert read(declared, "gold/of_own", "own", "lines") == COUNTS
    assert read(declared, "gold/extremes", "least", "most") == [("a", [{"text": BAD, "level": "ERROR"}])]
    assert len(read(declared, "silver/access_log", "own")) == 2 * len(LINES)
    assert recorded(declared, "gold/keyed") == {"text": 3}
    assert recorded(declared, "gold/extremes") == {"least": 3, "most": 3}
    assert recorded(declared, "silver/quarantine") == {"own": 3}
    assert faults(declared, spark) == []
    if small_batch == "1":
        declared.rebuild(spark, "silver")
        assert read(declared, "gold/keyed", "text", "lines") == COUNTS
        assert faults(declared, spark) == []


@each_writer
def test_a_batch_that_silver_holds_already_records_the_count(declared: House, spark: SparkSession) -> None:
    declared.write("1.log", *LINES)
    with (
        crashed(spark, f"silver/quarantine/_delta_log/{1:020}.json", before=True),
        pytest.raises((StageError, Py4JJavaError)),
    ):
        declared.run(spark)
    declared.run(spark)
    assert recorded(declared, "silver/quarantine") == {"own": 3}
    assert faults(declared, spark) == []
