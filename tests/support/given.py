"""Run oncelake inside a program that has its own Spark session."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from oncelake.common.spark import jars
from oncelake.common.spark.runtime import DELTA_ON
from tests.support.house import House

LINES = [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:00 INFO two", b"broken"]
SMALL = {"spark.sql.shuffle.partitions": "2", "spark.databricks.delta.snapshotPartitions": "2"}
# settings that another program's session may well have, and oncelake's own sessions never
ODD = {"spark.sql.session.timeZone": "America/New_York", "spark.sql.ansi.enabled": "true"}


@dataclass(frozen=True)
class Given:
    """A program that has a Spark session and then calls oncelake's entry point, as a Databricks job does.

    Attributes:
        jars: the class path in addition to Spark's own.
        confs: the session's settings.
        databricks: the runtime version that the session reports, None elsewhere.
    """

    jars: str
    confs: Mapping[str, str] = field(default_factory=lambda: {**DELTA_ON, **SMALL, **ODD})
    databricks: str | None = None
    python: str = sys.executable

    def call(self, house: House, *arguments: str, expect: int = 0) -> tuple[str, dict[str, str]]:
        """Call the entry point in that session; return what was printed, and the session's settings afterwards."""
        (said,), after = self.calls(house, [*arguments, *house.options], expect=expect)
        return said, after

    def calls(self, house: House, *calls: list[str], expect: int = 0) -> tuple[list[str], dict[str, str]]:
        """Make several calls in one session, with one exit code; return what each printed, and the settings."""
        confs = {"spark.driver.extraClassPath": self.jars, "spark.ui.enabled": "false", **self.confs}
        told = json.dumps({"confs": confs, "calls": calls})
        env = {"SPARK_SUBMIT_OPTS": house.java, **os.environ}
        env |= {"DATABRICKS_RUNTIME_VERSION": self.databricks} if self.databricks else {}
        done = subprocess.run(
            [self.python, "-c", PROGRAM, told],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=env,
            cwd=house.root,
            timeout=300,
            check=False,
        )
        assert done.returncode == expect, done.stdout
        assert "Traceback" not in done.stdout, done.stdout
        *said, after = done.stdout.split("\nENDED\n")
        assert len(said) == len(calls), done.stdout
        (line,) = [each for each in after.splitlines() if each.startswith("AFTER ")]
        return said, json.loads(line.removeprefix("AFTER "))


PROGRAM = """
import json, sys
from importlib.metadata import entry_points
from pyspark.sql import SparkSession

told = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[2]").appName("somebody else's")
for key, value in told["confs"].items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
(entry,) = entry_points(group="console_scripts", name="oncelake")
codes = set()
for arguments in told["calls"]:
    sys.argv = ["oncelake", *arguments]
    code = 0
    try:
        entry.load()()
    except SystemExit as ended:
        code = ended.code
    codes.add(code)
    sys.stderr.flush()
    print("\\nENDED", flush=True)
after = {key: spark.conf.get(key) for key in told["confs"]}
print("AFTER " + json.dumps({**after, "one": str(spark.range(1).count())}))
(code,) = codes
sys.exit(code)
"""


def delta() -> str:
    return jars.class_path()
