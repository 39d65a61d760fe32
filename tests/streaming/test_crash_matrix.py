"""After a crash before or after any durable step of a batch, in this process, the next run continues correctly.

Every step is tried, none by chance. Large batches, and Spark's writer, write and commit tables in other ways and do
nothing else, so only these steps are tried with them as well. What only a killed process can show is in test_kill.py.
"""

from collections.abc import Iterator

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from tests.support.crashing import crashed
from tests.support.house import House

pytestmark = pytest.mark.spark

WRITES = {
    "bronze": ["bronze/access_log"],
    "silver": ["silver/access_log", "silver/quarantine"],
    "gold/error_log": ["gold/error_log"],
    "serving/error_log": [],
}
LINES = (
    [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:09:59 error two", b"broken", b"2017-07-30 14:10:00 INFO three"],
    [b"2017-06-20 00:00:01 ERROR 40 days late", b"2017-07-30 14:09:08 ERROR one", b"broken as well"],
)


def steps(batch: int, *, large: bool) -> Iterator[str]:
    """Yield every file that a batch of the chain writes, in order."""
    for stage, tables in WRITES.items():
        checkpoint = f"_checkpoints/{stage}"
        if batch == 0:
            yield from (f"{table}/_delta_log/{0:020}.json" for table in tables)
            yield f"{checkpoint}/metadata"
        if stage == "bronze":
            yield f"{checkpoint}/sources/0/{batch}"
        yield f"{checkpoint}/offsets/{batch}"
        for table in tables:
            if large and not table.startswith("gold"):
                yield f"{table}/_staged-*/_SUCCESS"
            yield f"{table}/_delta_log/{batch + 1:020}.json"
        yield f"{checkpoint}/commits/{batch}"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("small_batch", "kinds"),
    [("32MiB", [""]), ("1", ["_delta_log/", "_staged-"]), ("0", ["_delta_log/"])],
    ids=["small batches", "large batches", "spark's writer"],
)
def test_a_crash_before_or_after_any_durable_step_loses_nothing(
    house: House, spark: SparkSession, small_batch: str, kinds: list[str]
) -> None:
    house.sets += [f"run.small_batch={small_batch}"]
    house.sets += [f"serving.url=sqlite:///{house.root}/served.db", "serving.tables=[error_log]"]
    house.tell(spark, "serving", "init")
    for batch, lines in enumerate(LINES):
        house.write(f"{batch}.log", *lines)
        every = steps(batch, large=small_batch == "1")
        for step in (name for name in every if any(kind in name for kind in kinds)):
            for before in (True, False):
                with crashed(spark, step, before=before), pytest.raises((StageError, Py4JJavaError)):
                    house.run(spark)
        house.run(spark)
        house.must_be([line for some in LINES[: batch + 1] for line in some])
        assert house.doubts(spark) == []
