"""What is damaged in a Delta log is found without Spark, and what nobody needs is set aside."""

from pathlib import Path

import deltalake
import pyarrow
import pytest

from oncelake.engine.chain import named
from oncelake.engine.recover import set_spare_aside
from oncelake.exactly_once.log_damage import LogDamage, find_damage, set_aside
from oncelake.exactly_once.state import State
from tests.support.damages import DAMAGES, TABLES, Damage, checkpoints, commits, cut, with_checkpoints
from tests.support.house import House

CASES = [case for case in DAMAGES if case.prepared is None and "checksum" not in case.what]


def filled(table: Path) -> Path:
    """Write a table of four versions, with checkpoints of the last two, and return its log."""
    for number in range(4):
        deltalake.write_deltalake(str(table), pyarrow.table({"n": [number]}), mode="append")
        if number > 1:
            with_checkpoints(table / "_delta_log")
    return table / "_delta_log"


@pytest.mark.parametrize("case", CASES, ids=[case.what for case in CASES])
def test_what_is_set_aside_leaves_what_delta_rs_reads(tmp_path: Path, case: Damage) -> None:
    log = filled(tmp_path / "table")
    assert find_damage(str(log.parent), deep=True) == LogDamage()
    case.do(log)
    found = find_damage(str(log.parent), deep=True)
    assert bool(found.lost) == bool(case.refused)
    assert bool(found.spare) == bool(case.warned)
    if "rebuild …" in case.commands:
        assert found.back_to is None
        return
    set_aside(str(log.parent), found.spare or found.beyond)
    assert find_damage(str(log.parent), deep=True) == LogDamage()
    version = found.back_to if found.lost else 3
    assert deltalake.DeltaTable(str(log.parent)).version() == version


def test_a_disk_that_does_not_answer_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = filled(tmp_path / "table")
    cut(checkpoints(log)[-1])

    def fails(*_: object, **__: object) -> bytes:
        raise OSError("Input/output error")

    monkeypatch.setattr(Path, "read_bytes", fails)
    assert not find_damage(str(log.parent), deep=True)


def test_a_stage_of_a_damaged_log_may_not_start(tmp_path: Path) -> None:
    house = House.with_error_log(tmp_path)
    log = filled(house.table(TABLES[0]))
    cut(commits(log)[-1])
    chain = house.chain()
    for name in ("bronze", "silver"):
        found = chain.stage_state(named(chain.stages, name)).diagnosis
        assert found.state is State.LOG_DAMAGED
        assert found.seen == f"in the log of bronze.access_log, {3:020}.json cannot be read"


def test_a_checkpoint_that_nobody_can_read_is_set_aside(tmp_path: Path) -> None:
    house = House.with_error_log(tmp_path)
    log = filled(house.table(TABLES[0]))
    cut(checkpoints(log)[-1])
    (said,) = set_spare_aside(house.chain())
    assert f"{3:020}.checkpoint.parquet" in said
    assert set_spare_aside(house.chain()) == []
    assert deltalake.DeltaTable(str(log.parent)).version() == 3


@pytest.mark.parametrize("error", [pyarrow.ArrowMemoryError, pyarrow.ArrowNotImplementedError])
def test_a_checkpoint_that_does_not_fit_into_the_memory_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error("malloc of size 300 MB failed")

    log = filled(tmp_path / "table")
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.read_row_group", fails)
    assert find_damage(str(log.parent), deep=True) == LogDamage()
