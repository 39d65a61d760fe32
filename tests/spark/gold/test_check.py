"""A declaration that silver cannot serve, or that a replay could compute differently, is refused before a start."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from oncelake.common.errors import ConfigError
from oncelake.gold.declaration import GoldTable
from oncelake.gold.declaration_check import check
from oncelake.silver.parsing.columns import type_of
from oncelake.silver.schema import SILVER

pytestmark = pytest.mark.spark


def refusal(spark: SparkSession, *, where: str | None = None, by: str = "level", measure: str = "count") -> str:
    table = GoldTable(where=where, every="1 hour", by={"k": by}, measures={"m": measure})
    with pytest.raises(ConfigError) as refused:
        check(spark, "t", table, SILVER)
    text = str(refused.value)
    assert "\n" not in text
    assert text.startswith("gold.t.")
    return text


@pytest.fixture(scope="module")
def foreign(spark: SparkSession) -> Iterator[None]:
    spark.udf.register("py_same", lambda x: x)
    yield
    spark.sql("DROP TEMPORARY FUNCTION py_same")


def test_a_declaration_that_silver_can_serve_passes(spark: SparkSession) -> None:
    table = GoldTable(
        where="level IN ('ERROR', 'FATAL') AND message <> 'now' AND log_time >= TIMESTAMP'1970-01-02'",
        every="1 hour",
        by={
            "thread": "fields['thread']",
            "day": "date_trunc('DAY', log_time)",
            "d": "cast(message AS DOUBLE)",
        },
        measures={"n": "count", "last": "max(struct(log_time, message))", "files": "approx_distinct(file)"},
    )
    check(spark, "t", table, SILVER)


def test_refusal_names_table_key_expression_and_reason(spark: SparkSession) -> None:
    assert refusal(spark, where="rand() < 0.5") == (
        "gold.t.where: 'rand() < 0.5' gives another value at every run, so a replay would differ; "
        "use only silver's columns"
    )
    assert refusal(spark, by="uuid()").startswith("gold.t.by.k: 'uuid()' ")
    assert refusal(spark, measure="max(now())").startswith("gold.t.measures.m: 'now()' ")


def test_unknown_column_is_refused_with_silvers_columns(spark: SparkSession) -> None:
    assert refusal(spark, by="thread") == (
        "gold.t.by.k: 'thread' names `thread`, which silver does not have; silver's columns are log_time, level, "
        "message, fields, topic, partition, offset, file, ingested_at, warnings"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("upper(level", "cannot be used: Syntax error"),
        ("level; level", "cannot be used: Syntax error"),
        ("no_such_function(level)", "cannot be used: Cannot resolve routine `no_such_function`"),
        (":level", "cannot be used: Found the unbound parameter"),
        ("*", "several columns"),
        ("count(level)", "is an aggregate"),
        ("max(level) || level", "is an aggregate"),
        ("row_number() OVER (ORDER BY level)", "is a window function"),
        ("sum(1) OVER ()", "is a window function"),
        ("window(log_time, '1 hour').start", "reads other rows"),
        ("session_window(log_time, '1 hour')", "reads other rows"),
        ("(SELECT 1)", "has a subquery"),
        ("EXISTS (SELECT 1)", "has a subquery"),
        ("explode(array(1, 2))", "turns one row into several"),
        ("1 + explode(array(1, 2))", "turns one row into several"),
        ("transform(array(1), x -> x + rand())", "gives another value at every run"),
        ("monotonically_increasing_id()", "gives another value at every run"),
        ("input_file_name()", "gives another value at every run"),
        ("aes_encrypt(message, '0000111122223333')", "gives another value at every run"),
        ("raise_error('x')", "raises an error"),
        ("assert_true(level = 'INFO')", "raises an error"),
    ],
)
def test_an_expression_over_more_than_one_row_is_refused(spark: SparkSession, text: str, reason: str) -> None:
    assert reason in refusal(spark, by=text)


@pytest.mark.parametrize(
    "text",
    [
        *("current_timestamp()", "now()", "current_date", "localtimestamp()", "unix_timestamp()"),
        *("current_user()", "session_user()", "current_database()", "current_timezone()", "version()"),
        *("date_trunc('DAY', now())", "DATE'today'", "timestamp /* at */ 'now'", "CAST('now' AS TIMESTAMP)"),
        *("try_cast(' Today' AS DATE)", "CAST(concat('no', 'w') AS TIMESTAMP)", "to_timestamp('now')"),
        *("try_to_timestamp('now')", "to_date('today')"),
        "log_time > 'yesterday'",
    ],
)
def test_an_expression_that_depends_on_the_clock_or_the_user_is_refused(spark: SparkSession, text: str) -> None:
    assert "depends on the clock, the user or the session" in refusal(spark, by=text)


@pytest.mark.usefixtures("foreign")
def test_python_function_is_refused(spark: SparkSession) -> None:
    assert "is a Python function" in refusal(spark, by="py_same(level)")


def test_a_where_that_is_not_a_condition_is_refused(spark: SparkSession) -> None:
    assert "is of type string; where must be a condition" in refusal(spark, where="level")


@pytest.mark.parametrize(
    "text",
    [
        *(
            "fields",
            "array(fields)",
            "array(level)",
            "struct(level)",
            "parse_json(message)",
            "INTERVAL 1 DAY",
        ),
        *("NULL", "level COLLATE UTF8_LCASE", "log_time::timestamp_ntz"),
    ],
)
def test_a_key_that_is_not_a_plain_value_is_refused(spark: SparkSession, text: str) -> None:
    assert "a key must be a plain value" in refusal(spark, by=text)


@pytest.mark.parametrize(
    ("measure", "reason"),
    [
        (
            "sum(cast(message AS DOUBLE))",
            "depends on the order of rows, so a replay could differ: write sum(try_cast",
        ),
        ("sum(message)", "a sum needs integers or decimals"),
        ("sum(cast(message AS DECIMAL(29,3)))", "up to 28 digits"),
        ("max(fields)", "values with one order"),
        ("min(struct(log_time, cast(message AS FLOAT)))", "without floats"),
        ("max(message COLLATE UTF8_LCASE)", "values with one order"),
        ("approx_distinct(fields)", "approx_distinct needs plain values"),
        ("approx_distinct(array(level))", "approx_distinct needs plain values"),
    ],
)
def test_measure_over_a_type_that_cannot_be_merged_is_refused(spark: SparkSession, measure: str, reason: str) -> None:
    assert refusal(spark, measure=measure).startswith("gold.t.measures.m: ")
    assert reason in refusal(spark, measure=measure)


def test_refusal_prints_only_its_line(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    refusal(spark, by="nope + 1")
    assert capfd.readouterr() == ("", "")


TYPED = StructType([*SILVER.fields])
for name, kind in {
    "status": "int",
    "size": "bigint",
    "took": "double",
    "price": "decimal(10,2)",
    "wide": "decimal(38,0)",
    "ok": "boolean",
    "day": "date",
    "started": "timestamp",
    "user_id": "string",
}.items():
    TYPED = TYPED.add(name, type_of(kind))


@pytest.mark.parametrize("measure", ["sum(status)", "max(size)", "sum(price)", "min(took)", "max(day)", "max(started)"])
def test_typed_columns_are_measured_as_they_are(spark: SparkSession, measure: str) -> None:
    table = GoldTable(
        where="status >= 400 AND ok AND took / status > 0.5 AND size * status > 0 AND price + wide > 1",
        every="1 hour",
        by={
            "status": "status",
            "user_id": "user_id",
            "day": "day",
            "class": "status DIV 100",
            "below": "size % status",
        },
        measures={"m": measure, "n": "count"},
    )
    check(spark, "t", table, TYPED)


@pytest.mark.parametrize("key", ["date_trunc('DAY', started)", "from_utc_timestamp(started, 'Europe/Paris')"])
def test_an_expression_that_throws_on_some_value_of_a_typed_column_is_refused(spark: SparkSession, key: str) -> None:
    with pytest.raises(ConfigError, match=r"gold\.t\.by\.k: "):
        check(
            spark,
            "t",
            GoldTable(every="1 hour", by={"k": key}, measures={"n": "count"}),
            TYPED,
        )
