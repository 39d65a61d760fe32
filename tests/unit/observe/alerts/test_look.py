"""What an alert sees of a lake without Spark: the age of a stage's last commit, and the lines that were refused."""

from pathlib import Path

import pytest

from oncelake.engine.alerts import parse_condition
from oncelake.exactly_once.files import LocalFiles
from oncelake.observe.alerts.look import LakeLook, Window
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


SPAN = 10 * MINUTE
START = NOW - NOW % SPAN


def refusing(house: House, *batches: tuple[int, int, int]) -> LakeLook:
    """Return a look at refused lines in times of ten minutes.

    Args:
        house: the lake.
        batches: of each batch the time of its commit in milliseconds, the lines in silver, and those in quarantine.
    """
    for name, place in (("silver.access_log", 1), ("silver.quarantine", 2)):
        files, path = MemoryFiles(), str(house.lake / name.replace(".", "/"))
        for number, batch in enumerate(batches):
            commit(files, path, number, metadata(number, name))
            log = f"{path}/_delta_log/{number:020d}.json"
            text = files.texts[log].replace(f'"timestamp":{1_000 + number}', f'"timestamp":{batch[0]}')
            files.texts[log] = text.replace('"numOutputRows":"10"', f'"numOutputRows":"{batch[place]}"')
        for file, text in files.texts.items():
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            Path(file).write_text(text)

    def no_spark() -> None:
        pytest.fail("it started Spark")

    condition = parse_condition("refused > 5% in 10 minutes")
    return LakeLook(house.chain(), condition, no_spark, LocalFiles())  # type: ignore[arg-type]


def test_too_many_refused_lines_are_known_before_their_time_is_over(house: House) -> None:
    look = refusing(house, (START + MINUTE, 90, 10))
    windows, until = look.spans(START, START + 2 * MINUTE)
    assert windows == [Window(START, START + SPAN, "10.0 % of 100 lines are refused so far")]
    assert until == START
    windows, until = look.spans(START, START + SPAN)
    assert windows == [Window(START, START + SPAN, "10.0 % of 100 lines are refused")]
    assert until == START + SPAN


def test_a_few_refused_lines_at_the_beginning_of_a_time_alert_only_with_the_lines_before_them(house: House) -> None:
    look = refusing(house, (START - MINUTE, 1000, 0), (START + MINUTE, 5, 5))
    assert look.spans(START, START + 2 * MINUTE) == ([], START)
    assert [window.start_ms for window in look.spans(START, START + SPAN)[0]] == [START]


def test_refused_lines_of_the_time_before_do_not_alert_for_the_next_one(house: House) -> None:
    look = refusing(house, (START - MINUTE, 50, 50), (START + MINUTE, 100, 0))
    assert look.spans(START, START + 2 * MINUTE) == ([], START)
