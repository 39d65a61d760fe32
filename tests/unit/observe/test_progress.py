"""A run counts the backlog after a batch; if a count takes long, only now and then."""

from types import SimpleNamespace
from typing import Any

import pytest

from oncelake.exactly_once.batch import CommittedBatch
from oncelake.exactly_once.source import Backlog
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

    def count(at: str | None, *, changes: bool) -> Backlog:
        assert (at, changes) == ("here", False), "counted from the batch's own position"
        now[0] += count_takes
        return Backlog(7, "files")

    stage = SimpleNamespace(name="bronze", served=None)
    chain: Any = SimpleNamespace(stages=[stage], source=lambda _: SimpleNamespace(backlog=count))
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    display = Shown()
    run = Progress(chain, display)
    for batch in range(4):
        run(CommittedBatch("bronze", batch, {}, 0.1, replayed=False, position="here"))
        run.show()
        now[0] += 20
    assert display.backlogs == shown
