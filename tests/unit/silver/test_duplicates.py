"""A key names columns that silver has; the times that are read cover every twin, in few ranges."""

import random
from itertools import pairwise

import pytest

from oncelake.common.errors import ConfigError
from oncelake.silver.duplicates import near, refuse_key
from oncelake.silver.settings import Deduplicate


def declared(*key: str) -> Deduplicate:
    return Deduplicate.model_validate({"key": key, "within": "1 minute"})


def test_a_key_may_name_a_column_of_any_format() -> None:
    key = declared("request", "level", "header:a", "hash:record")
    refuse_key(key, {"request", "other"}, named=False)


def test_a_column_that_silver_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no column 'request' .* accepted are log_time, .*, source, other, header:"):
        refuse_key(declared("request"), {"other"}, named=True)
    with pytest.raises(ConfigError, match="no column 'source'"):
        refuse_key(declared("source"), (), named=False)
    with pytest.raises(ConfigError, match="no column 'offset'"):
        refuse_key(declared("offset"), (), named=False)


def test_a_format_s_column_with_a_name_that_is_needed_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"declares columns\.event_key"):
        refuse_key(declared("message"), {"Event_Key"}, named=False)


def test_the_ranges_cover_every_time_within_a_window() -> None:
    chance = random.Random(1)
    for number in (1, 3, 500):
        times = [chance.randrange(-(10**9), 10**9) for _ in range(number)]
        ranges = near({at // 1_000 for at in times}, 1_000)
        assert 1 <= len(ranges) <= 64
        assert all(one[1] < other[0] for one, other in pairwise(ranges))
        for at in times:
            assert any(first <= at - 1_000 and at + 1_000 <= last for first, last in ranges)
    assert near([], 1_000) == []
