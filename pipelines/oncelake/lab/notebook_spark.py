"""This is where a notebook's Spark is started, or taken where one is given."""

from pathlib import Path

from pyspark.sql import SparkSession

from oncelake.common.spark.runtime import is_given, refuse_connect
from oncelake.common.spark.session import build, java_output_to, take
from oncelake.common.spark.settings import SparkSettings

WAREHOUSE = "spark.sql.warehouse.dir"
_APP = "oncelake-notebook"


def notebook_spark(settings: SparkSettings, root: Path) -> SparkSession:
    """Give the session that is there, or start one as the program does, its noise in `spark.log`.

    Raises:
        ConfigError: the promise does not hold on this Spark; says why.
    """
    refuse_connect()
    active: SparkSession | None = SparkSession.getActiveSession()
    if active is not None and active.conf.get("spark.app.name", "") == _APP:  # the first cell, run once more
        return active
    if is_given():
        return take(settings, app=_APP)
    own = {WAREHOUSE: str(root / "warehouse"), **settings.conf}
    with java_output_to(root / "spark.log"):
        return build(settings.model_copy(update={"conf": own}), app=_APP)
