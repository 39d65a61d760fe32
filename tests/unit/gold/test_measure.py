"""A measure is parsed exactly, and one that cannot be merged is refused by name with the way out."""

import re

import pytest
from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from oncelake.gold.declaration import GoldTable
from oncelake.gold.functions import ACCEPTED, FUNCTIONS
from oncelake.gold.measure import NOT_ADDITIVE, Measure, parse_measure


@pytest.mark.parametrize(
    ("text", "function", "argument"),
    [
        ("count", "count", ""),
        (" COUNT ", "count", ""),
        ("count where level = 'ERROR'", "count where", "level = 'ERROR'"),
        (" Rate WHERE fields['status'] >= 500 ", "rate where", "fields['status'] >= 500"),
        ("sum(partition)", "sum", "partition"),
        ("avg(fields['ms'])", "avg", "fields['ms']"),
        ("min( log_time )", "min", "log_time"),
        ("max (length(trim(message)))", "max", "length(trim(message))"),
        ("approx_distinct(fields['thread'])", "approx_distinct", "fields['thread']"),
        ("sum(try_cast(fields['ms'] AS DECIMAL(18,3)))", "sum", "try_cast(fields['ms'] AS DECIMAL(18,3))"),
        ("max(replace(message, ')', '('))", "max", "replace(message, ')', '(')"),
        (
            r"max(replace(message, '\'(', \"(,\"))".replace('\\"', '"'),
            "max",
            r"""replace(message, '\'(', "(,")""",
        ),
        (r"max(regexp_extract(message, r'(\d+)\', 1))", "max", r"regexp_extract(message, r'(\d+)\', 1)"),
        ("max(`odd)name`)", "max", "`odd)name`"),
        ("max(struct(log_time,\n message))", "max", "struct(log_time,\n message)"),
    ],
)
def test_a_measure_is_parsed_with_its_whole_expression(text: str, function: str, argument: str) -> None:
    assert parse_measure("m", text) == Measure("m", function, argument)


@pytest.mark.parametrize("share", ["0", "1", "0.5", ".95", "0.999999", "1.0"])
def test_a_percentile_has_a_share_after_its_expression(share: str) -> None:
    measure = parse_measure("m", f"percentile(try_cast(fields['ms'] AS DECIMAL(18,3)), {share})")
    assert (measure.argument, measure.extra) == ("try_cast(fields['ms'] AS DECIMAL(18,3))", share)


@pytest.mark.parametrize("text", ["percentile(x)", "percentile", "percentile(x, 95)", "percentile(x, 0.1234567)"])
def test_a_percentile_without_a_share_from_0_to_1_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"percentile needs a number from 0 to 1 .*percentile\(x, 0\.95\)"):
        parse_measure("m", text)


@pytest.mark.parametrize(
    ("text", "argument", "order"),
    [
        ("first(message)", "message", ""),
        ("last(substr(message, 1, 3))", "substr(message, 1, 3)", ""),
        ("last(concat(level, ', ('), unix_micros(log_time))", "concat(level, ', (')", "unix_micros(log_time)"),
    ],
)
def test_a_first_or_last_value_has_an_order(text: str, argument: str, order: str) -> None:
    measure = parse_measure("m", text)
    assert (measure.argument, measure.extra) == (argument, order)
    assert measure.expression == f"named_struct('at', {order or 'log_time'}, 'value', {argument})"
    assert measure.text == text


@pytest.mark.parametrize("text", ["first(a, b, c)", "last(a,)", "first(, a)", "last()"])
def test_a_first_or_last_value_with_other_arguments_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"one function around one expression|needs one expression"):
        parse_measure("m", text)


@pytest.mark.parametrize(
    ("order", "value", "way"),
    [(StringType(), LongType(), "its order must be a time"), (LongType(), MapType(StringType(), LongType()), "plain")],
)
def test_a_first_value_of_other_types_is_refused(order: DataType, value: DataType, way: str) -> None:
    refused = FUNCTIONS["first"].over(StructType([StructField("at", order), StructField("value", value)]))
    assert isinstance(refused, str)
    assert way in refused


@pytest.mark.parametrize("function", sorted(NOT_ADDITIVE))
def test_a_measure_that_cannot_be_merged_is_refused_with_the_way_out(function: str) -> None:
    with pytest.raises(ValueError, match=rf"^{function} is refused: .+(use|declare|read) "):
        parse_measure("m", f"{function}(partition)")


@pytest.mark.parametrize("text", ["count where", "rate where  "])
def test_a_count_with_a_condition_needs_the_condition(text: str) -> None:
    with pytest.raises(ValueError, match=f"a condition over silver is needed: {text.strip()} CONDITION"):
        parse_measure("m", text)


@pytest.mark.parametrize(
    ("function", "kind", "way"),
    [
        ("avg", DoubleType(), r"depends on the order of rows.*write avg\(try_cast\(… AS DECIMAL\(18,3\)\)\)"),
        ("avg", StringType(), r"write avg\(try_cast\(… AS BIGINT\)\)"),
        ("stddev", FloatType(), r"depends on the order of rows.*write stddev\(try_cast\(… AS DECIMAL\(14,3\)\)\)"),
        ("stddev", LongType(), r"squares need room: write stddev\(try_cast\(… AS DECIMAL\(14,3\)\)\)"),
        ("stddev", DecimalType(14, 4), r"write stddev\(try_cast"),
        ("stddev", DecimalType(12, 0), r"write stddev\(try_cast"),
    ],
)
def test_values_that_do_not_add_up_exactly_are_refused_with_a_cast(function: str, kind: DataType, way: str) -> None:
    refused = FUNCTIONS[function].over(kind)
    assert isinstance(refused, str)
    assert re.search(way, refused)


@pytest.mark.parametrize("kind", [IntegerType(), ShortType(), DecimalType(14, 3), DecimalType(11, 0)])
def test_a_deviation_is_of_values_whose_squares_have_room(kind: DataType) -> None:
    assert FUNCTIONS["stddev"].over(kind) == DoubleType()


@pytest.mark.parametrize("text", ["count(DISTINCT level)", "sum(distinct partition)", "max( distinct level)"])
def test_distinct_is_refused_with_approx_distinct_as_the_way_out(text: str) -> None:
    with pytest.raises(ValueError, match=r"is refused: .*use approx_distinct\(x\)"):
        parse_measure("m", text)


@pytest.mark.parametrize("text", ["count()", "count(*)", "count(level)"])
def test_count_takes_no_argument(text: str) -> None:
    with pytest.raises(ValueError, match=r"written without parentheses; .*count where x IS NOT NULL"):
        parse_measure("m", text)


def test_an_unknown_measure_is_refused_with_the_list_of_known_ones() -> None:
    with pytest.raises(
        ValueError,
        match=r"no measure total; use one of count, count where CONDITION, rate where CONDITION, sum\(x\), ",
    ):
        parse_measure("m", "total(partition)")


@pytest.mark.parametrize("text", ["", "1 + 1", "sum(x) + 1", "(count)", "max(x) filter (where y)"])
def test_a_measure_that_is_not_a_call_is_refused_with_the_accepted_form(text: str) -> None:
    with pytest.raises(ValueError, match=r"a measure is one ") as refused:
        parse_measure("m", text)
    assert "(x)" in str(refused.value) or ACCEPTED in str(refused.value)


@pytest.mark.parametrize("text", ["max(a) + min(b)", "max((a)", "max(a))", "max(a, b)", "max('a)", "sum(a[)"])
def test_two_calls_two_arguments_and_open_parentheses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"a measure is one function around one expression"):
        parse_measure("m", text)


@pytest.mark.parametrize("text", ["sum", "max()", "approx_distinct( )"])
def test_measure_without_its_expression_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"needs one expression over silver: \w+\(x\)"):
        parse_measure("m", text)


def test_the_columns_of_percentiles_do_not_depend_on_their_order() -> None:
    texts = {"p95": "percentile(ms, 0.95)", "p50": "percentile(ms, 0.5)", "other": "percentile(size, 0.5)"}
    tables = [
        GoldTable.model_validate({"every": "1 minute", "measures": measures})
        for measures in (texts, dict(sorted(texts.items())))
    ]
    one, two = ({measure.name: [*measure.parts] for measure in table.parsed} for table in tables)
    assert one == two
    assert one["p50"] == one["p95"] != one["other"]
