"""A run counts the backlog after a batch; if a count takes long, only now and then."""

from types import SimpleNamespace
from typing import Any

import pytest

from oncelake.exactly_once.batch import CommittedBatch
from oncelake.exactly_once.source import Backlog
from oncelake.observe import progress
from oncelake.observe.progress import Display, Progress


class Shown(Display):
    """Keeps the backlogs that are shown."""

    def __init__(self) -> None:
        self.backlogs: list[int | None] = []

    def show(self, report: CommittedBatch, waits: Backlog | None) -> None:
        del report
        self.backlogs.append(waits.count if waits else None)


@pytest.mark.parametrize(
    ("count_takes", "shown"), [(0.05, [7, 7, 7, 7]), (1.0, [7, None, None, 7])], ids=["short", "long"]
)
def test_a_long_count_is_made_now_and_then(
    monkeypatch: pytest.MonkeyPatch, count_takes: float, shown: list[int | None]
) -> None:
    now = [0.0]
    chain: Any = SimpleNamespace(stages=[SimpleNamespace(name="bronze")], stage_state=lambda stage: stage)

    def count(_: object) -> Backlog:
        now[0] += count_takes
        return Backlog(7, "files")

    monkeypatch.setattr(progress, "backlog", count)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    display = Shown()
    run = Progress(chain, display)
    for batch in range(4):
        run(CommittedBatch("bronze", batch, {}, 0.1, replayed=False))
        run.show()
        now[0] += 20
    assert display.backlogs == shown
