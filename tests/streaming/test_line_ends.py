"""In a file that Spark or Delta wrote, lines end at `\\n` alone, whatever its strings contain."""

import shutil

import pytest
from pyspark.sql import SparkSession

from tests.support.house import House

ENDS = "\u2028\u2029\x0b\x0c\x1c\x1d\x1e\u0085"
LINES = [f"2017-07-30 14:09:08 ERROR a{first}b{ENDS}c".encode() for first in ("\u0085", "\u2028")]


@pytest.mark.spark
def test_keys_and_file_names_with_other_line_ends_break_no_command(house: House, spark: SparkSession) -> None:
    house.sets += ["gold.by_message.every=1 minute", "gold.by_message.by.said=message"]
    house.sets.append("gold.by_message.measures.lines=count")
    house.write(f"a{ENDS}.log", *LINES)
    house.run(spark)
    table = house.table("gold/by_message")
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('note' = 'one{ENDS}two')")
    commit = max((table / "_delta_log").glob("*[0-9].json")).read_text()
    assert "\u0085" in commit
    assert "\u2028" in commit
    house.must_be(LINES)
    assert house.doubts(spark) == []
    house.tell(spark, "doctor")
    shutil.rmtree(house.lake / "_checkpoints")
    assert [outcome.refused for outcome in house.recover(spark).values()] == [None] * 4
    house.run(spark)
    house.must_be(LINES)
