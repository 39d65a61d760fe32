"""A pattern that takes too many steps, or overflows Java's stack, costs its line alone, and the line names it."""

from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.spark import line_functions
from oncelake.quality.expectations import EXPECTATIONS
from oncelake.quality.suite import Rule
from oncelake.silver.parsing.format import LogFormat, load_format
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.parsing.parts import groups_by_spark
from oncelake.silver.parsing.pattern import groups, whole_line
from oncelake.silver.transform import TimeLimits, parse
from tests.support.bronze_rows import BronzeOf
from tests.support.places import FORMATS

pytestmark = pytest.mark.spark

TIME = "2017-07-30 14:09:08"
LAZY = (
    r"^(?<time>\S+ \S+) (?<level>\w+) (?<a>.*?) (?<b>.*?) (?<c>.*?) (?<d>.*?) (?<e>.*?) (?<f>.*?) (?<g>.*?) "
    r"(?<message>.*?);$"
)
STEEP = "a*a*a*a*a*a*a*a*z"
TOO_LONG = "a" * 40 + "b"


def parser_of(pattern: str, **others: object) -> Parser:
    return Parser(LogFormat.model_validate({"pattern": pattern, "time": "yyyy-MM-dd HH:mm:ss", **others}))


def reasons(parsed: DataFrame) -> list[list[str]]:
    return [[each["rule"] for each in row["reasons"]] for row in parsed.orderBy("offset").collect()]


def in_file(rows: DataFrame) -> DataFrame:
    return rows.withColumns({"file": F.lit("a.log")})


def test_a_line_on_which_a_pattern_takes_too_many_steps_is_refused_by_name(bronze_of: BronzeOf) -> None:
    lines = [f"{TIME} ERROR" + " word" * 300, f"{TIME} ERROR a b c d e f g done;"]
    parsed = parse(bronze_of(lines), parser_of(LAZY), TimeLimits())
    assert reasons(parsed) == [["pattern_steps"], []]


def test_a_pattern_with_a_repeated_group_reads_a_long_line(bronze_of: BronzeOf) -> None:
    text = "ab " * 20_000
    pattern = r"^(?<time>\S+ \S+) (?<level>\w+) (?<message>(?:a|b| )*)$"
    (row,) = parse(bronze_of([f"{TIME} ERROR {text}"]), parser_of(pattern), TimeLimits()).collect()
    assert (row["reasons"], row["message"]) == ([], text)


def test_a_line_that_no_stack_is_large_enough_for_is_refused_by_name(bronze_of: BronzeOf) -> None:
    pattern = r"^(?<time>\S+ \S+) (?<level>\w+) (?<message>(?:a|b| )*)$"
    parsed = parse(bronze_of([f"{TIME} ERROR " + "ab " * 4_000_000]), parser_of(pattern), TimeLimits())
    assert reasons(parsed) == [["pattern_steps"]]


def test_a_record_whose_start_takes_too_many_steps_is_refused_by_name(bronze_of: BronzeOf) -> None:
    parser = parser_of(r"^(?<time>\S+ \S+) (?<level>\w+) (?<message>.*)$", record={"starts": rf"^\d{{4}}|^{STEEP}"})
    parsed = parse(in_file(bronze_of([f"{TIME} INFO m", TOO_LONG])), parser, TimeLimits())
    assert reasons(parsed) == [[], ["pattern_steps"]]


def test_a_part_or_a_joint_that_takes_too_many_steps_is_refused_by_name(bronze_of: BronzeOf) -> None:
    pattern = r"^(?<time>\S+ \S+) (?<level>\w+) (?<message>.*)$"
    part = {"part": rf"^\d{{4}}(?<of>)|(?<more>{STEEP})", "joint": "\n"}
    joint = {"part": r"^\d{4}(?<of>)(?<more>-)", "joint": rf"\n{STEEP}"}
    rows = in_file(bronze_of([f"{TIME} INFO m", TOO_LONG, f"{TIME} INFO m\n{TOO_LONG}", "x" * 2_000 + TOO_LONG]))
    assert reasons(parse(rows, parser_of(pattern, record=part), TimeLimits())) == [
        [],
        ["pattern_steps"],
        [],
        ["pattern_steps"],
    ]
    assert reasons(parse(rows, parser_of(pattern, record=joint), TimeLimits()))[2] == ["pattern_steps"]


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("expect_column_values_to_match_regex", {"regex": STEEP}),
        ("expect_column_values_to_not_match_regex", {"regex": STEEP}),
        ("expect_column_values_to_match_regex_list", {"regex_list": [STEEP, "z"]}),
        ("expect_column_values_to_match_regex_list", {"regex_list": [STEEP, "a"], "match_on": "all"}),
        ("expect_column_values_to_not_match_regex_list", {"regex_list": ["z", STEEP]}),
    ],
)
def test_a_rule_that_takes_too_many_steps_refuses_the_line_and_says_so(
    bronze_of: BronzeOf, kind: str, arguments: dict[str, object]
) -> None:
    expectation = EXPECTATIONS[kind].model_validate({"column": "message", **arguments})
    rule = Rule(id="mine", type=kind, severity="critical", expectation=expectation)
    parser = parser_of(r"^(?<time>\S+ \S+) (?<level>\w+) (?<message>.*)$")
    (row,) = parse(bronze_of([f"{TIME} INFO {TOO_LONG}"]), parser, TimeLimits(), [rule]).collect()
    assert [(each["rule"], each["value"]) for each in row["reasons"]] == [("mine", f"too many steps: {TOO_LONG}")]


def test_the_expressions_of_a_list_do_not_reach_into_each_other(spark: SparkSession) -> None:
    regexes = ("(?i)(a)bc", r"(x)\1", "def")
    values = ["ABC", "DEF", "xx", "def", "y"]
    expectation = EXPECTATIONS["expect_column_values_to_match_regex_list"].model_validate(
        {"column": "value", "regex_list": regexes}
    )
    rows = spark.createDataFrame([(value,) for value in values], "value string")
    broken = [row[0] for row in rows.select("value", expectation.broken(F.col).alias("b")).where("b").collect()]
    assert broken == ["DEF", "y"]


def _random_lines(examples: list[str], count: int) -> list[str]:
    random = Random(46)
    lines = []
    for _ in range(count):
        line = random.choice(examples)
        for _ in range(random.randrange(4)):
            at = random.randrange(len(line) + 1)
            line = (
                line[:at]
                + random.choice(["", " ", "[", '"', "\n", "\x1e", "é", "😀", "\\", "-", "x" * 20])
                + line[at + 1 :]
            )
        lines.append(line)
    return lines


@pytest.mark.parametrize("name", ["java", "access", "log4j", "syslog", "postgresql", "apache_error", "kubernetes"])
def test_our_function_splits_a_line_as_spark_does(spark: SparkSession, name: str) -> None:

    examples = [
        "2026-11-25 10:00:01,500 ERROR [http-1] com.example.Api - request failed\n  at x",
        '127.0.0.1 - ann [10/Oct/2025:13:55:36 -0700] "GET /a HTTP/1.1" 200 2326 "https://e.com/" "Mozilla/5.0"',
        "2015-07-29 17:41:44,747 - INFO  [main:Cls@774] - text",
        '<165>1 2003-10-11T22:14:15.003Z host.example.com app - ID47 [x@1 a="b"] An event',
        "<34>Oct 11 22:14:15 mymachine su[230]: 'su root' failed",
        '2026-11-25 10:00:01.500 UTC [42] ann@shop ERROR:  relation "orders" does not exist',
        "[Fri Sep 09 10:42:29.902022 2011] [core:error] [pid 35708:tid 4328636416] [client 72.15.99.187] text",
        "2026-11-25T10:00:01.500000000Z stderr F request failed",
    ]
    pattern = load_format(name, [FORMATS]).pattern or ""
    whole, names = whole_line(pattern), groups(pattern).names
    lines = spark.createDataFrame([(line,) for line in _random_lines(examples, 2_000)], "line string").coalesce(1)
    own = line_functions.groups(F.col("line"), whole, [*names.values()])
    assert own is not None
    size = F.lit(len(names) + 1)
    theirs = groups_by_spark(F.col("line"), whole, names)
    kept = lines.select("line", own.alias("own"), F.when(F.size(theirs) == size, theirs).alias("theirs")).collect()
    assert [row["line"] for row in kept if row["own"] != row["theirs"]] == []
    assert 20 < sum(row["own"] is not None for row in kept) < 2_000
