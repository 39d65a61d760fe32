"""Collect the report of a lake under test as the command does."""

from pyspark.sql import SparkSession

from oncelake.observe.report.collect import LEFT_OUT, Collector, prove
from oncelake.observe.report.facts import Facts
from oncelake.observe.report.period import Period
from tests.support.house import House


def facts_of(house: House, spark: SparkSession, *, proven: bool = True, period: Period | None = None) -> Facts:
    """Collect the facts of a lake in this process, and prove it unless told otherwise."""
    chain = house.chain(spark)
    return Collector(chain, spark, period).facts(prove(chain, spark) if proven else LEFT_OUT)
