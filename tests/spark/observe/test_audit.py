"""An audit keeps a few rows of each expectation, however many break it, and one context for the process."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.observe.audit.audit import HANDFUL, LINE, Auditor, library
from tests.support.spark_handles import cached_frames
from tests.support.suites import read

pytestmark = pytest.mark.spark

RULES = [
    {"type": "expect_column_values_to_match_regex", "kwargs": {"column": "message", "regex": "^order"}},
    {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "level"}},
    {"type": "expect_column_pair_values_to_be_equal", "kwargs": {"column_A": "message", "column_B": "level"}},
]


def test_results_stay_small_however_many_rows_break_a_rule(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [F.concat(F.lit("said "), "id").alias("message"), F.lit("INFO").alias("level")]
    rows = spark.range(5_000).select(*said, F.concat(F.lit("line "), "id").alias(LINE))
    auditor, suite = Auditor(tmp_path / "audit"), read(tmp_path, *RULES)
    gx = library()
    kept, opened, get_context = set(cached_frames(spark)), list[Any](), gx.get_context

    def counted(**options: Any) -> Any:
        opened.append(options)
        return get_context(**options)

    monkeypatch.setattr(gx, "get_context", counted)
    for _ in range(3):
        results = auditor.judge(suite, rows)
        assert [(result.rows, result.unexpected, len(result.lines)) for result in results] == [
            (5_000, 5_000, HANDFUL)
        ] * 3
        assert {line for result in results for line in result.lines} <= {f"line {number}" for number in range(5_000)}
    assert len(opened) == 1
    (size, *_) = sorted(path.stat().st_size for path in (tmp_path / "audit").rglob("validations/**/*.json"))
    assert size < 50_000
    assert set(cached_frames(spark)) <= kept


def test_each_rule_of_one_kind_on_one_column_is_checked(spark: SparkSession, tmp_path: Path) -> None:
    def unlike(rule: str, regex: str) -> dict[str, object]:
        arguments = {"column": "message", "regex": regex}
        return {"type": "expect_column_values_to_not_match_regex", "kwargs": arguments, "meta": {"rule": rule}}

    rows = spark.range(10).select(F.concat(F.lit("said "), "id").alias("message"), F.lit("a line").alias(LINE))
    suite = read(tmp_path, unlike("no_one", "1"), unlike("no_word", "said"), unlike("no_word_again", "said"))
    results = Auditor(tmp_path / "audit").judge(suite, rows)
    assert {result.rule: result.unexpected for result in results} == {"no_one": 1, "no_word": 10, "no_word_again": 10}
