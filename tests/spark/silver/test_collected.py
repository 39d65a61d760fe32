"""The collected lines of a small batch are split and counted as Spark splits and counts them."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelake.common.spark.collect import SmallBatches
from oncelake.quality.expectations import LengthBetween
from oncelake.quality.suite import Rule
from oncelake.silver import collected
from oncelake.silver.parsing.parser import load_parser
from oncelake.silver.rules import Silver
from oncelake.silver.transform import TimeLimits, accepted, quarantined
from tests.support.bronze_rows import bronze_rows
from tests.support.places import FORMATS
from tests.support.suites import read

pytestmark = pytest.mark.spark

GOOD = "2017-07-30 14:09:08 ERROR one"
LINES = {
    "all kinds": [
        GOOD,
        "2017-07-30 14:09:59 INFO two",
        "2017-07-30 14:09:59 NEWS three",
        "2017-99-30 14:09:59 NEWS both",
        "2057-07-30 14:09:59 INFO later",
        "broken",
        "",
        None,
        "2017-07-30 14:10:00 WARN caf\u00e9 \u2028 \U0001f600",
    ],
    "good ones alone": [GOOD, GOOD],
    "broken ones alone": ["broken", "", None],
    "nothing": [],
}


@pytest.fixture
def rules(tmp_path: Path) -> tuple[Rule, ...]:
    """Two rules that refuse and two that warn, each broken by some of the lines, some by the same line."""
    length = {"type": "expect_column_value_lengths_to_be_between", "kwargs": {"column": "message", "max_value": 3}}
    levels = {
        "type": "expect_column_values_to_be_in_set",
        "kwargs": {"column": "level", "value_set": ["INFO", "WARN"]},
    }
    both = (length, levels)
    warned = tuple({**each, "severity": "warning"} for each in both)
    return tuple(read(tmp_path, *both, *warned).rules)


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
@pytest.mark.parametrize("with_rules", [False, True], ids=["no suite", "a suite"])
def test_rows_and_counts_are_those_of_spark(
    spark: SparkSession, rules: tuple[Rule, ...], lines: list[str | None], *, with_rules: bool
) -> None:
    silver = Silver({"access_log": load_parser("default", [FORMATS])}, TimeLimits(), rules if with_rules else ())
    parsed = silver.parse(bronze_rows(spark, lines))
    found = SmallBatches(1_000, 10_000_000).collect(parsed)
    assert found is not None
    assert collected.accepted(found).rows.equals(accepted(parsed).toArrow())
    assert collected.quarantined(found).rows.equals(quarantined(parsed).toArrow())
    counts = parsed.agg(*silver.aggregates).first()
    assert counts is not None
    known = {name.removeprefix("rule "): n for name, n in counts.asDict().items() if name.startswith("rule ") and n}
    assert dict(collected.broken(found)) == known
    if with_rules and len(lines) > 3:
        assert len(known) > 5


def test_a_rule_that_refuses_in_one_format_and_warns_in_another_counts_both(spark: SparkSession) -> None:
    """The formats of two sources may declare the same column in different ways."""
    long = LengthBetween(column="message", max_value=3)
    off = LengthBetween(column="level", max_value=4)
    kind = "expect_column_value_lengths_to_be_between"
    named = [Rule(id="x", type=kind, severity="critical", expectation=long)]
    named.append(Rule(id="x", type=kind, severity="warning", expectation=off))
    silver = Silver({"access_log": load_parser("default", [FORMATS])}, TimeLimits(), named)
    texts = ["INFO long", "ERROR no", "ERROR long", "INFO no", "INFO long"]
    found = SmallBatches(1_000, 10_000_000).collect(
        silver.parse(bronze_rows(spark, [f"2017-07-30 14:09:08 {text}" for text in texts]))
    )
    assert found is not None
    assert dict(collected.broken(found)) == {"x": 4}
