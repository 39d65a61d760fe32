"""The first stage waits while the others have work, but not too long for the source, and not during a stop."""

import json
import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace

import pytest

from oncelake.common.lake import BRONZE, SILVER, Lake, Table
from oncelake.engine import backpressure
from oncelake.engine.backpressure import Backpressure, has_work
from oncelake.engine.graph import Stage, Target
from oncelake.exactly_once.batch import BatchCallback
from oncelake.exactly_once.delta_log import ChainCommit, TableState
from oncelake.exactly_once.write import Written
from oncelake.silver.schema import SILVER as SCHEMA
from tests.support.memory import at, callback, metadata, offsets

GOLD = Table("gold", "error_log")
SERVED = Table("serving", "error_log")


def state(version: int, read: int) -> TableState:
    """Return the state of a table: the version of its last batch, and the source version up to which it has read."""
    last = ChainCommit(version, "WRITE", {}, {}, 0, metadata(version, after=offsets(at(read))), changes_data=True)
    return TableState(last, newest=last)


@dataclass
class Position:
    """A writer with a given position."""

    state: TableState = field(default_factory=TableState)


@dataclass
class Paced:
    """A chain whose stages do nothing."""

    stopping: threading.Event = field(default_factory=threading.Event)
    looked_up: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.writers = {table: Position() for table in (BRONZE, SILVER, GOLD, SERVED)}
        self.backpressure = Backpressure(Lake("lake", "checkpoints"), self.looked_up.append, self.stopping)
        reads: dict[Table, tuple[Table, ...]] = {BRONZE: (), SILVER: (BRONZE,), GOLD: (SILVER,), SERVED: (GOLD,)}
        self.callbacks = [self._join(*item) for item in reads.items()]

    def _join(self, table: Table, reads: tuple[Table, ...]) -> BatchCallback:
        def nothing(*_: object) -> None: ...

        stage = Stage(table.layer, reads, (Target(table, lambda _: SCHEMA, {}),), nothing, nothing)  # type: ignore[arg-type]
        if table == SERVED:
            stage = replace(stage, writes=(), served=SimpleNamespace(table=SERVED))  # type: ignore[arg-type]
        made = callback(nothing, tables={table: self.writers[table]}, stopping=self.stopping)
        self.backpressure.join(stage, made)
        return made

    def ended(self, stage: int) -> float:
        """End a batch of a stage, and return how long the stage waited."""
        began = time.monotonic()
        self.callbacks[stage].settle({table: written() for table in self.callbacks[stage].tables})
        return time.monotonic() - began


def written(*, by_spark: bool = True) -> Written:
    last = state(3, 0).last
    assert last is not None
    return Written(last, by_spark=by_spark)


def test_there_is_work_until_the_version_was_read_completely() -> None:
    assert not has_work(TableState(), TableState())
    assert has_work(state(3, 0), TableState())
    assert has_work(state(3, 0), state(9, 3))
    assert not has_work(state(3, 0), state(9, 4))
    last = state(3, 0).last
    assert last is not None
    nothing = replace(last, changes_data=False)
    assert not has_work(TableState(nothing), TableState())
    half = metadata(3, after=offsets(at(3) | {"index": 5}))
    assert has_work(state(3, 0), TableState(ChainCommit(9, "WRITE", {}, {}, 0, half)))
    assert json.loads(half.end or "")["index"] == 5


def test_the_first_stage_waits_for_all_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backpressure, "LONGEST", 1.0)
    paced = Paced()
    assert paced.ended(0) < 0.9, "nothing is written yet"
    paced.writers[BRONZE].state = state(3, 0)
    assert paced.ended(0) >= 1.0, "silver has read nothing"
    paced.writers[SILVER].state = state(5, 4)
    assert paced.ended(0) >= 1.0, "gold has read nothing"
    assert paced.ended(1) < 0.9, "another stage goes on"
    threading.Timer(0.1, lambda: setattr(paced.writers[GOLD], "state", state(2, 6))).start()
    monkeypatch.setattr(backpressure, "LONGEST", 10.0)
    assert 0.05 < paced.ended(0) < 5


def test_the_first_stage_does_not_wait_for_a_stage_that_has_not_started() -> None:
    paced = Paced()
    paced.writers[BRONZE].state = state(3, 0)
    paced.backpressure.joined = paced.backpressure.joined[:1]
    assert paced.ended(0) < 1


def test_the_first_stage_does_not_wait_for_a_database() -> None:
    paced = Paced()
    paced.writers[GOLD].state = state(3, 0)
    assert paced.ended(0) < 1


def test_a_stop_ends_the_wait() -> None:
    paced = Paced()
    paced.writers[BRONZE].state = state(3, 0)
    paced.stopping.set()
    assert paced.ended(0) < 1


def test_the_state_of_a_written_table_is_prefetched() -> None:
    paced = Paced()
    paced.ended(1)
    paced.callbacks[2].settle({})
    paced.callbacks[2].settle({GOLD: written(by_spark=False)})
    assert paced.looked_up == ["lake/silver/access_log"]


def test_a_batch_wakes_the_stages_that_read_its_tables_and_its_own() -> None:
    paced, woken = Paced(), list[str]()
    for stage, _ in paced.backpressure.joined:
        paced.backpressure.started(stage, partial(woken.append, stage.name))
    paced.ended(0)
    assert woken == ["silver"]
    paced.ended(1)
    assert woken == ["silver", "silver", "gold"]
    paced.callbacks[1].settle({})
    assert woken[3:] == ["silver"], "a replayed batch wrote nothing, and there may be more to read"
