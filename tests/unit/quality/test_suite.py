"""A suite is Great Expectations' own JSON; an error in one is reported with file, rule and reason."""

from pathlib import Path
from typing import Any

import pytest

from oncelake.common.errors import ConfigError
from oncelake.common.lake import BRONZE, SILVER
from oncelake.common.models import fingerprint
from oncelake.engine.chain import chain_of
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import configured
from oncelake.engine.graph import suites
from oncelake.quality.suite import SuiteFile, read_suite, read_suites
from oncelake.quality.suite_check import left_out
from tests.support.suites import read, written

LOCAL = shipped_conf() / "local.yaml"
NOT_NULL = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "level"}}


def test_the_shipped_suite_is_read_with_the_shipped_configuration() -> None:
    found = suites(configured(LOCAL, [])[0])
    assert [rule.id for rule in found[SILVER].rules] == ["has_time", "known_level", "long_message"]
    assert list(left_out(found[SILVER])) == []


def test_the_fingerprint_of_a_suite_is_unchanged() -> None:
    """The audit records the fingerprint, and treats a suite with another one as changed."""
    said = {"name": "silver.access_log", "expectations": [NOT_NULL], "meta": {"great_expectations_version": "1.24.0"}}
    assert fingerprint(SuiteFile.model_validate(said)) == "44729b77157e92ec"


def test_a_rule_has_its_given_name_or_that_of_its_type(tmp_path: Path) -> None:
    long = {"type": "expect_column_value_lengths_to_be_between", "kwargs": {"column": "message", "max_value": 9}}
    pair = {
        "type": "expect_column_pair_values_to_be_equal",
        "kwargs": {"column_A": "level", "column_B": "fields.severity", "mostly": 0.5},
        "severity": "warning",
    }
    suite = read(tmp_path, NOT_NULL, long, {**long, "meta": {"rule": "short"}}, NOT_NULL, pair)
    assert suite.ids == (
        "not_be_null(level)",
        "lengths_to_be_between(message)",
        "short",
        "not_be_null(level) 2",
        "be_equal(level, fields.severity)",
    )
    assert [rule.severity for rule in suite.rules] == [*["critical"] * 4, "warning"]
    assert [rule.expectation.mostly for rule in suite.rules] == [*[None] * 4, 0.5]


def test_a_rule_that_one_row_cannot_break_is_left_to_the_audit(tmp_path: Path) -> None:
    suite = read(
        tmp_path,
        {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "message"}},
        {"type": "expect_table_row_count_to_be_between", "kwargs": {"min_value": 1}},
        {**NOT_NULL, "severity": "info"},
        {**NOT_NULL, "kwargs": {"column": "level", "row_condition": "x", "condition_parser": "spark"}},
    )
    assert suite.rules == []
    said = list(left_out(suite))
    assert len(said) == 2
    assert "be_unique(message) cannot be checked row by row" in said[0]
    assert "oncelake validate" in said[0]


@pytest.mark.parametrize(
    ("expectation", "said"),
    [
        ({"type": "expect_nothing"}, r"expectation 1 \(nothing\(\)\): there is no expectation 'expect_nothing'"),
        ({"type": "../../settings"}, "there is no expectation"),
        ({"kwargs": {}}, "expectations.0.type: is required"),
        ({**NOT_NULL, "severity": "fatal"}, "severity: .*critical.*not 'fatal'"),
        ({**NOT_NULL, "colour": "red"}, "colour: there is no such setting"),
        ({"type": NOT_NULL["type"], "kwargs": {}}, r"not_be_null\(\)\): column: is required"),
        ({"type": NOT_NULL["type"], "kwargs": {"column": "level", "mostly": 2}}, "mostly: .*not 2"),
        ({"type": NOT_NULL["type"], "kwargs": {"column": "level", "minimum": 2}}, "minimum: there is no such setting"),
        ({"type": NOT_NULL["type"], "kwargs": {"column": {"$PARAMETER": "x"}}}, "is a parameter"),
        ({"type": "expect_column_values_to_be_between", "kwargs": {"column": "offset"}}, "one of min_value and"),
        (
            {
                "type": "expect_column_values_to_be_between",
                "kwargs": {"column": "offset", "min_value": 2, "max_value": 1},
            },
            "min_value 2.0 is above max_value 1.0",
        ),
        (
            {
                "type": "expect_column_values_to_be_between",
                "kwargs": {"column": "log_time", "min_value": "2026-01-01", "max_value": "2026-01-02 10:00:00"},
            },
            "min_value is a date and max_value a time",
        ),
        (
            {
                "type": "expect_column_values_to_be_between",
                "kwargs": {
                    "column": "log_time",
                    "min_value": "2026-01-01 08:00:00",
                    "max_value": "2026-01-01 09:00:00+02:00",
                },
            },
            r"min_value 2026-01-01 08:00:00\+00:00 is above max_value 2026-01-01 09:00:00\+02:00",
        ),
        (
            {"type": "expect_column_values_to_be_between", "kwargs": {"column": "log_time", "min_value": "2026-W05-1"}},
            "min_value: is neither a number nor a date or time",
        ),
        (
            {"type": "expect_column_values_to_be_between", "kwargs": {"column": "message", "min_value": "a"}},
            "min_value: is neither a number nor a date or time",
        ),
        (
            {
                "type": "expect_column_values_to_match_strftime_format",
                "kwargs": {"column": "message", "strftime_format": "%Y %j"},
            },
            "has %j, which the stream cannot check",
        ),
        ({**NOT_NULL, "meta": {"rule": "pattern"}}, "meta.rule 'pattern' is the name of a rule of the log format"),
    ],
)
def test_a_wrong_expectation_is_refused_with_file_rule_and_reason(
    tmp_path: Path, expectation: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=rf"silver\.access_log\.json: .*{said}"):
        read(tmp_path, expectation)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "silver.access_log.json: expected a mapping"),
        ('{"name": "x"}', "expectations: is required"),
        ('{"expectation_suite_name": "x"}', "from before Great Expectations 1.0; save it with 1.x"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_file_that_is_not_a_suite_is_refused(tmp_path: Path, text: str | bytes, said: str) -> None:
    path = tmp_path / "silver.access_log.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError, match=said):
        read_suite(path, SILVER)


def test_a_suite_for_an_unknown_table_is_refused(tmp_path: Path) -> None:
    written(tmp_path, NOT_NULL, table="access_log")
    with pytest.raises(ConfigError, match=r"there is no table access_log; .*silver\.access_log\.json"):
        read_suites(tmp_path, [BRONZE, SILVER])
    with pytest.raises(ConfigError, match=r"quality\.expectations /none: there is no such directory"):
        configured(LOCAL, ["quality.expectations=/none"])
    assert suites(configured(LOCAL, ["quality.expectations=none"])[0]) == {}


def test_only_changes_that_affect_rows_change_the_recorded_rules(tmp_path: Path) -> None:
    def made_by(expectation: dict[str, Any]) -> str:
        written(tmp_path, expectation)
        settings = configured(LOCAL, [f"quality.expectations={tmp_path}"])
        return next(stage.rules for stage in chain_of(*settings).stages if stage.name == "silver")

    kept = made_by(NOT_NULL)
    assert made_by({**NOT_NULL, "notes": "why", "kwargs": {"column": "level", "mostly": 0.9}}) == kept
    assert made_by({**NOT_NULL, "severity": "warning"}) != kept
    assert made_by({**NOT_NULL, "kwargs": {"column": "message"}}) != kept
    null = {**NOT_NULL, "type": "expect_column_values_to_be_null", "meta": {"rule": "not_be_null(level)"}}
    assert made_by(null) != kept
