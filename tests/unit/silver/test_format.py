"""A log format's file is read strictly: an error is one line with the file, the key and what is accepted."""

import re
from pathlib import Path

import pytest
import yaml

from oncelake.common.errors import ConfigError
from oncelake.silver.parsing.format import LogFormat, load_format
from oncelake.silver.parsing.parser import load_parser
from tests.support.places import FORMATS, ROOT

GOOD = r"""
pattern: '^(?<time>\S+ \S+) (?<level>\w+) (?<user>\w+) (?<message>.*)$'
time: yyyy-MM-dd HH:mm:ss
"""


PATTERN = "^(?<time>.+) (?<level>.+) (?<message>.+)$"


def write(directory: Path, text: str, name: str = "mine.yaml") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def test_shipped_formats_load_are_listed_and_show_an_example_first() -> None:
    names = sorted(path.stem for path in FORMATS.glob("*.yaml"))
    shipped = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8").split("\n## ")[1]
    listed = re.findall(r"^\| `(\w+)` \|", shipped, re.MULTILINE)
    assert sorted(listed) == names
    for name in names:
        assert isinstance(load_format(name, [FORMATS]), LogFormat)
        assert (FORMATS / f"{name}.yaml").read_text(encoding="utf-8").startswith("# ")


def test_shipped_default_is_read_by_width() -> None:
    assert load_parser("default", [FORMATS]).is_fixed_width
    assert not load_parser("log4j", [FORMATS]).is_fixed_width


def test_first_directory_that_has_the_name_wins(tmp_path: Path) -> None:
    write(tmp_path, GOOD + "zone: Europe/Paris", "default.yaml")
    assert load_format("default", [tmp_path, FORMATS]).zone == "Europe/Paris"
    assert load_format("default", [FORMATS, tmp_path]).zone == "UTC"


def test_a_path_is_read_from_its_own_directory(tmp_path: Path) -> None:
    assert load_format(str(write(tmp_path, GOOD)), []).time == ("yyyy-MM-dd HH:mm:ss",)


def test_levels_are_recognized_in_upper_and_lower_case(tmp_path: Path) -> None:
    read = load_format(str(write(tmp_path, GOOD + "levels: {Warning: warn, 30: INFO}\ndefault_level: debug")), [])
    assert read.levels == {"WARNING": "WARN", "30": "INFO"}
    assert read.default_level == "DEBUG"


def test_the_level_group_may_be_missing_if_there_is_a_default() -> None:
    LogFormat.model_validate({"pattern": "(?<time>x)(?<message>y)", "time": "yyyy-MM-dd", "default_level": "INFO"})


def test_the_error_of_an_unknown_name_lists_directories_and_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_format("nginx", [tmp_path, FORMATS])
    said = str(caught.value)
    assert "source.format 'nginx'" in said
    assert str(tmp_path) in said
    assert "access, apache_error, default, docker, java, json, klog" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pattern: [", "is not valid YAML"),
        (GOOD + "zone: UTC\nzone: Europe/Paris", "the key zone stands in line"),
        ("just text", "is a mapping of keys"),
        ("", "is a mapping of keys"),
        (GOOD + "colour: red", "colour: there is no such setting"),
        ("json: {time: $.a b, level: l, message: m}\ntime: iso8601", "json.time.0: must be a key, or a path such as"),
        ("json: {time: t, level: '$.', message: m}\ntime: iso8601", "json.level.0: must be a key, or a path such as"),
        ("time: yyyy-MM-dd", "pattern: a format needs pattern, json or logfmt"),
        (GOOD + "json: {time: t, level: l, message: m}", "pattern: a format needs pattern, json or logfmt"),
        ("json: {time: t, level: l}\ntime: iso8601", "json.message: is required"),
        ("json: {time: [], level: l, message: m}\ntime: iso8601", "json.time: "),
        ("pattern: '(?<time>x)'\ntime: yyyy-MM-dd", "pattern: has no group (?<level>...), (?<message>...)"),
        ("pattern: '(?<time>x'\ntime: yyyy-MM-dd", "pattern: has a ( that is never closed"),
        ("pattern: '(?<time>x)(?<level>y)(?<message>z)'", "time: is required"),
        (GOOD.replace("yyyy-MM-dd", "EEE yyyy-MM-dd"), "time.0: has EEE, which Spark cannot parse"),
        (GOOD + "zone: Mars/Base", "zone: must be a time zone such as Europe/Paris, UTC or +02:00, not 'Mars/Base'"),
        (GOOD + "levels: {WARNING: LOUD}", "levels.WARNING: must be one of TRACE, DEBUG, INFO, WARN, ERROR, FATAL"),
        (GOOD + "default_level: LOUD", "default_level: must be one of"),
        (GOOD + "level_is: number", "level_is: "),
    ],
)
def test_a_wrong_file_is_a_one_line_error_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_format(str(path), [])
    assert str(caught.value).startswith(str(path))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_or_unreadable_path_is_a_one_line_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        load_format(str(tmp_path / "gone.yaml"), [])
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"pattern: \xff")
    with pytest.raises(ConfigError, match="cannot read"):
        load_format(str(path), [])


KEYS = {"time": "time", "level": "level", "message": "message"}
JSON = {"json": KEYS, "time": "iso8601"}


def test_a_column_is_a_type_or_says_where_it_is_from() -> None:
    columns = {
        "status": "int",
        "user_id": "string from $.user['the id']",
        "took": " LONG  from  took ms ",
        "price": {"type": "Decimal( 10 , 2 )", "misfit": "quarantine", "null_is": "-"},
        "size": {"type": "integer", "from": "bytes", "misfit": None},
        "at": {"type": "timestamp", "time": ["iso8601", "epoch_nanos"]},
    }
    found = LogFormat.model_validate({**JSON, "columns": columns}).columns
    assert {name: (each.type, each.source, each.misfit) for name, each in found.items()} == {
        "status": ("int", "status", "null"),
        "user_id": ("string", "$.user['the id']", "null"),
        "took": ("bigint", "took ms", "null"),
        "price": ("decimal(10,2)", "price", "quarantine"),
        "size": ("int", "bytes", "null"),
        "at": ("timestamp", "at", "null"),
    }
    assert found["price"].null_is == ("-",)


def test_a_format_without_columns_has_the_fingerprint_of_before() -> None:
    assert "columns" not in LogFormat.model_validate({**JSON, "columns": {}}).model_dump()
    assert "columns" in LogFormat.model_validate({**JSON, "columns": {"a": "int"}}).model_dump()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("{status: number}", "columns.status.type: must be one of string, int, bigint, double.*not 'number'"),
        ("{status: 'decimal(39,2)'}", "columns.status.type: must be one of .*p at most 38"),
        ("{status: 'decimal(2,3)'}", "columns.status.type: must be one of .*s at most p"),
        ("{status: decimal(5,2)}", "inside {} put it in quotes"),
        ("{status: }", "columns.status: must be a type such as int, .* or a mapping"),
        ("{status: [int]}", "columns.status: must be a type such as int"),
        ("{status: int from $.}", "columns.status.from: must be a key, or a path such as"),
        ("{status: {type: int, misfit: drop}}", "columns.status.misfit: Input should be 'null' or 'quarantine'"),
        ("{status: {type: int, of: x}}", "columns.status.of: there is no such setting"),
        ("{status: {type: int, time: iso8601}}", "columns.status: time is for the type timestamp, not int"),
        ("{status: {type: timestamp, time: HH:mm}}", "columns.status.time.0: has no month and day"),
        ("{status: int, STATUS: int}", "columns: STATUS is declared twice"),
        ("{a-b: int}", "columns: 'a-b' is no column name; use a letter, then"),
        ("{_a: int}", "columns: '_a' is no column name"),
        ("{Level: int from status}", "columns: Level is a column of bronze or silver; choose another name"),
        ("{value: int from status}", "columns: value is a column of bronze or silver"),
        ("{reasons: int from status}", "columns: reasons is a column of bronze or silver"),
        ("{user_id: string from $.user.id}", "columns: user_id is from \\$.user.id, but only JSON lines have paths"),
        (
            "{status: int}",
            "columns: status is from status, but the pattern has no group \\(\\?<status>...\\); its groups",
        ),
    ],
)
def test_the_error_of_a_column_says_what_is_accepted(tmp_path: Path, columns: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as found:
        load_format(str(write(tmp_path, f"{GOOD}columns: {columns}")), [])
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("$.Records[*]", "Records"),
        ("$.log-events[*]", "log-events"),
        ("$['log events'][*]", "log events"),
        ("$[*]", ""),
    ],
)
def test_the_events_of_a_line_are_under_one_key_or_are_the_line(path: str, key: str) -> None:
    assert LogFormat.model_validate({**JSON, "each": path}).events_key == key


def test_a_format_without_events_has_the_fingerprint_of_before() -> None:
    assert "each" not in LogFormat.model_validate(JSON).model_dump()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"each": "Records"},
            "each: must be $[*], or one key and [*], such as $.Records[*] or $['log events'][*], not",
        ),
        ({"each": "$.Records"}, "each: must be $[*], or one key"),
        ({"each": "$.detail.Records[*]"}, "each: must be $[*], or one key"),
        ({"each": "$[*][*]"}, "each: must be $[*], or one key"),
        ({"each": "$.Records[0]"}, "each: must be $[*], or one key"),
        (
            {"each": "$.R[*]", "record": {"starts": "x"}},
            "each: cannot be combined with record: a line of events is one",
        ),
        ({"each": "$.R[*]", "inside": "java"}, "each: cannot be combined with inside"),
        ({"each": "$.R[*]", "json": None, "pattern": PATTERN}, "each: is for JSON lines; a format with pattern or"),
        ({"each": "$.R[*]", "json": None, "logfmt": JSON["json"]}, "each: is for JSON lines"),
    ],
)
def test_the_error_of_each_says_what_is_accepted(tmp_path: Path, more: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        load_format(str(write(tmp_path, yaml.safe_dump({**JSON, **more}))), [])


def test_lines_of_events_are_not_inside_other_lines_nor_around_them(tmp_path: Path) -> None:
    events = write(tmp_path, yaml.safe_dump({**JSON, "each": "$.Records[*]"}))
    for name, inside in ((str(events), "java"), ("docker", str(events))):
        with pytest.raises(ConfigError, match="inside: a format with the key each cannot be inside or around another"):
            load_format(name, [FORMATS], inside)
