"""Every command that works on a lake also works on one whose tables are in a catalog, or is refused in one line."""

import os
import shutil
import signal
import webbrowser
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import typer
import yaml
from pyspark.sql import SparkSession

from oncelake.cli.app import app
from oncelake.engine.conf_file import shipped_conf
from tests.support.catalog_house import LAYERS, CatalogHouse
from tests.support.lakes import BATCHES
from tests.support.receivers import Web, web

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("catalog commands")]

PREFIX = "commands_test_"
WITHOUT_LAKE = frozenset({"demo", "format suggest", "format test", "format try"})


@dataclass(frozen=True)
class Call:
    """One call of a command.

    Attributes:
        arguments: what follows the command's name; {root} is the directory of the logs and the lake.
        said: a part of what it prints.
        code: its exit code.
        appended: what another program appends before to a file that the lake has read.
    """

    arguments: str = ""
    said: str = ""
    code: int = 0
    appended: bytes = b""


# in the order of the calls: each finds what the earlier ones left
CALLS: Mapping[str, Call] = {
    "serving init": Call(said="has oncelake_position"),
    "plan": Call("--sample 5", "a new lake in spark_catalog"),
    "run": Call("--once"),
    "status": Call(said="gold.error_log"),
    "doctor": Call(),
    "history": Call(),
    "prove": Call("--deep --full", "holds"),
    "maintain": Call(said="bronze.access_log"),
    "validate": Call(said="silver.access_log, version"),
    "suggest": Call("silver.access_log", "expect_"),
    "quarantine": Call(said="silver.quarantine: "),
    "quarantine replay": Call("--dry-run"),
    "lines": Call("gold.error_log --at 2017-07-30T14:09", "ERROR one"),
    "trace": Call("0.log:broken", "trace finds a line by the files that commits added", 2),
    "report": Call("-o {root}/report.html", "Every link holds"),
    "open": Call("--no-proof", "serving http://127.0.0.1:"),
    "alerts": Call(said="spike: "),
    "alerts test": Call("spike", "a test message is sent"),
    "alerts send": Call(said="spike: "),
    "serving dashboard": Call(said="Grafana reads no sqlite", code=2),
    "recover": Call(),
    "rebuild": Call("gold.error_log"),
    "crash-test": Call(said="a crash test creates its own lake", code=2),
    "census": Call(said="0.log", code=1, appended=b"2017-07-30 14:20:00 INFO after it was read\n"),
    "census exclude": Call("{root}/logs/0.log", "(grew) cannot be excluded", 1),
    "census reread": Call("{root}/logs/0.log", "would count twice", 1),
    "census accept": Call("{root}/logs/0.log", "0.log"),
    "install-service": Call("--dry-run --user", "only the catalog knows where its tables are", 2),
}


@dataclass
class Equipped(CatalogHouse):
    """A lake in a catalog with a suite, an alert and a served table; its file has all settings."""

    @property
    def flags(self) -> list[str]:
        return []

    def equip(self, url: str) -> None:
        """Write what further commands need into the configuration."""
        conf = yaml.safe_load(self.conf.read_text())
        conf["alerts"] = {"spike": {"when": "error_log.log_count > 1000", "to": {"kind": "webhook", "url": url}}}
        conf["serving"] = {"url": f"sqlite:///{self.root}/served.db", "tables": ["error_log"]}
        conf["source"]["path"] = str(self.logs)
        self.conf.write_text(yaml.safe_dump(conf))
        shutil.copytree(shipped_conf() / "expectations", self.root / "expectations")


@pytest.fixture(scope="module")
def receiver() -> Iterator[Web]:
    with web() as found:
        yield found


@pytest.fixture(scope="module")
def equipped(warehouse: Path, tmp_path_factory: pytest.TempPathFactory, receiver: Web) -> Equipped:
    house = Equipped(tmp_path_factory.mktemp("catalog"), warehouse=warehouse, prefix=PREFIX)
    house.equip(receiver.url)
    for number, lines in enumerate(BATCHES):
        house.write(f"{number}.log", *lines)
    return house


def read_and_stop(url: str) -> bool:
    """Read a page as a browser does, then press Ctrl-C."""
    with urlopen(url) as page:
        assert b"oncelake" in page.read()
    os.kill(os.getpid(), signal.SIGINT)
    return True


@pytest.mark.timeout(900)
def test_every_command_works_in_a_catalog(
    equipped: Equipped, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", read_and_stop)
    wrong = {}
    for command, call in CALLS.items():
        with (equipped.logs / "0.log").open("ab") as file:
            file.write(call.appended)
        code, said = equipped.told(spark, *command.split(), *call.arguments.format(root=equipped.root).split())
        if code != call.code or call.said not in " ".join(said.split()):
            wrong[command] = f"{code}: {said}"
    assert wrong == {}
    equipped.must_be(equipped.lines)
    schemas = {row["namespace"] for row in spark.sql("SHOW SCHEMAS").collect()}
    assert {f"{PREFIX}{layer}" for layer in LAYERS} <= schemas
    assert not schemas & set(LAYERS)


def test_every_command_that_reads_a_lake_is_called() -> None:
    assert set(CALLS) == set(commands_with_configuration(typer.main.get_command(app))) - WITHOUT_LAKE


def commands_with_configuration(command: Any, *names: str) -> Iterator[str]:
    """Yield the names of all commands that take a configuration."""
    if names and any(parameter.name == "conf" for parameter in command.params):
        yield " ".join(names)
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands_with_configuration(inner, *names, name)
