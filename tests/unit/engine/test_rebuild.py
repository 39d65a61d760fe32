"""A rebuild deletes nothing that it cannot restore, and records what it has begun; without Spark."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oncelake.common.errors import StageError, StateError
from oncelake.engine.chain import Chain
from oncelake.engine.markers import MARKER
from oncelake.engine.rebuild import Rebuild, stages_from
from oncelake.engine.start_gate import refuse_unless_finished
from oncelake.exactly_once.files import LocalFiles
from tests.support.house import House
from tests.support.memory import MemoryFiles, commit, metadata


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Make bronze and silver of two batches each."""
    house, files = House(tmp_path), MemoryFiles()
    for name in ("bronze/access_log", "silver/access_log"):
        commit(files, name, 0, operation="CREATE TABLE")
        for batch in range(2):
            commit(files, name, batch + 1, metadata(batch, name.replace("/", ".")))
    for name, text in files.texts.items():
        (house.lake / name).parent.mkdir(parents=True, exist_ok=True)
        (house.lake / name).write_text(text)
    return house


def rebuild(
    house: House, stage: str, run: Callable[[Chain], None] = lambda _: None, say: Callable[[str], None] = lambda _: None
) -> None:
    """Rebuild a stage, up to the point that needs Spark."""
    chain, spark = house.chain(), None
    without_spark: Any = spark
    stages = stages_from(chain.stages, stage)
    Rebuild(chain, without_spark, stages, run, say).go(accept_loss=False)


def test_silver_is_not_emptied_while_bronze_has_fewer_lines(house: House) -> None:
    (house.table("bronze/access_log") / "_delta_log" / f"{2:020d}.json").unlink()
    said = r"silver is not rebuilt: bronze\.access_log holds 10 lines, but .* hold 20\. Nothing was changed"
    with pytest.raises(StateError, match=said):
        rebuild(house, "silver")
    assert house.versions()["silver/access_log"] == 2
    assert not (house.lake / MARKER).exists()


def test_a_rebuild_that_died_while_it_deleted_is_detected_by_its_marker(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalFiles, "remove", die)
    with pytest.raises(KeyboardInterrupt):
        rebuild(house, "silver")
    with pytest.raises(StateError, match=r"a rebuild of silver, .* is unfinished"):
        refuse_unless_finished(house.chain())


def test_the_rebuild_of_another_stage_does_not_change_the_marker(house: House) -> None:
    (house.lake / MARKER).write_text(json.dumps({"stages": ["silver", "gold.error_log"]}))
    with pytest.raises(StateError, match="Finish it: oncelake rebuild silver"):
        rebuild(house, "gold.error_log")
    assert json.loads((house.lake / MARKER).read_text())["stages"] == ["silver", "gold.error_log"]


def test_a_table_that_is_not_served_any_more_stops_nothing(house: House) -> None:
    (house.lake / MARKER).write_text(json.dumps({"stages": ["serving.error_log"]}))
    refuse_unless_finished(house.chain())
    house.sets = [f"serving.url=sqlite:///{house.root}/served.db", "serving.tables=[error_log]"]
    with pytest.raises(StateError, match=r"a rebuild of serving\.error_log is unfinished"):
        refuse_unless_finished(house.chain())


def test_a_source_that_fails_does_not_keep_silver_from_its_rebuild(house: House) -> None:
    said = list[str]()

    def run(chain: Chain) -> None:
        if chain.stages[0].layer == "bronze":
            raise StageError("bronze.access_log: a.gz cannot be unpacked")

    rebuild(house, "silver", run, said.append)
    assert said == ["not all lines could be read before: bronze.access_log: a.gz cannot be unpacked"]
    assert "silver/access_log" not in house.versions()


def test_a_gold_table_that_is_not_declared_any_more_stops_nothing(house: House) -> None:
    (house.lake / MARKER).write_text(json.dumps({"stages": ["gold.gone"]}))
    refuse_unless_finished(house.chain())
    rebuild(house, "silver")


def test_an_unfinished_rebuild_of_silver_lets_its_own_command_read_bronze_first(house: House) -> None:
    (house.lake / MARKER).write_text(json.dumps({"stages": ["silver", "gold.error_log", "gold.log_volume"]}))
    chain = house.chain()
    bronze = replace(chain, stages=tuple(stage for stage in chain.stages if stage.layer == "bronze"))
    refuse_unless_finished(bronze)
    with pytest.raises(StateError, match="is unfinished"):
        refuse_unless_finished(replace(chain, stages=(*bronze.stages, *chain.stages[-1:])))


def test_a_larger_rebuild_than_the_unfinished_one_is_checked_for_losses(house: House) -> None:
    (house.table("bronze/access_log") / "_delta_log" / f"{2:020d}.json").unlink()
    (house.lake / MARKER).write_text(json.dumps({"stages": ["gold.error_log", "gold.log_volume"]}))
    with pytest.raises(StateError, match="silver is not rebuilt"):
        rebuild(house, "silver")
    assert house.versions()["silver/access_log"] == 2
