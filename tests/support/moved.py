"""Stop a lake before and after each durable step with one version of Spark, and let another one go on.

Run: `python -m tests.support.moved stop PLACE` with the first PySpark on PYTHONPATH, then `... go-on PLACE` with the
second one. The second prints, for each point, how it went on.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import OncelakeError, StageError
from oncelake.common.spark.jvm import jvm
from oncelake.serving.database import Database, parse_url
from tests.support.crashing import crashed, session
from tests.support.house import CODE, House
from tests.support.steps import LINES, steps

_ALL = [line for lines in LINES for line in lines]


def main() -> None:
    """Stop or go on, as the arguments ask for."""
    how, place = sys.argv[1], Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as log, session(Path(log) / "log") as spark:
        spark.conf.set(CODE, "NO_CODEGEN")
        if how == "stop":
            said: object = stop(spark, place)
        else:
            said = dict(gone_on(spark, place))
        sys.stdout.write(json.dumps({"spark": pyspark.__version__, "said": said}, indent=1))


def stop(spark: SparkSession, place: Path) -> int:
    """Run the chain, crash it at each step, and keep a copy of the lake at each; return their number."""
    (place / "house").mkdir()
    house, points = _served(House.with_error_log(place / "house")), 0
    house.tell(spark, "serving", "init")
    for batch, lines in enumerate(LINES):
        house.write(f"{batch}.log", *lines)
        for step in steps(batch, large=False):
            for before in (True, False):
                with crashed(spark, step, before=before), suppress(StageError, Py4JJavaError):
                    house.run(spark)
                name = f"{points:03} {'before' if before else 'after'} {step.replace('/', '!')}"
                shutil.copytree(house.root, place / "points" / name)
                points += 1
        house.run(spark)
    house.must_be(_ALL)
    return points


def gone_on(spark: SparkSession, place: Path) -> Iterator[tuple[str, str]]:
    """Go on at each point; yield its name and `exact`, or what the run or the proof said."""
    for point in sorted((place / "points").iterdir()):
        shutil.rmtree(place / "house")
        shutil.copytree(point, place / "house")
        jvm(spark).org.apache.spark.sql.delta.DeltaLog.clearCache()
        house = _served(House(place / "house", place / "house/conf/local.yaml"))
        Database(parse_url(_url(house))).engine.dispose()
        for number, lines in enumerate(LINES):
            house.write(f"{number}.log", *lines)
        try:
            house.run(spark)
            house.must_be(_ALL)
            doubts = house.doubts(spark)
        except (OncelakeError, AssertionError) as error:
            yield point.name, f"{type(error).__name__}: {error}"
        else:
            yield point.name, "; ".join(doubts) or "exact"


def _served(house: House) -> House:
    """Return a house whose gold table is served."""
    house.sets += [f"serving.url={_url(house)}", "serving.tables=[error_log]"]
    return house


def _url(house: House) -> str:
    return f"sqlite:///{house.root}/served.db"


if __name__ == "__main__":
    main()
