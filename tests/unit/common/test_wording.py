"""A count, an age, a duration, a size, a share and a long list each have one format."""

import pytest

from oncelake.common.wording import (
    age,
    ago,
    count_of,
    did_you_mean,
    duration,
    listed,
    number,
    share,
    short_number,
    size,
)


def test_a_noun_agrees_with_its_number() -> None:
    assert [count_of(each, "batch") for each in (0, 1, 2)] == ["0 batches", "1 batch", "2 batches"]
    assert [count_of(each, "row") for each in (1, 20_000)] == ["1 row", "20,000 rows"]


def test_a_verb_agrees_with_its_number() -> None:
    assert [count_of(each, "file is there", "files are there") for each in (1, 1_200)] == [
        *("1 file is there", "1,200 files are there"),
    ]


def test_an_unknown_number_is_not_zero() -> None:
    assert [number(each) for each in (None, 0, 1_197_432)] == ["?", "0", "1,197,432"]
    assert count_of(None, "line") == "? lines"
    assert share(None, 3) == share(3, None) == "? %"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (9, "9"), (0.0, "0.0"), (9.94, "9.9"), (10.0, "10"), (99_999_999, "99,999,999"), (1.2e8, "120 M")],
)
def test_a_number_in_a_narrow_column_is_short(value: float, text: str) -> None:
    assert short_number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.0, "0.0 s"), (0.25, "0.2 s"), (18.74, "18.7 s"), (59.94, "59.9 s"), (59.96, "1 min"), (0, "0 s")),
        *((59, "59 s"), (61, "1 min 1 s"), (125.4, "2 min 5 s"), (3600, "1 h"), (3605, "1 h"), (90_061, "1 d 1 h")),
        *((3_463_200, "40 d 2 h"), (300, "5 min")),
    ],
)
def test_a_duration_has_tenths_below_a_minute_and_two_units_above(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-0.9, "0 s"), (0.9, "0 s"), (15.2, "15 s"), (59.9, "59 s"), (60, "1 min"), (150, "2 min"), (7199, "1 h")),
        *((7200, "2 h"), (200_000, "2 d")),
    ],
)
def test_an_age_is_shown_in_its_largest_unit_and_rounded_down(seconds: float, text: str) -> None:
    assert age(seconds) == text
    assert ago(seconds) == f"{text} ago"


@pytest.mark.parametrize(("seconds", "text"), [(-1.0, "1 s"), (-125.0, "2 min"), (-7200, "2 h")])
def test_a_time_in_the_future_has_no_age(seconds: float, text: str) -> None:
    assert age(seconds) == "?"
    assert ago(seconds) == f"{text} in the future"


@pytest.mark.parametrize(
    ("count", "text"),
    [
        *(
            (0, "0 bytes"),
            (1, "1 byte"),
            (999, "999 bytes"),
            (1000, "1.0 kB"),
            (4_100, "4.1 kB"),
            (288_462, "288.5 kB"),
        ),
        *((999_949, "999.9 kB"), (999_950, "1.0 MB"), (2_500_000, "2.5 MB"), (3 * 10**15, "3,000.0 TB")),
    ],
)
def test_a_size_has_the_unit_that_keeps_it_below_a_thousand(count: int, text: str) -> None:
    assert size(count) == text


def test_a_small_share_is_never_shown_as_zero() -> None:
    assert [share(*each) for each in ((0, 0), (0, 5), (1, 3), (1, 1_000_000), (1, 200), (0.05, 1))] == [
        *("0 %", "0 %", "33.3 %", "< 0.01 %", "0.50 %", "5.0 %"),
    ]


def test_a_few_items_are_named_and_the_rest_is_counted() -> None:
    assert listed([]) == ""
    assert listed("abc") == "a, b, c"
    assert listed("abcdefg") == "a, b, c, d, e and 2 more"
    assert listed("abcde", total=1_005, separator="; ") == "a; b; c; d; e; and 1,000 more"
    assert [listed(each, most=1) for each in ("a", "abc")] == ["a", "a and 2 more"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("gold.eror_log", "gold.error_log"),
        ("eror_log", "gold.error_log"),
        ("error_log", "gold.error_log"),
        ("silvr", "silver"),
        ("serving.pages", None),
        ("x", None),
        ("", None),
    ],
)
def test_a_name_that_is_close_is_asked_for(text: str, meant: str | None) -> None:
    known = ["bronze", "silver", "gold.error_log", "gold.log_volume"]
    assert did_you_mean(text, known) == (f"; did you mean {meant}?" if meant else "")
