"""What silver's rows are made from: the format's columns and the suite must not share the name of a rule."""

from pathlib import Path

import pytest

from oncelake.common.errors import ConfigError
from oncelake.common.lake import SILVER
from oncelake.engine.graph import silver_rules
from oncelake.engine.settings import Settings
from oncelake.silver.format import LogFormat
from tests.support.suites import read

KEYS = {"time": "time", "level": "level", "message": "message"}
NAMED = {
    "type": "expect_column_values_to_not_be_null",
    "kwargs": {"column": "status"},
    "meta": {"rule": "column_status"},
}


def test_a_rule_of_the_suite_cannot_have_the_name_of_the_rule_of_a_column(tmp_path: Path) -> None:
    settings = Settings.model_validate({"source": {"path": "logs"}, "lake": {"root": "lake"}})
    suite = {SILVER: read(tmp_path, NAMED)}
    for columns in ({"state": "int"}, {}):
        silver_rules(settings, LogFormat.model_validate({"json": KEYS, "time": "iso8601", "columns": columns}), suite)
    typed = LogFormat.model_validate({"json": KEYS, "time": "iso8601", "columns": {"status": "int"}})
    with pytest.raises(
        ConfigError, match="column_status is the name of a rule of the log format's columns; use another"
    ):
        silver_rules(settings, typed, suite)
