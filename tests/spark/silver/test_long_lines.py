"""One line, however long or unusual, delays silver by seconds at most, and never stops it."""

import time
from collections.abc import Sequence
from itertools import product

import pytest
from pyspark.sql import Row

from oncelake.silver.parsing.parser import load_parser
from oncelake.silver.transform import TimeLimits, parse
from tests.support.bronze_rows import BronzeOf
from tests.support.places import FORMATS

pytestmark = pytest.mark.spark

SECONDS = 60
START = '{"time": "2017-07-30T14:09:08Z", "level": "error", "message": "m"'
LONG = 10_000_000


def parsed(bronze_of: BronzeOf, name: str, lines: Sequence[str]) -> list[Row]:
    """Parse lines of a shipped format, within seconds."""
    began = time.monotonic()
    frame = parse(bronze_of(lines), load_parser(name, [FORMATS]), TimeLimits())
    shown = "length(message) AS length", "size(fields) AS size", "fields['k5'] AS k5", "reasons.rule AS rules"
    rows = frame.orderBy("offset").selectExpr("level", *shown).collect()
    assert time.monotonic() - began < SECONDS
    return rows


def _with_keys(names: Sequence[str]) -> str:
    return START + "".join(f', "{name}": {at}' for at, name in enumerate(names)) + "}"


def test_the_last_of_100_000_equal_keys_wins_within_seconds(bronze_of: BronzeOf) -> None:
    names = [f"k{number}" for number in range(100_000)]
    (row,) = parsed(bronze_of, "json", [_with_keys([*names, "k5"])])
    assert (row.level, row.size, row.k5, row.rules) == ("ERROR", 100_000, "100000", [])


def test_a_json_line_of_10_mb_is_parsed_within_seconds(bronze_of: BronzeOf) -> None:
    lines = [
        _with_keys(["k5"] * 1_000_000),
        START[:-1] + "m" * LONG + '"}',
        START + ', "x": ' + "[" * 900 + "]" * 900 + "}",
    ]
    one, message, deep = parsed(bronze_of, "json", lines)
    assert (one.size, one.k5, one.rules) == (1, "999999", [])
    assert (message.length, message.rules) == (LONG + 1, [])
    assert (deep.size, deep.rules) == (1, [])


def test_keys_with_one_hash_do_not_refuse_their_line_or_a_later_one(bronze_of: BronzeOf) -> None:
    # in Jackson's table of names, Aa and B@ have one hash, whatever the table's seed
    colliding = ["".join(pairs) for pairs in product(("Aa", "B@"), repeat=12)]
    rows = parsed(bronze_of, "json", [_with_keys(colliding), _with_keys(["k5"])])
    assert [(row.size, row.rules) for row in rows] == [(4096, []), (1, [])]


def test_json_line_beyond_the_readers_limits_is_quarantined(bronze_of: BronzeOf) -> None:
    lines = [
        START + ', "x": ' + "[" * (LONG // 2) + "]" * (LONG // 2) + "}",
        START + ', "x": ' + '{"a":' * (LONG // 5),
        START + ', "' + "k" * LONG + '": 1}',
        START + ', "x": ' + "9" * LONG + "}",
        START + ', "x": "' + "m" * (2 * LONG + 1) + '"}',
        " " * LONG,
    ]
    assert [row.rules for row in parsed(bronze_of, "json", lines)] == [["pattern"]] * len(lines)


@pytest.mark.parametrize("written", ['"1e-99999999"', "1e99999999", '"1e-2147483648"', "9" * 1000, f'"{"9" * LONG}"'])
def test_a_huge_number_as_time_breaks_its_rule_within_seconds(bronze_of: BronzeOf, written: str) -> None:
    (row,) = parsed(bronze_of, "json", [START.replace('"2017-07-30T14:09:08Z"', written) + "}"])
    assert row.rules == ["time"]


# what each shipped format expects at the start of a line, and a text behind it that makes it backtrack
_STARTS = {
    "default": ("", "2017-07-30 14:09:08 "),
    "log4j": ("", "2015-07-29 17:41:44,747 - ", "2015-07-29 17:41:44,747 - INFO  ["),
    "apache_error": ("", "[Sun Dec 04 04:47:44 2005] [", "[Sun Dec 04 04:47:44 2005] [error] [client "),
    "syslog": ("", "<34>Oct 11 22:14:15 ", "<34>Oct 11 22:14:15 host su[", "<165>1 2003-10-11T22:14:15Z h a p m [x "),
}
_FILLINGS = ("a", " ", "1", "[", "]", '"', "\\", "] - ", '[x "\\"]"]', "a ")


@pytest.mark.parametrize("name", _STARTS)
def test_a_shipped_pattern_parses_any_long_line_within_seconds(bronze_of: BronzeOf, name: str) -> None:
    length = LONG // 10
    lines = [start + filling * (length // len(filling)) for start in _STARTS[name] for filling in _FILLINGS]
    assert all(row.rules is not None for row in parsed(bronze_of, name, lines))
