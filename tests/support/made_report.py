"""What a report tells of a lake under test, as the command collects it."""

from pyspark.sql import SparkSession

from oncelake.engine.configuration import configured
from oncelake.observe.report.collect import Look
from oncelake.observe.report.facts import Facts
from oncelake.observe.report.proving import LEFT_OUT, prove
from tests.support.house import House


def facts_of(house: House, spark: SparkSession, *, proven: bool = True) -> Facts:
    """Look at a lake in this process, and prove it unless told otherwise."""
    chain, (_, log_format) = house.survey(spark), configured(house.conf, house.flags)
    return Look(chain, spark, log_format).facts(prove(chain, spark) if proven else LEFT_OUT)
