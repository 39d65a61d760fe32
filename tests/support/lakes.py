"""Make a lake of three batches, and copies of it that tests may break."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm
from tests.support.house import House

BATCHES = (
    [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:09:59 error two", b"broken", b"2017-07-30 14:10:00 INFO three"],
    [b"2017-06-20 00:00:01 ERROR 40 days late", b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:11:00 WARN four"],
    [b"2017-07-30 14:12:08 ERROR five", b"", b"2017-07-30 14:09:08 ERROR one"],
)
LINES = [line for batch in BATCHES for line in batch]
MORE = [b"2017-07-30 14:12:59 ERROR six", b"2017-07-30 14:09:00 ERROR seven", b"broken again"]


def keep_copy(house: House, name: str = "copy") -> Path:
    """Copy a lake and its logs, and return the directory of the copy."""
    for each in ("logs", "lake"):
        shutil.copytree(house.root / each, house.root / name / each)
    return house.root / name


def put_back(house: House, copy: Path, spark: SparkSession) -> House:
    """Restore a copy to its original directory, because positions name the directory of the logs."""
    for each in ("logs", "lake"):
        shutil.rmtree(house.root / each)
        shutil.copytree(copy / each, house.root / each)
    jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
    return House(house.root, house.conf)


def forget_commits(house: House, stage: str) -> None:
    """Remove the record that the last batch is done, as a kill just before it would."""
    commits = house.checkpoint(stage) / "commits"
    last = max((path for path in commits.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


@dataclass
class Filled:
    """A lake after three runs, batch 0 to 2 in every stage, with its checkpoints after each run."""

    house: House
    copies: list[Path] = field(default_factory=list)

    @classmethod
    def by(cls, spark: SparkSession, root: Path) -> "Filled":
        filled = cls(House(root))
        for number, lines in enumerate(BATCHES):
            filled.house.write(f"{number} [x] %20é.log", *lines)
            filled.house.run(spark)
            filled.copies.append(keep_copy(filled.house, f"copy-{number}"))
        return filled

    def again(self, spark: SparkSession) -> House:
        """Restore the lake as it was after its last batch."""
        return put_back(self.house, self.copies[-1], spark)

    def old_checkpoint(self, stage: str, after: int) -> Path:
        """Return a stage's checkpoint as it was after a batch."""
        return House(self.copies[after]).checkpoint(stage)
