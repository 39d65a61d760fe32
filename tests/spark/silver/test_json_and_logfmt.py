"""JSON and logfmt lines: a value is as the line has it, and a line that is more than one object is refused."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from oncelake.common.spark import line_functions
from oncelake.silver.parsing.format import LogFormat
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.transform import TimeLimits, parse
from tests.support.bronze_rows import BronzeOf

pytestmark = pytest.mark.spark

AT = "2017-07-30T14:09:08Z"
KEYS = {"time": "time", "level": "level", "message": "message"}
JSON = Parser(LogFormat.model_validate({"json": KEYS, "time": "iso8601", "default_level": "INFO"}))
NESTED = Parser(
    LogFormat.model_validate({"json": {**KEYS, "message": "$.m.n"}, "time": "iso8601", "default_level": "INFO"})
)
LOGFMT = Parser(LogFormat.model_validate({"logfmt": KEYS, "time": "iso8601", "default_level": "INFO"}))


def parsed(bronze_of: BronzeOf, lines: list[str], parser: Parser) -> list[Row]:
    return list(parse(bronze_of(lines), parser, TimeLimits()).orderBy("offset").collect())


@pytest.fixture(params=["own", "spark"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Read JSON by oncelake's own function, and by Spark's, as in a session that lacks it."""
    if request.param == "spark":
        monkeypatch.setattr(line_functions, "json_object", lambda *_: None)
    return str(request.param)


@pytest.mark.parametrize(
    "line",
    [
        '{"time":"T"},{"time":"T"}]',
        '{"time":"T"},{"time":"T"}',
        '{"time":"T"},{"\\u0000":"end"}]',
        '{"time":"T"},{"end":"end"}]',
        '{"time":"T"}{"time":"T"}',
        '{"time":"T"} {"time":"T"}',
        '{"time":"T"}]',
        '{"time":"T"} more',
        '{"time":"T"} // more',
        '/* a */ {"time":"T"}',
        '[{"time":"T"}]',
        '{"time":"T","n":01}',
        '{"time":"T","n":1.}',
        '{"time":"T","s":"a\tb"}',
        "{'time':'T'}",
        '{"time":"T"',
        '{"time":"T",}',
        "null",
        "7",
    ],
)
@pytest.mark.usefixtures("way")
def test_a_line_that_is_not_one_json_object_is_refused(bronze_of: BronzeOf, line: str) -> None:
    (row,) = parsed(bronze_of, [line.replace('"T"', f'"{AT}"')], JSON)
    assert [each["rule"] for each in row["reasons"]] == ["pattern"]


def test_a_json_value_is_as_the_line_has_it(bronze_of: BronzeOf) -> None:
    written = {
        "a": "9007199254740993.0",
        "b": "1.10",
        "c": "1e400",
        "d": "-0",
        "e": "1E+2",
        "f": '{ "x" : [1.50, "\\u00e9", {}], "x":2 }',
        "g": "[ ]",
        "h": "NaN",
        "i": "-Infinity",
        "j": "true",
        "k": "123456789012345678901234567890",
    }
    texts = {"l": (r'"\u00e9 \n \ud83d\ude00"', "é \n 😀"), "m": (r'"\ud800 x"', "\ufffd x"), "n": ("null", None)}
    values = ",".join(f' "{key}" : {text}' for key, text in {**written, **{k: v[0] for k, v in texts.items()}}.items())
    (row,) = parsed(bronze_of, [f' {{ "time":"{AT}", "j": 5, {values} }} '], JSON)
    assert row["reasons"] == []
    assert row["fields"] == {**written, **{key: text for key, (_, text) in texts.items()}}


def test_a_path_leads_to_the_text_of_a_nested_value(bronze_of: BronzeOf) -> None:
    paths = {
        "a": ("$.m.n", "1.10"),
        "b": ("$.m['a b'][1]", "[ 2.50 ]"),
        "c": ("$.m.none.deeper", None),
        "d": ("$.m.n.deeper", None),
        "e": ("$.m.text.deeper", None),
        "f": ("$.m.twice", "2"),
        "g": ("$.m['a b'][2]", None),
        "h": ("$[0]", None),
        "i": ("$.m.text", '{"deeper":1}'),
    }
    fmt = LogFormat.model_validate(
        {
            "json": {"time": "$.m.time", "level": "level", "message": "$.m.message"},
            "time": "iso8601",
            "default_level": "INFO",
            "columns": {name: f"string from {path}" for name, (path, _) in paths.items()},
        }
    )
    line = (
        f'{{"m": {{"time": "{AT}", "message": "\\u00e9", "n": 1.10, "a b": [1, [ 2.50 ]], '
        '"text": "{\\"deeper\\":1}", "twice": 1, "twice": 2}}'
    )
    (row,) = parsed(bronze_of, [line], Parser(fmt))
    assert (row["reasons"], row["message"]) == ([], "é")
    assert {name: row[name] for name in paths} == {name: text for name, (_, text) in paths.items()}


@pytest.mark.parametrize(
    ("parser", "line"),
    [
        (LOGFMT, rf'time={AT} message="\udc00\udc00"'),
        (NESTED, rf'{{"time": "{AT}", "m": {{"n": "\udc00\udc00"}}}}'),
    ],
    ids=["logfmt", "json"],
)
@pytest.mark.usefixtures("way")
def test_escaped_surrogates_that_are_no_pair_are_valid_text(bronze_of: BronzeOf, parser: Parser, line: str) -> None:
    rows = parse(bronze_of([line]), parser, TimeLimits())
    assert rows.select(F.is_valid_utf8("message"), F.length("message") > 1).collect() == [(True, True)]


def test_a_decimal_keeps_its_digits(bronze_of: BronzeOf, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = {"json": KEYS, "time": "iso8601", "default_level": "INFO", "columns": {"n": "decimal(20,1)"}}
    fmt, line = LogFormat.model_validate(declared), f'{{"time":"{AT}","n":9007199254740993.1}}'
    assert str(parsed(bronze_of, [line], Parser(fmt))[0]["n"]) == "9007199254740993.1"
    monkeypatch.setattr(line_functions, "json_object", lambda *_: None)
    assert str(parsed(bronze_of, [line], Parser(fmt))[0]["n"]) == "9007199254740993.1"


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(_TEXTS, _VALUES, max_size=5)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(objects=st.lists(_OBJECTS, min_size=1, max_size=40), is_ascii=st.booleans())
def test_our_function_reads_json_as_python_does(
    spark: SparkSession, objects: list[dict[str, Any]], is_ascii: bool
) -> None:
    lines = [json.dumps(each, ensure_ascii=is_ascii) for each in objects]
    frame = spark.createDataFrame([*enumerate(lines)], "offset int, line string").coalesce(1)
    read = line_functions.json_object(F.col("line"), [])
    assert read is not None
    found = [
        row["object"]
        for row in frame.select("offset", read.alias("r")).select("offset", "r.object").orderBy("offset").collect()
    ]
    expected = [
        {
            key: value if isinstance(value, str) or value is None else json.dumps(value, ensure_ascii=is_ascii)
            for key, value in each.items()
        }
        for each in objects
    ]
    assert found == expected


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (r"C:\temp\new", r"C:\temp\new"),
        (r"\d+", r"\d+"),
        ("", ""),
        (r'"C:\\temp\\new"', r"C:\temp\new"),
        (r'"a\nb\tc\rd"', "a\nb\tc\rd"),
        (r'"\u00e9 \ud83d\ude00"', "é 😀"),
        (r'"\x \d"', r"\x \d"),
        (r'"say \"no\" \\n"', r'say "no" \n'),
        (r'"say \"no\" \d"', r'say "no" \d'),
        ('"a\tb"', "a\tb"),
        ('""', ""),
        ('"\\""', '"'),
        ('"é 😀"', "é 😀"),
    ],
)
def test_only_a_quoted_value_has_escapes(bronze_of: BronzeOf, written: str, text: str) -> None:
    (row,) = parsed(bronze_of, [f"time={AT} a.b={written}"], LOGFMT)
    assert (row["reasons"], row["fields"]) == ([], {"a.b": text})


def test_pairs_of_logfmt_at_their_edges(bronze_of: BronzeOf) -> None:
    rows = parsed(
        bronze_of, [f"time={AT} a=1 a=2 flag b=", f'time={AT} a="x"y', f'time={AT} a="x', f"time={AT} =1"], LOGFMT
    )
    assert rows[0]["fields"] == {"a": "2", "flag": "", "b": ""}
    assert [[each["rule"] for each in row["reasons"]] for row in rows] == [[], ["pattern"], ["pattern"], ["pattern"]]
