"""What an alert sees of a lake without Spark: the age of a stage's last commit."""

from pathlib import Path

import pytest

from oncelake.engine.alerts import parse_condition
from oncelake.exactly_once.files import LocalFiles
from oncelake.observe.alerts.look import LakeLook
from tests.support.house import House
from tests.support.memory import MemoryFiles, commit, metadata

NOW, MINUTE = 1_000_000 * 60_000, 60_000


@pytest.mark.parametrize(
    ("minutes", "holds", "said"),
    [
        (-5, False, "the last commit of bronze was 5 min ago, at "),
        (-11, True, "the last commit of bronze was 11 min ago, at "),
        (1, False, "the last commit of bronze was later than this machine's clock, at "),
        (600_000, True, "the last commit of bronze was later than this machine's clock, at "),
    ],
)
def test_a_commit_later_than_the_clock_is_not_taken_for_a_fresh_one(
    house: House, minutes: int, holds: bool, said: str
) -> None:
    files, name = MemoryFiles(), "bronze.access_log"
    commit(files, str(house.lake / "bronze/access_log"), 0, metadata(0, name, stage="bronze"))
    for path, text in files.texts.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text.replace('"timestamp":1000', f'"timestamp":{NOW + minutes * MINUTE}'))

    def no_spark() -> None:
        pytest.fail("it started Spark")

    condition = parse_condition("freshness of bronze > 10 minutes")
    look = LakeLook(house.chain(), condition, no_spark, LocalFiles())  # type: ignore[arg-type]
    holding = look.holding(NOW)
    assert holding is not None
    assert (holding.holds, holding.text.startswith(said)) == (holds, True), holding
