"""Start a standalone Spark cluster for tests: a master and two workers of pip's PySpark, on free ports of 127.0.0.1."""

import json
import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.request import urlopen

import pyspark

from oncelake.common.spark.java import java_command
from oncelake.lab.demo.server import free_port, wait_until_it_answers
from tests.support.house import kill_group

HOME = Path(str(pyspark.__file__)).parent


class Cluster:
    """A cluster that lives in a directory; each worker is a process group of its own, with its executors."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        self.directory = directory
        self.master = f"spark://127.0.0.1:{free_port()}"
        self._page = free_port()
        self._workers: list[subprocess.Popen[bytes] | None] = [None] * workers
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def sets(self) -> list[str]:
        """Return the settings with which a run uses this cluster."""
        conf = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "1g",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": str(self.events),
        }
        return [f"spark.master={self.master}", *(f"spark.conf.{key}={value}" for key, value in conf.items())]

    @property
    def events(self) -> Path:
        """Return the directory of the event logs of runs."""
        return self.directory / "events"

    def __enter__(self) -> Self:
        self.events.mkdir(parents=True)
        port = self.master.rpartition(":")[2]
        ports = ["--port", port, "--webui-port", str(self._page)]
        self._process = self._start("master", "org.apache.spark.deploy.master.Master", *ports)
        wait_until_it_answers(self._process, self.state, lambda: self._said("master"))
        for number in range(len(self._workers)):
            self.start_worker(number)
        return self

    def state(self) -> dict[str, Any]:
        """Return the state that the master reports."""
        with urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=5) as page:
            found: dict[str, Any] = json.loads(page.read())
            return found

    def start_worker(self, number: int) -> None:
        """Start or restart a worker, and wait until the master knows it."""
        name = f"worker-{number}"
        alive = self._alive()
        place = ["--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / name)]
        ports = ["--webui-port", str(free_port())]
        process = self._start(name, "org.apache.spark.deploy.worker.Worker", *place, *ports, self.master)
        self._workers[number] = process

        def known() -> None:
            assert self._alive() > alive

        wait_until_it_answers(process, known, lambda: self._said(name))

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors, as the failure of a machine would."""
        process = self._workers[number]
        assert process is not None
        self._workers[number] = None
        kill_group(process)
        wait_until_it_answers(self._master, self._gone, lambda: self._said("master"))

    def event_log(self) -> list[Path]:
        """Return the files of the last run's event log, in order."""
        newest = max(self.events.iterdir(), key=lambda path: path.stat().st_mtime)
        return sorted(newest.glob("events_*")) if newest.is_dir() else [newest]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self._workers, self._process):
            if process is not None:
                kill_group(process)

    @property
    def _master(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def _alive(self) -> int:
        return sum(worker["state"] == "ALIVE" for worker in self.state()["workers"])

    def _gone(self) -> None:
        assert self._alive() == sum(worker is not None for worker in self._workers)

    def _start(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [java_command(), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", str(HOME / "jars/*"), main]
        log = os.open(self.directory / f"{name}.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        env = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
        try:
            return subprocess.Popen(
                [*command, "--host", "127.0.0.1", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                cwd=self.directory,
                start_new_session=True,
            )
        finally:
            os.close(log)

    def _said(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()[-4000:]
