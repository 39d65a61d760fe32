"""The gate on refused lines can be for the first batch and large ones alone, and names the most frequent reasons."""

from datetime import UTC, datetime

import pytest

from oncelake.quality.gate import BatchCounts, checks
from oncelake.quality.settings import GateSettings


def counted(lines: int, refused: int, *, is_first: bool = False) -> BatchCounts:
    return BatchCounts(lines, refused, {"pattern": refused}, {}, datetime.now(UTC), is_first)


@pytest.mark.parametrize(
    ("batch", "stops"),
    [
        (counted(1000, 501), True),
        (counted(1000, 500), False),
        (counted(999, 999), False),
        (counted(2, 2, is_first=True), True),
        (counted(2, 1, is_first=True), False),
    ],
    ids=["most of many", "half of many", "all of few", "all of a first batch", "half of a first batch"],
)
def test_a_limit_can_hold_for_first_and_large_batches_alone(batch: BatchCounts, *, stops: bool) -> None:
    (check,) = checks(GateSettings.model_validate({"quarantined": {"fail": 0.5, "fail_from": 1000}}), None)
    assert (check.breach(batch) is not None) is stops


def test_without_a_number_of_lines_a_limit_holds_for_every_batch() -> None:
    (check,) = checks(GateSettings.model_validate({"quarantined": {"fail": 0.5}}), None)
    assert check.breach(counted(3, 2)) == "2 of 3 lines (66.7 %) are refused, the limit is 50.0 %"


def test_a_warning_holds_for_every_batch() -> None:
    limits = GateSettings.model_validate({"quarantined": {"warn": 0.5, "fail": 0.5, "fail_from": 1000}})
    assert [check.level for check in checks(limits, None) if check.breach(counted(3, 2))] == ["warn"]


def test_the_three_most_frequent_reasons_are_named() -> None:
    rules = {"blank": 1, "level": 20, "pattern": 3000, "time": 4}
    assert (
        BatchCounts(4000, 3025, rules, {}, datetime.now(UTC)).frequent == "pattern 3,000, level 20, time 4 and 1 more"
    )
