"""The thread of an alert: soon after a batch, seldom otherwise, once more at the end, and no error reaches the run."""

import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from oncelake.common.background import Background
from oncelake.common.errors import LockedError, StateError
from oncelake.common.lake import SILVER, Lake
from oncelake.exactly_once.batch import CommittedBatch
from oncelake.observe.alerts.alert_watch import AlertWatch, alone
from oncelake.observe.alerts.state import AlertState
from tests.support.house import until


@dataclass
class Rounds:
    """Rounds that answer as told."""

    answers: list[AlertState | Exception] = field(default_factory=list)
    made: int = 0
    said: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    go_on: threading.Event | None = None

    def one(self, _: float | None) -> AlertState:
        self.made += 1
        self.times.append(time.monotonic())
        if self.go_on is not None:
            self.go_on.wait(20)
        answer = self.answers.pop(0) if self.answers else AlertState("proof fails", 0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def watch(self, *, often: float = 0.01, seldom: float = 60.0) -> AlertWatch:
        return AlertWatch(self.one, self.said.append, "gold.error_log", often, seldom)


def batch(stage: str = "gold.error_log") -> CommittedBatch:
    return CommittedBatch(stage, 0, {str(SILVER) if stage == "silver" else stage: 1}, 0.1, replayed=False)


def start(watch: AlertWatch) -> Background:
    thread = watch.thread("alert")
    thread.start()
    return thread


def take(watch: AlertWatch, thread: Background, report: CommittedBatch) -> None:
    if watch.is_moved_by(report):
        thread.wake()


def end(thread: Background, seconds: float = 5) -> None:
    thread.end()
    thread.join(seconds)


def test_a_batch_of_its_table_is_looked_at_soon() -> None:
    rounds = Rounds()
    watch = rounds.watch()
    thread = start(watch)
    until(lambda: rounds.made == 1, 5)
    take(watch, thread, batch("silver"))
    time.sleep(0.1)
    assert rounds.made == 1
    take(watch, thread, batch())
    until(lambda: rounds.made == 2, 5)
    end(thread)
    assert rounds.made == 3


def test_the_last_batch_is_looked_at_before_the_run_ends() -> None:
    rounds = Rounds()
    watch = rounds.watch(often=60)
    thread = start(watch)
    until(lambda: rounds.made == 1, 5)
    take(watch, thread, batch())
    end(thread)
    assert rounds.made == 2


def test_a_round_that_hangs_holds_the_end_of_a_run_for_a_limited_time() -> None:
    go_on = threading.Event()
    rounds = Rounds(go_on=go_on)
    watch = rounds.watch()
    thread = start(watch)
    until(lambda: rounds.made == 1, 5)
    began = time.monotonic()
    end(thread, 0.2)
    assert time.monotonic() - began < 10
    go_on.set()
    thread.join(5)


def test_a_failure_is_said_once_and_so_is_its_end() -> None:
    away = AlertState("proof fails", 0, failed="slack receiver of a: it answers 503")
    rounds = Rounds([away, away, away])
    watch = rounds.watch()
    for _ in range(5):
        watch.once()
    assert rounds.said == [
        "slack receiver of a: it answers 503; unsent: 0. Nothing is lost: it is tried again",
        "works again",
    ]
    assert watch.fails == 0


def test_pauses_grow_while_the_receiver_is_away() -> None:
    rounds = Rounds([AlertState("proof fails", 0, failed="away")] * 20)
    watch = rounds.watch(seldom=0.01)
    thread = start(watch)
    until(lambda: rounds.made == 6, 5)
    end(thread)
    pauses = [later - earlier for earlier, later in pairwise(rounds.times[:6])]
    assert len(pauses) == 5
    assert all(pause >= 0.01 * 2**fails for fails, pause in enumerate(pauses, 1))


def test_no_error_ends_the_thread() -> None:
    rounds = Rounds([OSError("disk full"), StateError("the state cannot be read"), ValueError("odd")])
    watch = rounds.watch(seldom=0.01)
    thread = start(watch)
    until(lambda: rounds.made >= 4, 5)
    end(thread)
    assert rounds.said == ["OSError: disk full", "works again"]


def test_an_alert_that_another_process_works_on_is_no_failure() -> None:
    rounds = Rounds([LockedError("held by process 1")])
    watch = rounds.watch()
    watch.once()
    assert (rounds.said, watch.fails) == ([], 0)


def test_two_processes_do_not_work_on_one_alert(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), str(tmp_path / "_checkpoints"))
    with alone(lake, "spike"):
        with alone(lake, "other"):
            pass
        with pytest.raises(LockedError), alone(lake, "spike"):
            pass
    with alone(lake, "spike"):
        pass
