"""The status of a running chain comes from its commits: each batch once, and only new commits are read."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from oncelake.cli.program import reported, warning
from oncelake.common.errors import StageError
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Lake
from oncelake.exactly_once.batch import CommittedBatch, Notice
from oncelake.exactly_once.lease import NAME, writer
from oncelake.exactly_once.source import Backlog, Unit
from oncelake.observe.board import BoardEvent
from oncelake.observe.lake_watch import LakeWatch
from oncelake.observe.live import LiveBoard, RunBoard
from oncelake.observe.log_cache import RELIST, CachedLog, cached
from oncelake.observe.progress import JsonLines, Lines, sentence
from tests.support.house import House, events
from tests.support.memory import QUERY, MemoryFiles, checkpoint, commit, metadata, offsets, table
from tests.support.terminal import HIDE, SHOW, Terminal

POSITION = '{"sourceVersion":1,"reservoirId":"source-id","reservoirVersion":4,"index":-1}'


class CountingFiles(MemoryFiles):
    """Counts the calls that it gets."""

    reads = 0
    lists = 0

    def read(self, path: str) -> str | None:
        self.reads += 1
        return super().read(path)

    def names(self, path: str) -> list[str]:
        self.lists += 1
        return super().names(path)


def test_only_the_new_commits_of_a_long_log_are_read() -> None:
    files = CountingFiles()
    table(files, "t", batches=3_000)
    commit_log = CachedLog(files, "t")
    assert commit_log.state().last == commit_log.commit(3_000)
    files.reads = files.lists = 0
    for _ in range(10):
        assert commit_log.newest() == 3_000
        assert commit_log.state().rows == 30_000
    assert files.lists == 0
    assert files.reads <= 10 * 6
    commit(files, "t", 3_001, metadata(3_000))
    assert commit_log.state().rows == 30_010
    assert commit_log.newest() == 3_001


def test_a_recreated_table_is_read_again() -> None:
    files = MemoryFiles()
    table(files, "t", batches=5)
    commit_log = CachedLog(files, "t")
    assert (commit_log.newest(), commit_log.table_id()) == (5, "t-id")
    files.remove("t")
    table(files, "t", batches=2)
    files.texts = {path: text.replace("t-id", "other-id") for path, text in files.texts.items()}
    assert (commit_log.table_id(), commit_log.newest(), commit_log.state().rows) == ("other-id", 2, 20)
    assert commit_log.commit(4) is None
    files.remove("t")
    assert (commit_log.newest(), commit_log.table_id()) == (None, None)


def test_cleaned_up_commits_are_forgotten() -> None:
    files, now = MemoryFiles(), [0.0]
    table(files, "t", batches=5)
    commit_log = CachedLog(files, "t", clock=lambda: now[0])
    assert commit_log.versions() == [0, 1, 2, 3, 4, 5]
    files.remove("t/_delta_log/00000000000000000001.json")
    now[0] = RELIST + 1
    assert commit_log.versions() == [0, 2, 3, 4, 5]
    assert commit_log.commit(1) is None


def bronze(house: House, batches: int) -> None:
    """Write a bronze table and its checkpoint in their state after this many batches."""
    files = MemoryFiles()
    at = str(house.table("bronze/access_log"))
    commit(files, at, 0, operation="CREATE TABLE")
    place = str(house.checkpoint("bronze"))
    checkpoint(files, place, batches - 1)
    for batch in range(batches):
        before, after = (json.dumps({"logOffset": number}) for number in (batch - 1, batch))
        text = files.texts[f"{place}/offsets/{batch}"] = offsets(json.loads(after))
        files.texts[f"{place}/sources/0/{batch}"] = "v1"
        own: dict[str, object] = {"stage": "bronze", "source": {}, "before": before if batch else None, "after": text}
        commit(files, at, batch + 1, metadata(batch, "bronze.access_log", **own))
    on_disk(files)


def on_disk(files: MemoryFiles) -> None:
    for path, text in files.texts.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)


def test_a_watch_reports_each_batch_and_each_change_of_state_once(house: House) -> None:
    said: list[str] = []
    follow = LakeWatch(cached(house.chain()), JsonLines(said.append))
    follow.look()
    follow.look()
    told = [json.loads(line) for line in said]
    assert [entry["event"] for entry in told] == ["status"] * 4 + ["writer"]
    assert told[0]["stage"] == "bronze"
    assert told[0]["state"] == "fresh"
    assert told[-1]["writing"] is False
    del said[:]
    for batches in (1, 1, 3):
        bronze(house, batches)
        follow.look()
    batches_told = [entry for entry in map(json.loads, said) if entry["event"] == "batch"]
    assert [(entry["stage"], entry["batch_id"], entry["query"]) for entry in batches_told] == [
        ("bronze", number, QUERY) for number in range(3)
    ]
    assert batches_told[2]["position"] == {"logOffset": 2}
    shutil.rmtree(house.checkpoint("bronze"))
    follow.look()
    states = [entry for entry in map(json.loads, said) if entry["event"] == "status"]
    assert [(state["state"], state["level"]) for state in states] == [("aligned", "info"), ("checkpoint lost", "error")]


def test_a_batch_of_two_tables_is_reported_once_both_have_it(house: House) -> None:
    bronze(house, 1)
    said: list[str] = []
    follow = LakeWatch(cached(house.chain()), JsonLines(said.append))
    follow.look()
    del said[:]
    files, place = MemoryFiles(), str(house.checkpoint("silver"))
    commit(files, str(house.table("silver/access_log")), 0, metadata(0))
    checkpoint(files, place, 0)
    spark_says_done = files.texts.pop(f"{place}/commits/0")
    on_disk(files)
    follow.look()
    assert [entry for line in said for entry in events(line) if entry["event"] == "batch"] == []
    commit(files, str(house.table("silver/quarantine")), 0, metadata(0, "silver.quarantine"))
    files.write(f"{place}/commits/0", spark_says_done)
    on_disk(files)
    follow.look()
    (told,) = [entry for line in said for entry in events(line) if entry["event"] == "batch"]
    assert told["rows"] == {"silver.access_log": 10, "silver.quarantine": 10}


def test_a_watch_of_a_full_lake_reports_its_state_and_no_old_batch(house: House) -> None:
    bronze(house, 3)
    said: list[str] = []
    follow = LakeWatch(cached(house.chain()), Lines(said.append))
    follow.look()
    follow.look()
    assert said[0].startswith("bronze: aligned: batch 2, committed ")
    assert said[0].endswith("30 rows, backlog 0 files")
    assert said[-1] == "no run is writing"
    assert len(said) == 5


def event(said: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(said)
    assert list(told)[:3] == ["time", "level", "event"]
    return told


def report(**changed: Any) -> CommittedBatch:
    values = {
        "stage": "silver",
        "batch_id": 3,
        "rows": {str(SILVER): 90, str(QUARANTINE): 10},
        "seconds": 2.0,
        "replayed": False,
    }
    return CommittedBatch(**{**values, "query_id": QUERY, "position": POSITION, "ended": 1_785_420_000.1239, **changed})


@pytest.mark.parametrize(
    ("batch", "waits", "said"),
    [
        ({"rows": {str(BRONZE): 1}, "seconds": 0.5}, ("files", 1), "batch 3, 1 row, 0.5 s (2 rows/s), backlog 1 file"),
        (
            {"rows": {str(BRONZE): 20_000}, "seconds": 5.0},
            ("files", 0),
            "20,000 rows, 5.0 s (4,000 rows/s), backlog 0 files",
        ),
        (
            {"rows": {"gold.a": 1}, "seconds": 75.2},
            ("rows", 1),
            "1 row merged, 1 min 15 s, backlog 1 row",
        ),
    ],
)
def test_a_line_of_a_batch_has_its_nouns_in_the_right_number(
    batch: dict[str, Any], waits: tuple[Unit, int], said: str
) -> None:
    unit, count = waits
    assert sentence(report(**batch), Backlog(count, unit)).endswith(said)


def test_a_json_line_has_time_level_query_batch_and_position() -> None:
    said: list[str] = []
    lines = JsonLines(said.append)
    lines.show(report(), Backlog(7, "rows"))
    lines.show(report(warned=("rows: too few",)), None)
    lines.tell(Notice("serving.t", "it is away", "waiting", 4, QUERY, POSITION, since=1_785_420_001.0))
    lines.tell(Notice("bronze", "group x is not told", "warning", since=1_785_420_002.0))
    batch, warned, waiting, notice = map(event, said)
    assert batch == {
        "time": "2026-07-30T14:00:00.123Z",
        "level": "info",
        "event": "batch",
        "stage": "silver",
        "query": QUERY,
        "batch_id": 3,
        "rows": {"silver.access_log": 90, "silver.quarantine": 10},
        "seconds": 2.0,
        "replayed": False,
        "backlog": 7,
        "backlog_unit": "rows",
        "position": json.loads(POSITION),
    }
    assert (warned["level"], warned["warned"]) == ("warning", ["rows: too few"])
    assert (waiting["event"], waiting["text"], waiting["batch_id"]) == ("waiting", "it is away", 4)
    assert waiting["position"] == json.loads(POSITION)
    assert (notice["event"], notice["level"], notice["stage"]) == ("warning", "warning", "bronze")
    assert "batch_id" not in notice


def test_a_failure_for_programs_names_its_query_and_batch(capsys: pytest.CaptureFixture[str]) -> None:
    told = {"stage": "silver", "query": QUERY, "batch_id": 3, "position": json.loads(POSITION)}
    warning("a file grew", as_json=True)
    with pytest.raises(typer.Exit) as ended, reported(as_json=True, verbose=False):
        raise StageError("silver stopped in batch 3: disk full", told)
    assert ended.value.exit_code == 1
    out, err = capsys.readouterr()
    warned, failure = map(event, out.splitlines())
    assert (warned["event"], warned["level"], warned["text"]) == ("warning", "warning", "a file grew")
    assert failure.items() >= {"event": "error", "level": "error", "exit_code": 1, **told}.items()
    assert "oncelake: silver stopped in batch 3: disk full" in err


def test_a_run_shows_the_recorded_state_first_and_then_its_own_batches(house: House) -> None:
    bronze(house, 2)
    chain = house.chain()
    board = RunBoard(Console(file=io.StringIO(), width=80), chain, "oncelake run", chain.states())
    with board:
        row, silver, *_ = board.board().rows
        assert (row.batch_id, row.this_run, row.rows, row.backlog, len(row.history)) == (1, 0, 20, 0, 2)
        assert silver.note == "running its first batch"
        bronze(house, 3)
        board.show(report(stage="bronze", batch_id=2, rows={BRONZE: 10}), Backlog(0, "files"))
        row, silver, *_ = board.board().rows
        assert (row.batch_id, row.this_run, row.rows, row.rate, row.committed) == (2, 10, 30, 5.0, 1_785_420_000.1239)
        assert (len(row.history), row.freshness, silver.backlog) == (3, 1.002, 30)
        said = "".join(line.plain for line in board.board().lines(80, 24))
    assert "10 lines · since " in said


def test_a_repeated_event_replaces_the_last_one(house: House) -> None:
    board = LiveBoard(Console(width=80), house.chain(), "oncelake run", clock=lambda: 0.0)
    board.show(report(batch_id=1, replayed=True, rows={SILVER: 0}, ended=1.0), None)
    board.tell(Notice("gold.error_log", "the disk", "waiting", 4, QUERY, POSITION, since=2.0))
    for batch in range(20):
        board.show(report(batch_id=batch, warned=("rows: too few",), ended=10.0 + batch), None)
    assert board.board().events == (
        BoardEvent(1.0, "silver: batch 1: was in the table already, nothing written"),
        BoardEvent(2.0, "gold.error_log: the disk", "warning"),
        BoardEvent(29.0, "silver: batch 19: warning: rows: too few", "warning"),
        BoardEvent(29.0, "silver: batch 19: 10 lines to quarantine, 200 so far", "warning"),
    )


def test_the_lock_holder_is_reported_without_taking_the_lock(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), str(tmp_path / "_checkpoints"))
    assert writer(lake) is None
    assert not (tmp_path / NAME).exists()
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB); "
    code += "f.write('process 7 on here\\nid\\n'); f.flush(); print('locked', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(tmp_path / NAME)]
    for _ in range(2):  # a check of the lock does not block the next holder
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "locked\n"
            assert writer(lake) == "process 7 on here"
            holder.communicate("")
        assert writer(lake) is None


@pytest.mark.parametrize(
    ("environment", "draws", "colours"),
    [({}, True, True), ({"NO_COLOR": "1", "PYTHONIOENCODING": "ascii"}, True, False), ({"TERM": "dumb"}, False, False)],
)
def test_ctrl_c_ends_a_watch_and_restores_the_terminal(
    house: House, environment: dict[str, str], *, draws: bool, colours: bool
) -> None:
    bronze(house, 3)
    command = [sys.executable, "-m", "oncelake", "status", "--watch", "--every", "0.2", *house.options]
    terminal = Terminal.start(command, house.root, environment=environment)
    terminal.wait_for(lambda said: said.count("bronze") >= (3 if draws else 1) and "no run is writing" in said)
    os.kill(terminal.process.pid, signal.SIGINT)
    assert terminal.end() == 0
    assert terminal.said.count(HIDE) == terminal.said.count(SHOW) == int(draws)
    assert terminal.said.rfind(SHOW) >= terminal.said.rfind(HIDE)
    assert ("\x1b[3" in terminal.said) == colours
    assert "Traceback" not in terminal.said
    assert terminal.said.isascii() == ("PYTHONIOENCODING" in environment or not draws)
    if draws:
        assert all(len(line) <= 80 for frame in terminal.frames for line in frame)
        assert any(line.split()[:3] == ["bronze", "aligned", "2"] for line in terminal.frames[-1])


def test_a_second_ctrl_c_ends_at_once_and_restores_the_cursor(tmp_path: Path) -> None:
    code = "import threading, time; from oncelake.cli.program import stop_on_signals; stopping = threading.Event(); "
    code += "stop_on_signals(stopping); print('ready', flush=True); stopping.wait(); print('once', flush=True); "
    code += "time.sleep(60)"
    terminal = Terminal.start([sys.executable, "-c", code], tmp_path)
    for word in ("ready", "once"):
        terminal.wait_for(lambda said, word=word: word in said)  # type: ignore[misc]
        os.kill(terminal.process.pid, signal.SIGINT)
    assert terminal.end(20) == -signal.SIGINT
    assert terminal.said.endswith(f"{SHOW}\r\n")
