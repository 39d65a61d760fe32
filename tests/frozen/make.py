"""Write the golden files of what commands print for programs; with names of lakes, make those lakes too.

Run `python -m tests.frozen.make` after a text was changed on purpose, and read the difference.
"""

import argparse
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from oncelake.common.spark.launch import java_output_to
from oncelake.common.spark.session import build
from oncelake.common.spark.settings import SparkSettings
from tests.frozen.golden import counted, keep, play, written
from tests.frozen.lakes import LAKES
from tests.frozen.names import names
from tests.frozen.place import empty, frozen, pack


def main() -> None:
    """Write what the arguments ask for."""
    parser = argparse.ArgumentParser(prog="python -m tests.frozen.make", description=__doc__)
    parser.add_argument("lakes", nargs="*", help="lakes that are not there yet")
    parser.add_argument("--only", nargs="*", help="keep what is printed of these lakes alone")
    asked = parser.parse_args()
    keep("names", names())
    with tempfile.TemporaryDirectory() as scratch:
        with java_output_to(Path(scratch) / "log"):
            spark = build(SparkSettings(master="local[2]", driver_memory="4g"), app="oncelake-tests")
        for lake in LAKES:
            if lake.name in asked.lakes:
                with empty(lake.name) as house:
                    lake.make(lake.of(house), spark)
                    pack(house)
            if lake.name in (asked.only or [each.name for each in LAKES]):
                _keep(lake.name, spark)
        spark.stop()


def _keep(name: str, spark: SparkSession) -> None:
    lake = next(each for each in LAKES if each.name == name)
    with frozen(name, spark) as house:
        keep(name, {"steps": play(lake, lake.of(house), spark), "tables": counted(house), "written": written(house)})


if __name__ == "__main__":
    main()
