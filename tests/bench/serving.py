"""Measure how long a million keys take into MySQL: the serving stage beside a plain executemany of the same rows.

Both read the same Delta table and write to an empty table of the same MariaDB, alternately. The result is the ratio of
the medians, as the machine is never quiet. Run it with `make bench`.
"""

import shutil
import statistics
import tempfile
import threading
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import deltalake
import pymysql
from pyspark.sql import SparkSession

from oncelake.common.spark.launch import java_output_to
from oncelake.common.spark.session import build
from oncelake.common.spark.settings import SparkSettings
from oncelake.engine.runner import Run
from oncelake.observe.progress import Progress
from oncelake.serving.served import Served
from oncelake.serving.settings import Mode
from oncelake.serving.table_setup import make
from tests.support.house import House, Recorder
from tests.support.mariadb import MariaDB
from tests.support.serving import database

KEYS, ROUNDS = 1_000_000, 3


def main(keys: int = KEYS) -> None:
    """Print the times of each round, and the ratios."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    with java_output_to(root / "spark.log"):
        spark = build(SparkSettings(master="local[2]", driver_memory="4g"), app="oncelake-bench")
    try:
        with MariaDB(root / "mariadb", "--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M") as server:
            house = filled(root, spark, keys)
            for mode in ("idempotent", "transactional"):
                compare(house, spark, server, mode)
    finally:
        spark.stop()
        shutil.rmtree(root, ignore_errors=True)


def filled(root: Path, spark: SparkSession, keys: int) -> House:
    """Return a lake whose gold table has this many keys: one error in each of as many minutes."""
    house, begin = House(root), datetime(2000, 1, 1)
    for part in range(10):
        minutes = range(part * keys // 10, (part + 1) * keys // 10)
        house.write(f"{part}.log", *(f"{begin + timedelta(minutes=m)} ERROR x".encode() for m in minutes))
    house.run(spark)
    return house


def compare(house: House, spark: SparkSession, server: MariaDB, mode: Mode) -> None:
    """Serve with the stage and with the plain program, alternately, and print the times."""
    url = server.make_database(f"bench_{mode}", rights="ALL")
    served_house = House(house.root, sets=[f"serving.url={url}", f"serving.mode={mode}"])
    stage = served_house.chain(spark).stages[-1]
    assert stage.served is not None
    make(spark, [stage.served])
    times: dict[str, list[float]] = {"serving stage": [], "plain executemany": []}
    for number in range(ROUNDS):
        for name, work in (("plain executemany", plain), ("serving stage", by_stage)):
            stage.served.empty()
            shutil.rmtree(house.checkpoint(stage.name), ignore_errors=True)
            seconds = work(served_house, spark, stage.served)
            times[name].append(seconds)
            print(f"{mode}, round {number + 1}: {name} {seconds:.1f} s", flush=True)
    ratio = statistics.median(times["serving stage"]) / statistics.median(times["plain executemany"])
    print(f"{mode}: {ratio:.2f} times the plain executemany's time (median of {ROUNDS})", flush=True)


def by_stage(house: House, spark: SparkSession, served: Served) -> float:
    """Run the serving stage alone, and return the seconds."""
    chain = house.chain(spark)
    chain = replace(chain, stages=tuple(stage for stage in chain.stages if stage.name == served.stage))
    began = time.monotonic()
    Run(chain, spark, Progress(chain, Recorder([])), threading.Event()).once()
    return time.monotonic() - began


def plain(house: House, spark: SparkSession, served: Served) -> float:
    """Read gold with delta-rs and upsert it by one executemany, as a script would; return the seconds."""
    del spark
    url = database(served).url
    began = time.monotonic()
    table = deltalake.DeltaTable(house.lake / "gold/error_log").to_pyarrow_dataset().to_table()
    times = (at.replace(tzinfo=None) for at in table["log_time"].to_pylist())
    rows = list(zip(times, table["log_count"].to_pylist(), strict=True))
    connection = pymysql.connect(
        host=url.host, port=url.port or 3306, user=url.username, password=str(url.password), database=url.database
    )
    with connection, connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO error_log (log_time, log_count) VALUES (%s, %s) "
            "ON DUPLICATE KEY UPDATE log_count = VALUES(log_count)",
            rows,
        )
        connection.commit()
    return time.monotonic() - began


if __name__ == "__main__":
    main()
