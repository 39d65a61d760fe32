"""A run on a terminal, and a watch in another process: both agree with the tables."""

import os
import signal
import sys

import pytest

from oncelake.lab.demo.made_log import write_late_and_broken, write_log
from tests.support.house import House, events, until
from tests.support.processes import newest
from tests.support.terminal import HIDE, SHOW, Terminal

pytestmark = pytest.mark.chain


def test_a_run_draws_its_board_and_a_watch_reports_each_batch(shipped_house: House) -> None:
    house = shipped_house
    write_log(house.logs, 500)
    watch = house.start("status", "--watch", "--json", "--every", "0.3")
    terminal = Terminal.start([sys.executable, "-m", "oncelake", "run", *house.options], house.root)
    gold = house.lake / "_checkpoints/gold/log_volume/commits"
    terminal.wait_for(lambda _: newest(gold) >= 0, seconds=240)
    write_late_and_broken(house.logs / "more", late=20, broken=6)
    terminal.wait_for(lambda _: newest(gold) >= 1, seconds=120)
    terminal.wait_for(lambda said: "6 lines to quarantine, 6 so far" in said)
    os.kill(terminal.process.pid, signal.SIGTERM)
    assert terminal.end() == 0, terminal.said[-4_000:]
    until(lambda: watch.poll() is not None, 1.5)
    os.kill(watch.pid, signal.SIGINT)
    said, _ = watch.communicate(timeout=30)
    assert watch.returncode == 0, said

    assert "starting Spark" in terminal.said
    assert terminal.said.count(HIDE) == terminal.said.count(SHOW)
    assert terminal.said.rfind(SHOW) > terminal.said.rfind(HIDE)
    *_, last = terminal.frames
    assert last[-2].startswith("done: ")
    assert [line.split()[:3] for line in last if line.startswith(("bronze", "gold"))] == [
        ["bronze", "1", "526"],
        ["gold.error_log", "1", str(sum(_rows(said, "gold.error_log")))],
        ["gold.log_volume", "1", str(sum(_rows(said, "gold.log_volume")))],
    ]
    assert sum(_rows(said, "bronze")) == 526
    assert sum(_rows(said, "silver")) == 526
    told = events(said)
    assert [entry["state"] for entry in told if entry.get("stage") == "bronze" and entry["event"] == "status"][
        -1
    ] == "aligned"
    assert [entry["writing"] for entry in told if entry["event"] == "writer"] == [False, True, False]
    assert all(entry["level"] == "info" for entry in told)


def _rows(said: str, stage: str) -> list[int]:
    """Return the rows of each batch that a watch reported, and check that it reported each once."""
    batches = [event for event in events(said) if event["event"] == "batch" and event["stage"] == stage]
    assert [batch["batch_id"] for batch in batches] == [0, 1]
    assert all(batch["position"] and batch["query"] for batch in batches)
    return [sum(batch["rows"].values()) for batch in batches]
