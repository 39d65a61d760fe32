"""A lake of three batches, and copies of it that tests may break."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from pipelines.jvm import jvm
from tests.house import House

BATCHES = (
    [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:09:59 error two", b"broken", b"2017-07-30 14:10:00 INFO three"],
    [b"2017-06-20 00:00:01 ERROR 40 days late", b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:11:00 WARN four"],
    [b"2017-07-30 14:12:08 ERROR five", b"", b"2017-07-30 14:09:08 ERROR one"],
)
LINES = [line for batch in BATCHES for line in batch]
MORE = [b"2017-07-30 14:12:59 ERROR six", b"2017-07-30 14:09:00 ERROR seven", b"broken again"]
STAGES = ("bronze", "silver", "gold.error_log", "gold.log_volume")


@dataclass
class Filled:
    """A lake that three runs have filled, batch 0 to 2 in every stage, and its checkpoints after each."""

    house: House
    copies: list[Path] = field(default_factory=list)

    @classmethod
    def by(cls, spark: SparkSession, root: Path) -> "Filled":
        filled = cls(House(root))
        for number, lines in enumerate(BATCHES):
            filled.house.write(f"{number} [x] %20é.log", *lines)
            filled.house.run(spark)
            copy = root / f"copy-{number}"
            for name in ("logs", "lake"):
                shutil.copytree(root / name, copy / name)
            filled.copies.append(copy)
        return filled

    def again(self, spark: SparkSession) -> House:
        """Put the lake back in its place as it was; positions name the place of the logs."""
        for name in ("logs", "lake"):
            shutil.rmtree(self.house.root / name)
            shutil.copytree(self.copies[-1] / name, self.house.root / name)
        jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
        return House(self.house.root)

    def old_checkpoint(self, stage: str, after: int) -> Path:
        """Give a stage's checkpoint as it was after a batch."""
        return House(self.copies[after]).checkpoint(stage)
