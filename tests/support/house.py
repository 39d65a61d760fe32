"""A lake under test: logs go in, the chain runs in this process or another, tables are read without Spark."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import deltalake
import pyarrow
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.engine.chain import Chain
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.recover import RecoveryResult
from oncelake.exactly_once.batch import CommittedBatch
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.lab.crash_test.conduct import QUICK
from oncelake.lab.demo.answer import Answer, count
from oncelake.lakehouse import Lakehouse
from oncelake.observe.progress import Lines

# Spark's own switch for tests: expressions are interpreted, because for a few lines compiling them takes a fifth to
# a third of the time. Tests of the expressions themselves compile them, as a user's Spark does.
CODE = "spark.sql.codegen.factoryMode"
UNCOMPILED = f"-D{CODE}=NO_CODEGEN"


@dataclass
class House:
    """One lake and its source.

    Attributes:
        sets: further `--set` flags of every run.
        reports: the reports of batches of runs in this process.
        said: the other messages of these runs.
        java: options of the JVMs that are started, which live for seconds.
    """

    root: Path
    conf: Path = field(default_factory=lambda: shipped_conf() / "local.yaml")
    sets: list[str] = field(default_factory=list)
    reports: list[CommittedBatch] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    java: str = " ".join((*QUICK, UNCOMPILED))

    def __post_init__(self) -> None:
        self.logs.mkdir(parents=True, exist_ok=True)

    @classmethod
    def with_error_log(cls, root: Path) -> Self:
        """Create a lake whose only gold table is error_log; the shipped second one takes a third of a run's time."""
        path = root / "conf" / "local.yaml"
        path.parent.mkdir()
        path.write_text(yaml.safe_dump(error_log_conf()))
        return cls(root, path)

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def flags(self) -> list[str]:
        return [f"source.path={self.logs}", f"lake.root={self.lake}", *self.sets]

    @property
    def options(self) -> list[str]:
        """Return the configuration and the flags that every command gets."""
        return ["-c", str(self.conf), *(part for flag in self.flags for part in ("--set", flag))]

    @property
    def stages(self) -> tuple[str, ...]:
        """Return the stages of the chain, in the data's order."""
        return ("bronze", "silver", *(f"gold.{name}" for name in self.lakehouse().settings.gold))

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables of the lake, in the form `gold/error_log`."""
        gold = (f"gold/{name}" for name in self.lakehouse().settings.gold)
        return ("bronze/access_log", "silver/access_log", "silver/quarantine", *gold)

    def table(self, name: str) -> Path:
        """Return the directory of a table such as `silver/quarantine`."""
        return self.lake / name

    def checkpoint(self, stage: str) -> Path:
        return self.lake / "_checkpoints" / (stage if stage.startswith("bronze.") else stage.replace(".", "/"))

    def write(self, name: str, *lines: bytes) -> None:
        """Write one log file atomically."""
        path = self.logs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.root / f"partial-{path.name}"
        partial.write_bytes(b"".join(line + b"\n" for line in lines))
        partial.rename(path)

    def lakehouse(self, spark: SparkSession | None = None) -> Lakehouse:
        """Open the lake, in a session of its own unless one is given."""
        return Lakehouse.open(self.conf, self.flags, spark=spark, warn=self.said.append)

    def chain(self, spark: SparkSession | None = None) -> Chain:
        return self.lakehouse(spark).chain

    def run(self, spark: SparkSession) -> list[CommittedBatch]:
        """Run the chain once in this process and return the reports of its batches."""
        before = len(self.reports)
        self.lakehouse(spark).run(once=True, show=self._recorder)
        return self.reports[before:]

    def recover(self, spark: SparkSession, *stages: str, accept_loss: bool = False) -> dict[str, RecoveryResult]:
        """Recover stages in this process, all if none is named, and return the outcome of each."""
        outcomes = self.lakehouse(spark).recover(*stages, accept_loss=accept_loss)
        return {outcome.stage: outcome for outcome in outcomes}

    def rebuild(self, spark: SparkSession, stage: str, *, accept_loss: bool = False) -> list[str]:
        """Rebuild a stage and all after it in this process and return its messages."""
        said: list[str] = []
        self.lakehouse(spark).rebuild(stage, accept_loss=accept_loss, say=said.append, show=self._recorder)
        return said

    def doubts(self, spark: SparkSession) -> list[str]:
        """Prove the lake in this process and return the faults."""
        return [f"{link.name}: {link.said}" for link in self.lakehouse(spark).prove().links if not link.holds]

    def _recorder(self, *_: object) -> "Recorder":
        return Recorder(self.reports, self.said.append)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `oncelake` as a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "oncelake", *arguments, *self.options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            cwd=self.root,
            env={"SPARK_SUBMIT_OPTS": self.java, **os.environ},
        )

    def call(self, *arguments: str, expect: int = 0) -> str:
        """Run `oncelake` to its end and return what it printed."""
        process = self.start(*arguments)
        said, _ = process.communicate(timeout=540)
        assert process.returncode == expect, said
        return said

    def tell(self, spark: SparkSession, *arguments: str, expect: int = 0) -> str:
        """Run `oncelake` in this process on its warm Spark session, and return what it printed."""
        exit_code, said = self.told(spark, *arguments)
        assert exit_code == expect, said
        return said

    def told(self, spark: SparkSession, *arguments: str) -> tuple[int, str]:
        """Run `oncelake` in the same way; return its exit code and what it printed."""
        assert spark.getActiveSession() is not None
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            result = CliRunner().invoke(app, [*arguments, *self.options])
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        return result.exit_code, result.output

    def versions(self) -> dict[str, int]:
        """Return the version of every table that exists."""
        logs = {name: DeltaLog(LocalFiles(), str(self.table(name))).versions() for name in self.tables}
        return {name: versions[-1] for name, versions in logs.items() if versions}

    def table_id(self, table: str) -> str | None:
        """Return the ID that Delta gave a table at its creation."""
        return DeltaLog(LocalFiles(), str(self.table(table))).table_id()

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return a table's rows, read with delta-rs: a Parquet reader that is not Spark."""
        found = deltalake.DeltaTable(self.table(table)).to_pyarrow_dataset().to_table()
        rows: list[dict[str, Any]] = pyarrow.table(found).to_pylist()
        return rows

    def size(self, table: str) -> int:
        """Return the number of a table's rows, read with delta-rs."""
        return int(deltalake.DeltaTable(self.table(table)).to_pyarrow_dataset().count_rows())

    def errors(self) -> Counter[datetime]:
        """Return gold's error counts per minute."""
        return Counter({row["log_time"].replace(tzinfo=UTC): row["log_count"] for row in self.rows("gold/error_log")})

    def must_be(self, lines: list[bytes]) -> Answer:
        """Compare every table with the answer that plain Python counts for these lines."""
        answer = count(lines, datetime.now(UTC))
        assert self.size("bronze/access_log") == answer.lines
        assert self.size("silver/access_log") == answer.parsed
        assert self.size("silver/quarantine") == answer.broken
        assert self.errors() == answer.errors
        if "log_volume" in self.lakehouse().settings.gold:
            counted = sum(row["log_count"] for row in self.rows("gold/log_volume"))
            assert counted == answer.parsed, f"gold.log_volume counts {counted} lines, and {answer.parsed} parse"
        return answer


def error_log_conf() -> dict[str, Any]:
    """Return the shipped configuration with error_log as its only gold table."""
    conf: dict[str, Any] = yaml.safe_load((shipped_conf() / "local.yaml").read_text())
    return {**conf, "gold": {"error_log": conf["gold"]["error_log"]}}


class Recorder(Lines):
    """Keeps reports instead of printing them."""

    def __init__(self, reports: list[CommittedBatch], say: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(say)
        self._reports = reports

    def show(self, report: CommittedBatch, waits: object) -> None:
        del waits
        self._reports.append(report)


def until(what: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.1)


def kill_group(process: subprocess.Popen[Any]) -> None:
    """Kill a process and all that it started, as the failure of a machine would."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def events(said: str) -> list[dict[str, Any]]:
    """Parse the JSON lines that `--json` printed."""
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]
