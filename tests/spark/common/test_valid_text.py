"""An expression whose texts are surely valid costs nothing; every other one is made valid."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common.spark.valid_text import is_invalid, may_be_invalid, valid
from tests.support.spark_handles import first_expression

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.sql(
        """SELECT X'61ff' AS bytes, 'ab' AS text, map('k', 'v') AS fields, 7 AS number, timestamp'2017-07-30' AS at,
        '{"a":"\\\\udc00\\\\udc00"}' AS json"""
    )


def is_unsure(rows: DataFrame, text: str) -> bool:
    return may_be_invalid(rows.sparkSession, first_expression(rows.selectExpr(text)))


@pytest.mark.parametrize(
    "text",
    [
        "text",
        "fields['k']",
        "try_element_at(fields, 'k')",
        "cast(number as string)",
        "upper(trim(substring(text, 1, 1)))",
        "nvl(left(text, 1), 'none')",
        "CASE WHEN bytes = X'ff' THEN 'a' ELSE concat(text, 'b') END",
        "struct(at, text)",
        "regexp_extract(text, '(a)', 1)",
        "date_format(at, 'yyyy')",
        "length(cast(bytes as string))",
    ],
)
def test_an_expression_with_valid_texts_is_left_as_it_is(rows: DataFrame, text: str) -> None:
    assert not is_unsure(rows, text)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("cast(bytes as string)", "a\ufffd"),
        ("cast(unhex('ff') as string)", "\ufffd"),
        ("cast(X'ff' as string)", "\ufffd"),
        ("cast(substring(cast('é' as binary), 1, 1) as string)", "\ufffd"),
        ("concat(text, left(cast(bytes as string), 9))", "aba\ufffd"),
        ("nvl(cast(bytes as string), text)", "a\ufffd"),
        ("get_json_object(json, '$.a')", "\ufffd" * 4),
        ("array(cast(bytes as string), text)", ["a\ufffd", "ab"]),
        ("array(struct(number, cast(bytes as string)))", [(7, "a\ufffd")]),
    ],
)
def test_text_that_is_not_utf_8_is_made_valid_and_counted(rows: DataFrame, text: str, made: object) -> None:
    assert is_unsure(rows, text)
    value, kind = F.expr(text), rows.selectExpr(text).schema[0].dataType
    assert rows.select(valid(value, kind), is_invalid(value, kind)).collect() == [(made, True)]
    again = valid(value, kind)
    assert rows.select(is_invalid(again, kind)).collect() == [(False,)]


@pytest.mark.parametrize("kind", ["string", "array<string>", "struct<a: string>", "array<struct<a: string>>"])
def test_a_value_that_is_null_stays_null(rows: DataFrame, kind: str) -> None:
    null = F.lit(None).cast(kind)
    given = rows.select(null.alias("null")).schema[0].dataType
    assert rows.select(valid(null, given), is_invalid(null, given)).collect() == [(None, False)]
