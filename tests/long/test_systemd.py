"""The systemd unit starts oncelake under a real systemd, with all its restrictions, in namespaces of its own."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.common.spark.jars import cache_home
from tests.support.house import House, error_log_conf, until
from tests.support.places import ROOT

SYSTEMD, HIERARCHY = Path("/lib/systemd/systemd"), Path("/sys/fs/cgroup/systemd")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        os.geteuid() != 0 or not SYSTEMD.exists() or not HIERARCHY.is_dir(),
        reason="needs root, systemd, and a cgroup hierarchy for it",
    ),
]
# systemd as the first process of a PID namespace, in a cgroup of its own: it sees no other process, and no other unit.
START = """
set -e
echo $$ > "$1/cgroup.procs"
exec unshare --mount --pid --fork --cgroup --ipc --uts --kill-child --mount-proc bash -c '
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /var/cache
umount --recursive /sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
mkdir -p /sys/fs/cgroup/systemd /run/systemd/system
mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
cp -r "$1"/. /run/systemd/system/
exec env -i container=other PATH="$PATH" /lib/systemd/systemd --system --unit=nothing.target --log-target=null
' start "$2"
"""
NOTHING = "[Unit]\nDefaultDependencies=no\n"


@dataclass(frozen=True)
class Manager:
    """A systemd in namespaces of its own."""

    pid: int

    def call(self, *arguments: str) -> str:
        """Call systemctl; return what it prints."""
        command = ["nsenter", "--target", str(self.pid), "--mount", "--pid", "systemctl", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200).stdout

    def state(self) -> dict[str, str]:
        """Return the state of the service."""
        shown = self.call("show", "oncelake", "-p", "ActiveState,SubState,Result,ExecMainStatus,NRestarts")
        return dict(line.split("=", 1) for line in shown.splitlines())


@pytest.fixture
def house() -> Iterator[House]:
    """Return a lake outside /tmp, which the service does not share."""
    with tempfile.TemporaryDirectory(prefix="oncelake-test-", dir="/var/lib") as name:
        root = Path(name)
        (root / "conf").mkdir()
        made = House(root, root / "conf/local.yaml")
        conf = {**error_log_conf(), "source": {"path": str(made.logs)}, "lake": {"root": str(made.lake)}}
        made.conf.write_text(yaml.safe_dump(conf))
        made.lake.mkdir()
        yield made


@pytest.fixture
def manager(house: House, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    """Start a systemd that has the service's unit, with what this checkout and its prepared cache need beside it."""
    monkeypatch.chdir(house.root)
    monkeypatch.setattr(sys, "argv", ["oncelake"])
    written = CliRunner().invoke(app, ["install-service", "--dry-run", "--run-as", "root"])
    assert written.exit_code == 0, written.output
    units = house.root / "units"
    (units / "oncelake.service.d").mkdir(parents=True)
    (units / "oncelake.service").write_text(written.output)
    (units / "nothing.target").write_text(NOTHING)
    cache = cache_home().parent
    touched = " ".join(str(place / "touched") for place in (house.logs, house.root, house.lake))
    (units / "oncelake.service.d/test.conf").write_text(
        f"[Service]\nEnvironment=PYTHONPATH={ROOT / 'pipelines'} XDG_CACHE_HOME={cache}\nReadWritePaths={cache}\n"
        f"StandardOutput=append:{house.root}/out\nStandardError=append:{house.root}/out\n"
        f"ExecStartPost=-/bin/sh -c 'for file in {touched}; do touch $file; done'\n"
    )
    cgroup = HIERARCHY / house.root.name
    cgroup.mkdir()
    process = subprocess.Popen(["bash", "-c", START, "start", str(cgroup), str(units)])
    try:
        until(lambda: bool(psutil.Process(process.pid).children()), 30)
        manager = Manager(psutil.Process(process.pid).children()[0].pid)
        until(lambda: "oncelake.service" in manager.call("cat", "oncelake"), 60)
        yield manager
        manager.call("kill", "--signal=KILL", "oncelake")
    finally:
        process.kill()
        process.wait()
        until(lambda: not (cgroup / "cgroup.procs").read_text(), 30)
        for directory in sorted(cgroup.rglob("*"), reverse=True):
            if directory.is_dir():
                directory.rmdir()
        cgroup.rmdir()


def test_the_service_runs_ends_and_starts_again_as_its_unit_says(house: House, manager: Manager) -> None:
    def said() -> str:
        return (house.root / "out").read_text() if (house.root / "out").exists() else ""

    house.write("a.log", b"2017-07-30 14:09:08 ERROR one")
    manager.call("start", "oncelake")
    until(lambda: "gold.error_log: batch 0" in said(), 500)
    house.write("b.log", b"2017-07-30 14:09:09 ERROR two")
    until(lambda: "gold.error_log: batch 1" in said(), 200)
    assert [(place / "touched").exists() for place in (house.logs, house.root, house.lake)] == [False, False, True]
    manager.call("stop", "oncelake")
    assert (manager.state()["Result"], manager.state()["ExecMainStatus"]) == ("success", "0")
    assert said().splitlines()[-1].startswith("done: ")
    house.must_be([b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:09:09 ERROR two"])

    right = house.conf.read_text()
    house.conf.write_text(f"{right}golden: 1\n")
    manager.call("start", "oncelake")
    until(lambda: manager.state()["ActiveState"] == "failed", 60)
    assert (manager.state()["ExecMainStatus"], manager.state()["NRestarts"]) == ("2", "0")

    house.conf.write_text(right)
    manager.call("start", "oncelake")
    until(lambda: manager.state()["SubState"] == "running", 60)
    manager.call("kill", "--signal=KILL", "oncelake")
    until(lambda: manager.state()["SubState"] == "auto-restart", 60)
    assert manager.state()["SubState"] == "auto-restart"
