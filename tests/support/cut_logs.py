"""Cut a table's Delta log as its clean-up does: a checkpoint is written, and older commit files are removed."""

import deltalake
from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm
from tests.support.house import House


def cut(house: House, spark: SparkSession, *tables: str) -> None:
    """Remove all commits but the newest one of tables such as `bronze/access_log`."""
    for name in tables:
        table = deltalake.DeltaTable(str(house.table(name)))
        table.create_checkpoint()
        for file in (house.table(name) / "_delta_log").iterdir():
            version = file.name.removeprefix(".")[:20]
            if version.isdigit() and int(version) < table.version():
                file.unlink()
    jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
