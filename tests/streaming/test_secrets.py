"""A secret of the configuration is in no command line, log, table, checkpoint or page; a locale hides no file."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyspark.sql import SparkSession

from tests.support.house import House
from tests.support.places import ROOT

pytestmark = [
    pytest.mark.chain,
    pytest.mark.xdist_group("secrets"),  # the commands run once for all of them
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="command lines are read from Linux's /proc"),
]

CANARY = "canary-e8a1"
NAME = "größe-日本.log"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{CANARY}-kafka";'
ALERTS = {
    # nobody listens there, so that messages fail
    "web": {
        "when": "freshness of silver > 0 seconds",
        "to": {"kind": "webhook", "url": f"http://127.0.0.1:9/{CANARY}"},
    },
    "page": {
        "when": "error_log.log_count > 0",
        "to": {"kind": "pagerduty", "url": "http://127.0.0.1:9/", "key": f"{CANARY}-routing"},
        "since": "2017-01-01T00:00:00Z",
    },
    "mail": {
        "when": "freshness of silver > 0 seconds",
        "to": {"kind": "email", "host": "127.0.0.1", "port": 9, "user": "u", "password": f"{CANARY}-mail"}
        | {"sender": "a@b", "recipients": ["c@d"]},
    },
}
MASK = {"key_variable": "MASK_KEY", "rules": [{"pattern": "one", "action": "hash"}]}


@dataclass
class SinkContents:
    """What any user of the machine could read while commands ran, and what they left behind.

    Attributes:
        lines: the command lines with the canary.
        logs: what Spark wrote into its log during that time.
        said: what the commands printed.
    """

    house: House
    lines: set[bytes] = field(default_factory=set)
    logs: set[str] = field(default_factory=set)
    said: list[str] = field(default_factory=list)

    @property
    def temporary(self) -> Path:
        return self.house.root / "tmp"

    @property
    def serving(self) -> dict[str, str]:
        return {
            "ONCELAKE_SERVING__URL": f"sqlite:///{self.house.root / 'served.db'}",
            "ONCELAKE_SERVING__PASSWORD": f"{CANARY}-serving",
        }

    def make_served_tables(self, spark: SparkSession) -> None:
        """Run `serving init` in this process."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.serving.items():
                patch.setenv(name, value)
            self.said.append(self.house.tell(spark, "serving", "init"))

    def call(self, *arguments: str, java: str = "", expect: int = 0) -> None:
        """Run a command with a canary in every secret, in a locale that is not UTF-8."""
        conf = {
            "spark.hadoop.fs.s3a.secret.key": f"{CANARY}-s3",
            "spark.hadoop.fs.s3a.session.token": f"{CANARY}-token",
            "spark.driver.extraJavaOptions": f"{java} -Djavax.net.ssl.keyStorePassword={CANARY}-java",
        }
        environment = {
            **os.environ,
            **self.serving,
            "LC_ALL": "C",
            "TMPDIR": str(self.temporary),
            "SPARK_SUBMIT_OPTS": f"{self.house.java} -Djava.io.tmpdir={self.temporary}",
            "ONCELAKE_SPARK__CONF": json.dumps(conf),
            "MASK_KEY": f"{CANARY}-mask-key",
            "ONCELAKE_ALERTS": json.dumps(ALERTS),
            "ONCELAKE_SOURCE__MASK": json.dumps(MASK),
            "ONCELAKE_SOURCE__KAFKA": json.dumps({"sasl.jaas.config": JAAS}),
        }
        command = [sys.executable, "-m", "oncelake", *arguments, *self.house.options]
        done = subprocess.run(
            command,
            env={**environment, "PYTHONPATH": str(ROOT / "pipelines")},
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=self.house.root,
            check=False,
        )
        self.said.append(f"{done.stdout}{done.stderr}")
        assert done.returncode == expect, self.said[-1]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Read every command line and Spark's log, again and again, during the block."""
        stop = threading.Event()

        def watch() -> None:
            while not stop.wait(0.02):
                self._look()

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _look(self) -> None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes()
            except OSError:
                continue
            if CANARY.encode() in line:
                self.lines.add(line)
        for log in self.temporary.glob("oncelake-*/spark.log"):
            try:
                self.logs.add(log.read_text(errors="replace"))
            except OSError:
                continue


@pytest.fixture(scope="module")
def seen(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SinkContents:
    house = House.with_error_log(tmp_path_factory.mktemp("secrets"))
    house.write(NAME, b"2017-07-30 14:38:59 ERROR one", b"2017-07-30 14:38:59 INFO two", b"no time")
    seen = SinkContents(house)
    seen.temporary.mkdir()
    seen.make_served_tables(spark)
    with seen.watching():
        seen.call("run", "--once")
        seen.call("report", "--no-proof", "-o", str(house.root / "page.html"))
        seen.call("doctor", "--json")
        seen.call("status")
        seen.call("alerts")
        seen.call("alerts", "test", "page", expect=1)
        house.write("new.log", b"a run without a new file would not start Java")
        seen.call("run", "--once", java="-Xms99g", expect=1)
    return seen


def test_no_secret_is_in_the_command_line_of_a_process(seen: SinkContents) -> None:
    assert not seen.lines


def test_no_secret_is_left_in_a_file_or_printed(seen: SinkContents) -> None:
    assert not [said for said in (*seen.said, *seen.logs) if CANARY in said]
    assert seen.logs, "no log of Spark's was seen"
    assert "page: pagerduty receiver of page: Connection refused" in "".join(seen.said)
    files = [path for path in seen.house.root.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".parquet", ".json", ".html", ".db"}
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]


def test_the_files_that_started_spark_are_removed(seen: SinkContents) -> None:
    assert not list(seen.temporary.glob("oncelake-start-*"))


def test_a_file_whose_name_is_not_ascii_is_read_in_any_locale(seen: SinkContents) -> None:
    assert seen.house.size("bronze/access_log") == 3
    assert {Path(unquote(row["file"])).name for row in seen.house.rows("bronze/access_log")} == {NAME}
