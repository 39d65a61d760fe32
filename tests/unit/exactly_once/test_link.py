"""A proof claims no more lines than it compared, and lists its faults as a few ranges."""

import json

from oncelake.exactly_once.link import Claim, Link, Uncompared, joined, offsets_listed, ranges


def link(table: str, *parts: Uncompared, name: str = "a → b") -> Link:
    return Link(name, table, holds=True, said="", uncompared=parts)


def waiting(lines: int, table: str) -> Link:
    return link(table, *Uncompared.waiting(lines, "line", f"for {table}", lines=lines))


def test_every_line_is_said_only_if_every_link_compared_everything() -> None:
    assert str(Claim(20_000, [link("silver.access_log")])) == "20,000 lines, every one exactly once"
    gone = Uncompared.of_lines(11, "whose commits are gone")
    name = "bronze.access_log → silver.access_log"
    claim = Claim(131, [link("silver.access_log", *gone, name=name)])
    assert str(claim) == (
        "120 of 131 lines, each exactly once; not compared: 11 lines whose commits are gone "
        "(bronze.access_log → silver.access_log)"
    )


def test_what_is_in_no_table_is_said_and_no_line_of_bronze() -> None:
    files = link("bronze.access_log", *Uncompared.waiting(1, "file", "for the next run"), name="files of logs")
    expired = link("bronze.access_log", Uncompared(12, "12 records that expired"))
    assert str(Claim(131, [files, expired])) == (
        "131 lines, each exactly once; not compared: 1 file that waits for the next run (files of logs), "
        "12 records that expired (a → b)"
    )


def test_a_claim_is_never_of_more_lines_than_each_link_compared() -> None:
    gold, other = waiting(10, "gold.error_log"), waiting(7, "gold.log_volume")
    assert Claim(100, [gold, other]).compared == 90
    assert Claim(100, [waiting(5, "silver.access_log"), gold, other]).compared == 85
    assert Claim(100, [gold, waiting(4, "serving.error_log"), other]).compared == 86
    several = [link("bronze.app", *Uncompared.of_lines(60, "that expired")), waiting(50, "silver.access_log")]
    assert Claim(100, several).compared == 0


def test_nothing_is_no_part() -> None:
    assert (Uncompared.of_lines(0, ""), Uncompared.waiting(0, "file", "")) == ((), ())
    part = Uncompared(1, "1 file")
    assert link("t", part).without(part).uncompared == (part,)


def test_a_link_for_programs_has_its_parts() -> None:
    found = json.loads(json.dumps(link("t", Uncompared(2, "2 files")).to_dict()))
    assert found["uncompared"] == [{"count": 2, "said": "2 files", "lines": 0, "waits": False, "lasting": False}]


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
