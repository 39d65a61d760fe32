"""What silver's rows are made from: the format's columns and the suite must not share the name of a rule."""

from pathlib import Path

import pytest

from oncelake.common.errors import ConfigError
from oncelake.common.lake import SILVER
from oncelake.engine.chain import chain_of
from oncelake.engine.graph import silver_rules
from oncelake.engine.settings import Settings
from oncelake.silver.parsing.format import LogFormat
from oncelake.silver.parsing.parser import Parser
from tests.support.suites import read

KEYS = {"time": "time", "level": "level", "message": "message"}
NAMED = {
    "type": "expect_column_values_to_not_be_null",
    "kwargs": {"column": "status"},
    "meta": {"rule": "column_status"},
}


def declaring(columns: dict[str, str]) -> Parser:
    return Parser(LogFormat.model_validate({"json": KEYS, "time": "iso8601", "columns": columns}))


def test_a_rule_of_the_suite_cannot_have_the_name_of_the_rule_of_a_column(tmp_path: Path) -> None:
    settings = Settings.model_validate({"source": {"path": "logs"}, "lake": {"root": "lake"}})
    suite = {SILVER: read(tmp_path, NAMED)}
    for columns in ({"state": "int"}, {}):
        silver_rules(settings, {"access_log": declaring(columns)}, suite)
    with pytest.raises(
        ConfigError, match="column_status is the name of a rule of the log format's columns; use another"
    ):
        silver_rules(settings, {"access_log": declaring({}), "app": declaring({"status": "int"})}, suite)


@pytest.mark.parametrize("columns", [{"status": "string"}, {"Status": "int"}], ids=str)
def test_two_formats_cannot_declare_a_column_with_two_types(columns: dict[str, str]) -> None:
    settings = Settings.model_validate({"source": {"path": "logs"}, "lake": {"root": "lake"}})
    declared = {"web": declaring({"status": "int", "bytes": "bigint"}), "app": declaring(columns)}
    with pytest.raises(ConfigError, match="of source web declares the column status as int, the format of source app"):
        silver_rules(settings, declared, {})


def test_the_user_s_own_code_is_a_part_of_silver_s_rules(tmp_path: Path) -> None:
    places = {"source": {"path": "logs"}, "lake": {"root": "lake"}, "quality": {"expectations": None}}

    def rules(transform: str | None, text: str = "") -> str:
        (tmp_path / "own_code.py").write_text(text)
        settings = Settings.model_validate({**places, "silver": {"transform": transform} if transform else {}})
        stages = chain_of(settings, {"access_log": declaring({})}, places=[tmp_path]).stages
        return next(stage.rules for stage in stages if stage.name == "silver")

    fingerprints = [rules(None), rules("own_code:f"), rules("own_code:g"), rules("own_code:f", "changed = 1")]
    assert len(set(fingerprints)) == 4
    assert rules("own_code:f") == fingerprints[1]


def test_how_repeats_are_recognized_is_a_part_of_silver_s_rules() -> None:
    places = {"source": {"path": "logs"}, "lake": {"root": "lake"}, "quality": {"expectations": None}}

    def rules(**silver: object) -> str:
        settings = Settings.model_validate({**places, "silver": silver})
        stages = chain_of(settings, {"access_log": declaring({})}).stages
        return next(stage.rules for stage in stages if stage.name == "silver")

    declared = [{"key": ["message"], "within": within} for within in ("1 hour", "2 hours")]
    assert len({rules(), *(rules(deduplicate=repeats) for repeats in declared)}) == 3
    assert rules(deduplicate="none") == rules()


def test_silver_has_the_columns_of_all_formats_once() -> None:
    settings = Settings.model_validate({"source": {"path": "logs"}, "lake": {"root": "lake"}})
    declared = {
        "web": declaring({"status": "int", "bytes": "bigint"}),
        "app": declaring({"user": "string", "status": "int"}),
    }
    made = silver_rules(settings, declared, {})
    assert [field.name for field in made.column_fields] == ["status", "bytes", "user"]
