"""Each rule of the split gives the same verdict as Great Expectations, row by row."""

import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.observe.audit.audit import errors, library
from oncelake.quality.expectations import EXPECTATIONS
from oncelake.quality.split import at

pytestmark = pytest.mark.spark

SCHEMA = "id INT, text STRING, other STRING, number DOUBLE, whole BIGINT, at TIMESTAMP"
FORMATS = ("%Y-%m-%d", "%d/%b/%Y:%H:%M:%S", "%B %d %y", "%A %I:%M %p", "%H:%M:%S.%f", "%Y%m%d", "%d.%m. %%", "%Y %b")
ODD_TEXTS = [
    *("", " ", "a", "A", "ab", "a\n", "a b", "0", "1", "10", "9", "-1", "NaN", "null", "é", "e\u0301", "😀", "\0", "ſ"),
    *("2024-02-29", "2023-02-29", "1900-02-29", "0000-01-01", "2024-13-01", "2024-1-1", "2024-02-30", "２０２４-01-01"),
    *("31/Apr/2024:10:00:00", "30/Apr/2024:10:00:60", "1/jan/2024:1:1:1", "30/Apr/2024:24:00:00", "May 31 69"),
    *("february 29 00", "February 30 24", "Auguſt 1 24", "Monday 12:59 pm", "sunday 13:00 AM", "23:59:61.1"),
    *("23:59:59.1234567", "20240229", "2024 229", "29.02. %", "28.2. %", "2024\u2003Feb", "2024 May x", "31.4. %"),
]
TEXTS = st.one_of(st.none(), st.sampled_from(ODD_TEXTS), st.text(max_size=6))
NUMBERS = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, -0.0, 1.0, 1e308, 5e-324]))
WHOLES = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3))
TIMES = st.one_of(st.none(), st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))
ROWS = st.lists(st.tuples(TEXTS, TEXTS, NUMBERS, WHOLES, TIMES), min_size=20, max_size=60)
REGEX = st.sampled_from(["^a", "b$", "^$", r"\d", r"\bа\b", "(?i)A", ".", r"^.$", r"\p{L}", "[^a-z]"])
COLUMN = st.sampled_from(["text", "number", "whole", "at"])
WORDS = st.lists(st.sampled_from([each for each in ODD_TEXTS if each != "\0"]), min_size=1, max_size=4)
IGNORED = st.sampled_from(["both_values_are_missing", "either_value_is_missing", "neither"])
BOUNDS = st.one_of(
    st.tuples(st.just("number"), st.floats(-10, 10), st.floats(10, 20)),
    st.tuples(st.just("whole"), st.integers(-5, 0), st.integers(0, 2**62)),
    st.tuples(st.just("whole"), st.just("-3"), st.integers(2**53 + 1, 2**53 + 1)),
    st.tuples(st.just("at"), st.just("1970-01-01"), st.just("2024-02-29")),
    st.tuples(st.just("at"), st.just("1970-01-01 00:00:01"), st.just("2024-02-29 12:00:00")),
)


@st.composite
def between(draw: st.DrawFn) -> dict[str, Any]:
    column, low, high = draw(BOUNDS)
    bounds = {"min_value": low, "max_value": high}
    open_end = draw(st.sampled_from([None, "min_value", "max_value"]))
    strict = {"strict_min": draw(st.booleans()), "strict_max": draw(st.booleans())}
    return {"column": column, **{key: value for key, value in bounds.items() if key != open_end}, **strict}


def of(column: st.SearchStrategy[str] | str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    named = st.just(column) if isinstance(column, str) else column
    return st.fixed_dictionaries({"column": named, **arguments})


def pair(one: str, other: str, **arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    named = {"column_A": st.just(one), "column_B": st.just(other), "ignore_row_if": IGNORED}
    return st.fixed_dictionaries({**named, **arguments})


ARGUMENTS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "expect_column_values_to_not_be_null": of(COLUMN),
    "expect_column_values_to_be_null": of(COLUMN),
    "expect_column_values_to_be_in_set": of("text", value_set=WORDS) | of("whole", value_set=st.just([0, 1, -1])),
    "expect_column_values_to_not_be_in_set": of("text", value_set=WORDS) | of("number", value_set=st.just([0.0, 1.0])),
    "expect_column_values_to_match_regex": of("text", regex=REGEX),
    "expect_column_values_to_not_match_regex": of("text", regex=REGEX),
    "expect_column_values_to_match_regex_list": of(
        "text", regex_list=st.lists(REGEX, min_size=1, max_size=3), match_on=st.sampled_from(["any", "all"])
    ),
    "expect_column_values_to_not_match_regex_list": of("text", regex_list=st.lists(REGEX, min_size=1, max_size=3)),
    "expect_column_values_to_be_between": between(),
    "expect_column_value_lengths_to_be_between": of("text", min_value=st.integers(0, 3), strict_min=st.booleans()),
    "expect_column_value_lengths_to_equal": of("text", value=st.integers(0, 4)),
    "expect_column_values_to_match_strftime_format": of("text", strftime_format=st.sampled_from(FORMATS)),
    "expect_column_pair_values_to_be_equal": pair("text", "other") | pair("number", "whole"),
    "expect_column_pair_values_a_to_be_greater_than_b": pair("text", "other", or_equal=st.booleans())
    | pair("number", "whole", or_equal=st.booleans()),
    "expect_column_pair_values_to_be_in_set": pair(
        "text", "other", value_pairs_set=st.just([["a", "A"], ["", None], [None, "0"]])
    ),
}
# A column's type is not a property of a row: a rule about it is refused at the start unless it holds.
BY_COLUMN = {"expect_column_values_to_be_of_type", "expect_column_values_to_be_in_type_list"}


@pytest.fixture(scope="module")
def asset() -> Any:
    """Return Great Expectations' asset for frames; importing the library takes seconds."""
    gx = library()
    from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    logging.getLogger("great_expectations").setLevel(logging.ERROR)
    source = context.data_sources.add_spark("spark", persist=False)
    return source.add_dataframe_asset("frame")


def frame_of(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    aware = [(*row[:-1], row[-1].replace(tzinfo=UTC) if row[-1] else None) for row in rows]
    return spark.createDataFrame([(number, *row) for number, row in enumerate(aware)], SCHEMA).coalesce(1)


def by_library(asset: Any, frame: DataFrame, configured: list[dict[str, Any]]) -> list[set[int]]:
    """Return the rows that Great Expectations finds unexpected, for each expectation."""
    from great_expectations.core import ExpectationSuite  # noqa: PLC0415

    definition = next(iter(asset.batch_definitions), None) or asset.add_batch_definition_whole_dataframe("whole")
    suite = ExpectationSuite(name="suite", expectations=configured)
    wanted = {"result_format": "COMPLETE", "unexpected_index_column_names": ["id"]}
    found = definition.get_batch({"dataframe": frame}).validate(suite, result_format=wanted)
    for result in found.results:
        assert next(errors(result.exception_info), None) is None, result
    by_type = {
        result.expectation_config.type: {row["id"] for row in result.result.get("unexpected_index_list") or []}
        for result in found.results
    }
    return [by_type[each["type"]] for each in configured]


def by_split(frame: DataFrame, configured: list[dict[str, Any]]) -> list[set[int]]:
    """Return the rows that break each rule."""
    rules = [EXPECTATIONS[each["type"]].model_validate(each["kwargs"]) for each in configured]
    broken = frame.select("id", *(rule.broken(at).alias(f"b{place}") for place, rule in enumerate(rules))).collect()
    return [{row["id"] for row in broken if row[f"b{place}"]} for place in range(len(rules))]


def test_the_comparison_covers_every_rule() -> None:
    assert ARGUMENTS.keys() | BY_COLUMN == EXPECTATIONS.keys()


# the same examples each time: these tests must not fail by chance after an unrelated change
@settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)
@given(rows=ROWS, arguments=st.fixed_dictionaries(ARGUMENTS))
def test_the_split_and_the_library_agree(
    spark: SparkSession, asset: Any, rows: list[tuple[Any, ...]], arguments: dict[str, dict[str, Any]]
) -> None:
    frame = frame_of(spark, rows).localCheckpoint()
    configured = [{"type": name, "kwargs": given_} for name, given_ in arguments.items()]
    expected, found = by_library(asset, frame, configured), by_split(frame, configured)
    for each, one, other in zip(configured, expected, found, strict=True):
        assert one == other, (each, [rows[number] for number in one ^ other])


@pytest.mark.parametrize("given_format", FORMATS)
def test_times_are_read_as_python_reads_them(spark: SparkSession, given_format: str) -> None:
    texts = [*ODD_TEXTS, *(datetime(2024, 2, 29, 23, 5, 9).strftime(each) for each in FORMATS)]
    rule = EXPECTATIONS["expect_column_values_to_match_strftime_format"].model_validate(
        {"column": "text", "strftime_format": given_format}
    )
    frame = spark.createDataFrame([(text,) for text in texts], "text STRING").coalesce(1)
    broken = [row["text"] for row in frame.where(rule.broken(F.col)).collect()]
    assert broken == [text for text in texts if not _reads(text, given_format)]
    assert len(broken) < len(texts)


def _reads(text: str, given_format: str) -> bool:
    try:
        datetime.strptime(text, given_format)
    except ValueError:
        return False
    return True
