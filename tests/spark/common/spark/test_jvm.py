"""Classes of the JVM are looked up once, and settings of a block end with it."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.common.spark.jvm import jvm, with_conf

pytestmark = pytest.mark.spark
ADAPTIVE = "spark.sql.adaptive.enabled"


def test_the_classes_of_each_column_are_looked_up_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[str] = []
    view = type(jvm(spark))
    look_up = view.__getattr__

    def counted(self: object, name: str) -> object:
        looked_up.append(name)
        return look_up(self, name)

    monkeypatch.setattr(view, "__getattr__", counted)
    spark.range(1).select(F.lit(1).alias("one"), F.col("id") + 1).where(F.expr("one = 1")).groupBy("one").count()
    assert looked_up == []


def test_settings_of_a_block_end_with_it(spark: SparkSession) -> None:
    before = spark.conf.get(ADAPTIVE)
    within = []

    def fail() -> None:
        with with_conf(spark, {ADAPTIVE: "false"}):
            within.append(spark.conf.get(ADAPTIVE))
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert within == ["false"]
    assert spark.conf.get(ADAPTIVE) == before == "true"
