"""Collect the report of a lake under test as the command does."""

from pyspark.sql import SparkSession

from oncelake.common.table_rows import TableRows
from oncelake.observe.report.collect import LEFT_OUT, Collector, prove
from oncelake.observe.report.facts import Facts
from oncelake.observe.report.period import Period
from tests.support.house import House


def facts_of(house: House, spark: SparkSession, *, proven: bool = True, period: Period | None = None) -> Facts:
    """Collect the facts of a lake in this process, and prove it unless told otherwise."""
    chain = house.chain(spark)
    result = prove(chain, TableRows(lambda: spark)) if proven else LEFT_OUT
    return Collector(chain, TableRows(lambda: spark), period).facts(result)
