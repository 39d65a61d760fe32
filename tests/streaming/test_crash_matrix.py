"""After a crash before or after any durable step of a batch, in this process, the next run continues correctly.

Every step is tried, none by chance. Large batches, and Spark's writer, write and commit tables in other ways and do
nothing else, so only these steps are tried with them as well. What only a killed process can show is in test_kill.py.
"""

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.steps import LINES, steps

pytestmark = pytest.mark.spark


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
