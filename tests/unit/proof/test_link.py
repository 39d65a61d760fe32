"""The faults of a proof are listed as a few ranges, with the number of those that are not named."""

from oncelake.proof.link import joined, offsets_listed, ranges


def test_consecutive_numbers_are_one_range() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == [(1, 3), (7, 7), (9, 10)]
    assert ranges([]) == []


def test_ranges_are_joined_over_the_smallest_gaps() -> None:
    found = [(0, 1), (3, 4), (100, 101), (110, 120)]
    assert joined(found, 4) == found
    assert joined(found, 3) == [(0, 4), (100, 101), (110, 120)]
    assert joined(found, 2) == [(0, 4), (100, 120)]
    assert joined(found, 1) == [(0, 120)]
    assert joined([], 3) == []


def test_a_range_inside_another_does_not_shorten_it() -> None:
    assert joined([(0, 9), (3, 4)], 1) == [(0, 9)]


def test_offsets_are_named_as_ranges_of_their_partitions() -> None:
    assert offsets_listed("alog", [(0, 17), (0, 18), (0, 19), (1, 4)], 4) == "alog/0/17 to 19, alog/1/4"
    every_other = [(0, offset) for offset in range(0, 20, 2)]
    assert offsets_listed("alog", every_other, 1_000).endswith("alog/0/8 and 995 more")
