"""A gold table's rows depend only on the set of lines: not on their order, partitions, or batches."""

import itertools
import math
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from chispa import assert_df_equality
from delta.tables import DeltaTable
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, StructType

from oncelake.common.explain import explain
from oncelake.exactly_once.writers import MergeSql, Windows
from oncelake.gold import functions
from oncelake.gold.declaration import GoldTable
from oncelake.gold.schema import gold_schema
from oncelake.gold.transform import aggregate, in_gold, merge_into, windows, windows_within
from oncelake.silver.schema import SILVER

pytestmark = pytest.mark.spark

NOON = datetime(2017, 7, 30, 12, 0, tzinfo=UTC)
BIG = 9_223_372_036_854_775_807

EVERYTHING = GoldTable(
    where="coalesce(level, '') <> 'TRACE'",
    every="1 hour",
    by={"select": "level", "ratio": "try_cast(fields['ratio'] AS DOUBLE)"},
    measures={
        "order": "count",
        "total": "sum(offset)",
        "exact": "sum(try_cast(fields['ms'] AS DECIMAL(28,9)))",
        "first_text": "min(message)",
        "last_text": "max(message)",
        "first_at": "min(log_time)",
        "last_at": "max(log_time)",
        "lowest": "min(try_cast(fields['x'] AS DOUBLE))",
        "highest": "max(try_cast(fields['x'] AS FLOAT))",
        "last_line": "max(struct(log_time, message))",
        "texts": "approx_distinct(message)",
        "values": "approx_distinct(try_cast(fields['x'] AS DOUBLE))",
        "errors": "count where level = 'ERROR'",
        "error_rate": "rate where level = 'ERROR'",
        "mean": "avg(try_cast(fields['ms'] AS DECIMAL(28,9)))",
        "spread": "stddev(try_cast(fields['x'] AS DECIMAL(14,3)))",
        "half": "percentile(try_cast(fields['x'] AS DOUBLE), 0.5)",
        "most": "percentile(try_cast(fields['x'] AS DOUBLE), 0.95)",
        "ms": "percentile(try_cast(fields['ms'] AS DECIMAL(28,9)), 0)",
        "oldest": "first(message)",
        "newest": "last(try_cast(fields['x'] AS DOUBLE), offset)",
    },
)


def line(**columns: Any) -> tuple[Any, ...]:
    given = {"log_time": NOON, "level": "INFO", "message": "hi", "fields": {}, **columns}
    return tuple(given.get(name) for name in SILVER.names)


def lines(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), SILVER)


def shown(gold: DataFrame) -> DataFrame:
    return gold.drop(*(name for name in gold.columns if name.startswith("_sketch_")))


def bits(gold: DataFrame) -> list[tuple[Any, ...]]:
    """Return all rows in a fixed order, floats as their bits: NaN equals itself, and -0.0 is not 0.0."""
    rows = [tuple(_bits(value) for value in row) for row in shown(gold).collect()]
    return sorted(rows, key=repr)


def _bits(value: Any) -> Any:
    if isinstance(value, dict):
        return [*value.items()]
    if isinstance(value, tuple):
        return [_bits(part) for part in value]
    return struct.pack(">d", value).hex() if isinstance(value, float) else value


def merge_sql(table: GoldTable, touched: Windows) -> MergeSql:
    made = merge_into(table, StructType(), touched, "spark")
    assert made is not None
    return made


def merge(spark: SparkSession, path: str, rows: DataFrame, sql: MergeSql) -> None:
    gold = DeltaTable.forPath(spark, path).alias("gold")
    matched = gold.merge(rows.alias("batch"), sql.condition).whenMatchedUpdate(set=dict(sql.update))
    matched.whenNotMatchedInsertAll().execute()


@pytest.fixture(params=["false", "true"], ids=["ansi off", "ansi on"])
def ansi(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    before = str(spark.conf.get("spark.sql.ansi.enabled"))
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield request.param
    spark.conf.set("spark.sql.ansi.enabled", before)


@pytest.fixture
def fold(spark: SparkSession, tmp_path: Path) -> Callable[[Sequence[DataFrame], GoldTable], DataFrame]:
    """Return a function that merges batches of silver into a Delta table, one by one, and returns its rows."""

    def merged(batches: Sequence[DataFrame], table: GoldTable) -> DataFrame:
        schema = gold_schema(spark, table, batches[0].schema)
        path = str(tmp_path / "gold")
        spark.createDataFrame([], schema).write.format("delta").save(path)
        for batch in batches:
            rows = aggregate(batch, table)
            merge(spark, path, rows, merge_sql(table, windows(rows)))
        return spark.read.format("delta").load(path)

    return merged


def test_errors_are_counted_per_minute_whatever_their_age(spark: SparkSession) -> None:
    table = GoldTable(where="level = 'ERROR'", every="1 minute", measures={"log_count": "count"})
    ancient = datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    times = [NOON, NOON + timedelta(seconds=59, microseconds=999_999), NOON + timedelta(minutes=1), ancient]
    rows = [line(level="ERROR", log_time=time) for time in times]
    silver = lines(spark, *rows, line(level="INFO"), line(level=None))
    expected = [(NOON, 2), (NOON + timedelta(minutes=1), 1), (datetime(1969, 12, 31, 23, 59, tzinfo=UTC), 1)]
    assert_df_equality(
        aggregate(silver, table),
        spark.createDataFrame(expected, "log_time timestamp, log_count bigint"),
        ignore_row_order=True,
        ignore_nullable=True,
        ignore_metadata=True,
    )


def test_week_starts_on_the_thursday_of_the_epoch(spark: SparkSession) -> None:
    table = GoldTable(every="1 week", measures={"n": "count"})
    (row,) = aggregate(lines(spark, line()), table).selectExpr("CAST(log_time AS STRING) AS start").collect()
    assert row["start"] == "2017-07-27 00:00:00"


def test_columns_and_types_match_the_schema(spark: SparkSession) -> None:
    schema = gold_schema(spark, EVERYTHING, SILVER)
    assert [(field.name, field.dataType.simpleString()) for field in schema] == [
        ("log_time", "timestamp"),
        ("select", "string"),
        ("ratio", "double"),
        ("order", "bigint"),
        ("total", "decimal(38,0)"),
        ("exact", "decimal(37,9)"),
        ("first_text", "string"),
        ("last_text", "string"),
        ("first_at", "timestamp"),
        ("last_at", "timestamp"),
        ("lowest", "double"),
        ("highest", "float"),
        ("last_line", "struct<log_time:timestamp,message:string>"),
        ("texts", "bigint"),
        ("values", "bigint"),
        ("errors", "bigint"),
        ("error_rate", "double"),
        ("mean", "double"),
        ("spread", "double"),
        ("half", "double"),
        ("most", "double"),
        ("ms", "double"),
        ("oldest", "string"),
        ("newest", "double"),
        ("_sketch_texts", "binary"),
        ("_sketch_values", "binary"),
        ("_count_error_rate", "bigint"),
        ("_lines_error_rate", "bigint"),
        ("_sum_mean", "decimal(37,9)"),
        ("_count_mean", "bigint"),
        ("_count_spread", "bigint"),
        ("_sum_spread", "decimal(37,3)"),
        ("_squares_spread", "decimal(37,6)"),
        ("_buckets_half", "map<int,bigint>"),
        ("_buckets_ms", "map<int,bigint>"),
        ("_first_oldest", "struct<at:timestamp,value:string>"),
        ("_last_newest", "struct<at:bigint,value:double>"),
    ]
    made = aggregate(lines(spark), EVERYTHING)
    assert [(field.name, field.dataType) for field in made.schema] == [(f.name, f.dataType) for f in schema]


@pytest.mark.usefixtures("ansi")
def test_sums_are_exact_in_one_batch_and_over_merges(spark: SparkSession, fold: Any) -> None:
    table = GoldTable(
        every="1 day",
        by={"level": "level"},
        measures={"total": "sum(offset)", "exact": "sum(try_cast(message AS DECIMAL(28,20)))"},
    )
    tiny = "0.00000000000000000001"
    first = lines(
        spark,
        *(line(offset=BIG, message=tiny), line(offset=BIG, message=tiny), line(offset=None)),
        *(line(level="LOW", offset=-BIG), line(level="LOW", offset=-BIG)),
        *(line(level="NONE", offset=None), line(level="LATE", offset=None)),
    )
    second = lines(
        spark,
        *(line(offset=BIG, message=tiny), line(level="LOW", offset=None)),
        *(line(level="NONE", offset=None), line(level="LATE", offset=5)),
    )
    assert _sums(aggregate(first, table)) == {
        "INFO": (2 * BIG, Decimal(tiny) * 2),
        "LOW": (-2 * BIG, None),
        "NONE": (None, None),
        "LATE": (None, None),
    }
    assert _sums(fold([first, second], table)) == {
        "INFO": (3 * BIG, Decimal(tiny) * 3),
        "LOW": (-2 * BIG, None),
        "NONE": (None, None),
        "LATE": (5, None),
    }


def test_a_sum_of_too_many_lines_in_a_batch_is_an_error_and_not_null(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = GoldTable(every="1 day", measures={"total": "sum(try_cast(message AS DECIMAL(28,3)))"})
    largest, digits = "9" * 25 + ".999", DecimalType(29, 3)
    monkeypatch.setattr(functions, "DECIMAL_SUM_DIGITS", digits.precision)
    held = aggregate(lines(spark, *[line(message=largest)] * 10, line(message=None)), table)
    assert [row["total"] for row in held.collect()] == [Decimal("9" * 26 + ".990")]
    for sign in ("", "-"):
        rows = lines(spark, *[line(message=f"{sign}{largest}")] * 11)
        with pytest.raises(
            SparkRuntimeException, match=r"a sum of total is not within the range of decimal\(29,3\)"
        ) as found:
            aggregate(rows, table).collect()
        assert "Declare the sum with fewer digits after the point" in explain(found.value)
        wide = aggregate(rows, table, wide=True)
        assert [in_gold(field).dataType for field in wide.schema][1:] == [digits]
        assert [row["total"] for row in wide.collect()] == [Decimal(f"{sign}10{'9' * 25}.989")]


def test_a_sum_that_spark_cannot_add_up_is_an_error_and_not_null(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "TERM_DIGITS", 38)
    table = GoldTable(every="1 day", measures={"total": "sum(try_cast(message AS DECIMAL(38,3)))"})
    rows = lines(spark, *[line(message="9" * 35 + ".999")] * 2)
    with pytest.raises(SparkRuntimeException, match="a sum of total is not within the range"):
        aggregate(rows, table).collect()
    wide = aggregate(rows, table, wide=True)
    assert wide.where(wide["total"].try_cast(in_gold(wide.schema["total"]).dataType).isNull()).count() == 1
    assert [row["total"] for row in aggregate(lines(spark, line(message="x")), table, wide=True).collect()] == [None]


@pytest.mark.usefixtures("ansi")
def test_a_sum_that_leaves_its_type_in_a_merge_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    table = GoldTable(every="1 day", measures={"total": "sum(try_cast(message AS DECIMAL(28,3)))"})
    path, schema = str(tmp_path / "gold"), gold_schema(spark, table, SILVER)
    largest = Decimal("9" * 34 + ".999")
    spark.createDataFrame([(NOON, largest)], schema).write.format("delta").save(path)
    more = spark.createDataFrame([(NOON, Decimal("0.001"))], schema)
    with pytest.raises(Exception, match="OVERFLOW") as found:
        merge(spark, path, more, merge_sql(table, windows(more)))
    assert "Declare the sum with fewer digits after the point" in explain(found.value)
    assert [row["total"] for row in spark.read.format("delta").load(path).collect()] == [largest]


def _sums(gold: DataFrame) -> dict[str, tuple[Decimal | None, Decimal | None]]:
    return {row["level"]: (row["total"], row["exact"]) for row in gold.collect()}


def test_lines_with_a_condition_are_counted_and_their_share_shown(spark: SparkSession, fold: Any) -> None:
    measures = {"errors": "count where level = 'ERROR'", "share": "rate where level = 'ERROR'", "lines": "count"}
    table = GoldTable(every="1 day", by={"topic": "topic"}, measures=measures)
    first = lines(spark, line(level="ERROR"), line(), line(level=None), line(topic="quiet", level=None))
    second = lines(spark, line(level="ERROR"), line(), line(), line(), line(topic="loud", level="ERROR"))
    expected = {None: (2, 2 / 7, 7), "quiet": (0, 0.0, 1), "loud": (1, 1.0, 1)}
    for gold in (fold([first, second], table), aggregate(first.unionAll(second), table)):
        found = {row["topic"]: (row["errors"], row["share"], row["lines"]) for row in gold.collect()}
        assert found == expected


@pytest.mark.usefixtures("ansi")
@pytest.mark.parametrize(
    "values",
    [
        ["1", "2", "4", "x", None],
        ["0.001"],
        ["x", None],
        ["-5", "-5", "-5"],
        ["99999999999.999", "99999999999.998", "99999999999.999", "-99999999999.999"],
        # a mean that is a thousand million times the deviation: sums of doubles lose all digits
        *([f"{base + step}" for step in (0, 0.001, 0.002, 0.001)] for base in (10_000_000_000, 3)),
        [str(number) for number in range(1000)],
    ],
    ids=["mixed", "one", "none", "equal", "largest", "far from zero", "near zero", "many"],
)
def test_a_mean_and_a_deviation_are_those_of_exact_numbers(spark: SparkSession, fold: Any, values: list[str]) -> None:
    number = "try_cast(message AS DECIMAL(14,3))"
    table = GoldTable(every="1 day", measures={"mean": f"avg({number})", "spread": f"stddev({number})"})
    rows = [line(message=value) for value in values]
    exact = [Decimal(value) for value in values if value not in (None, "x")]
    whole = aggregate(lines(spark, *rows), table)
    (row,) = whole.collect()
    with localcontext(prec=80):
        mean = sum(exact, Decimal()) / len(exact) if exact else None
        squares = sum(((value - (mean or 0)) ** 2 for value in exact), Decimal())
        deviation = (squares / (len(exact) - 1)).sqrt() if len(exact) > 1 else None
    for shown_value, expected in ((row["mean"], mean), (row["spread"], deviation)):
        assert (shown_value is None) is (expected is None)
        assert expected is None or math.isclose(shown_value, expected, rel_tol=1e-14)
    assert bits(fold([lines(spark, *rows[:1]), lines(spark, *rows[1:])], table)) == bits(whole)


@pytest.mark.parametrize("count", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_percentiles_of_many_values_are_within_one_percent(spark: SparkSession, fold: Any, count: int) -> None:
    chance = random.Random(1)
    values = [chance.choice((-1, 1, 1)) * chance.lognormvariate(5, 4) for _ in range(count)]
    shares = ("0", "0.001", "0.25", "0.333333", "0.5", "0.95", "0.999999", "1")
    table = GoldTable(
        every="1 day",
        measures={f"p{n}": f"percentile(x, {share})" for n, share in enumerate(shares)} | {"lines": "count"},
    )
    rows = spark.createDataFrame(pyarrow.table({"x": values})).withColumn("log_time", F.lit(NOON))
    (whole,) = aggregate(rows.repartition(4), table).collect()
    values.sort()
    for share, shown_value in zip(shares, whole[1:], strict=False):
        exact = values[max(math.ceil(Decimal(share) * len(values)), 1) - 1]
        assert math.isclose(shown_value, exact, rel_tol=0.01), share
    assert whole["lines"] == len(values)
    assert len(whole["_buckets_p0"]) < 5_000
    halves = [rows.where(f"x {side} 50") for side in ("<=", ">")]
    assert bits(fold(halves, table)) == [tuple(_bits(value) for value in whole)]


@pytest.mark.parametrize(
    ("values", "shown_values"),
    [
        (["x", None], (None, None, None)),
        (["NaN"], (math.nan, math.nan, math.nan)),
        (["-Infinity", "0.0", "Infinity", "NaN"], (-math.inf, 0.0, math.nan)),
        (["-0.0", "1e-310", "-1e-320"], (0.0, 0.0, 0.0)),
        (["-1e300", "-7", "1.7976931348623157e308"], (-1e300, -7.0, 1.7976931348623157e308)),
        (["1e-300", "1e-299", "1e-298"], (1e-300, 1e-299, 1e-298)),
    ],
    ids=["no value", "NaN", "not finite", "zero", "large", "small"],
)
def test_a_percentile_is_of_all_numbers_in_their_order(
    spark: SparkSession, values: list[str], shown_values: tuple[float | None, ...]
) -> None:
    number = "try_cast(message AS DOUBLE)"
    measures = {f"p{n}": f"percentile({number}, {share})" for n, share in enumerate(("0", "0.5", "1.0"))}
    (row,) = aggregate(
        lines(spark, *(line(message=value) for value in values)), GoldTable(every="1 day", measures=measures)
    ).collect()
    for found, expected in zip(row[1:4], shown_values, strict=True):
        if expected is None or not math.isfinite(expected):
            assert repr(found) == repr(expected)
        else:
            assert math.isclose(found, expected, rel_tol=0.01)


def test_the_first_and_the_last_value_follow_an_order(spark: SparkSession, fold: Any) -> None:
    """Lines without a value are passed over; of equal places, the value decides, whatever the order of lines is."""
    measures = {
        "first": "first(message)",
        "last": "last(message)",
        "by_offset": "last(try_cast(message AS INT), offset)",
    }
    table = GoldTable(every="1 day", by={"level": "level"}, measures=measures)
    later = NOON + timedelta(microseconds=1)
    rows = [
        *(line(message="7", offset=1), line(message="9", offset=3), line(message="8", offset=3)),
        *(line(log_time=later, message=None, offset=5), line(log_time=later, message="30", offset=2)),
        *(line(message="x", offset=9), line(level="NONE", message=None), line(level="LATE", message="1", offset=None)),
    ]
    expected = {"INFO": ("7", "30", 9), "NONE": (None, None, None), "LATE": ("1", "1", None)}
    for gold in (
        aggregate(lines(spark, *rows), table),
        fold([lines(spark, *rows[3:]), lines(spark, *rows[:3])], table),
    ):
        assert {row["level"]: tuple(row[2:5]) for row in gold.collect()} == expected


def test_empty_batch_gives_no_row(spark: SparkSession, fold: Any) -> None:
    assert aggregate(lines(spark), EVERYTHING).collect() == []
    assert aggregate(lines(spark), GoldTable(every="1 day", measures={"n": "count"})).collect() == []
    assert fold([lines(spark)], EVERYTHING).collect() == []


def test_empty_text_counts_as_a_distinct_value_and_null_does_not(spark: SparkSession) -> None:
    table = GoldTable(every="1 day", measures={"texts": "approx_distinct(message)", "t": "approx_distinct(topic)"})
    row = aggregate(lines(spark, line(message=""), line(message="a"), line(message=None)), table).first()
    assert row is not None
    assert (row["texts"], row["t"]) == (2, 0)


def test_a_bad_value_in_one_line_gives_null_for_that_line(spark: SparkSession) -> None:
    table = GoldTable(every="1 day", measures={"n": "count", "total": "sum(CAST(message AS INT))"})
    row = aggregate(lines(spark, line(message="x"), line(message="7")), table).first()
    assert row is not None
    assert (row["n"], row["total"]) == (2, 7)


@pytest.mark.parametrize("distinct", [450, 5000])
def test_a_distinct_estimate_depends_only_on_the_values(spark: SparkSession, fold: Any, distinct: int) -> None:
    """The values go from just past the change to HLL mode (384 values), which neither half reaches, far into it."""
    table = GoldTable(every="1 day", measures={"texts": "approx_distinct(message)"})
    values = spark.range(distinct).selectExpr(
        "TIMESTAMP'2017-07-30 12:00:00' AS log_time", "concat('message ', id) AS message", "id"
    )
    whole = aggregate(values, table).first()
    assert whole is not None
    assert math.isclose(whole["texts"], distinct, rel_tol=0.05)
    for frame in (values.repartition(3, "message"), values.orderBy("message"), values.unionAll(values)):
        assert [row["texts"] for row in aggregate(frame, table).collect()] == [whole["texts"]]
    cuts = [
        f"id < {distinct // 5}",
        f"id >= {distinct // 5} AND id < {distinct - 10}",
        f"id >= {distinct - 30}",
    ]
    assert fold([values.where(cut) for cut in reversed(cuts)], table).first()["texts"] == whole["texts"]


LEVELS = ["ERROR", "INFO", "TRACE", None]
NUMBERS = ["0.0", "-0.0", "NaN", "Infinity", "-1.5", "1e300", "x", None]
MS = ["0.000000001", "-9999999999999999999.999999999", "9999999999999999999.999999999", "x", None]
OFFSETS = [0, -1, BIG, -BIG, None]
MESSAGES = ["", "a", "B", "ä", "😀", "\x00", "it's `quoted`", None]


def random_line(chance: random.Random) -> tuple[Any, ...]:
    return line(
        log_time=NOON + timedelta(microseconds=chance.randrange(2 * 3600 * 1_000_000)),
        level=chance.choice(LEVELS),
        message=chance.choice(MESSAGES),
        offset=chance.choice(OFFSETS),
        fields={
            "ratio": chance.choice(["NaN", "-0.0", "0.0", None]),
            "x": chance.choice(NUMBERS),
            "ms": chance.choice(MS),
        },
    )


def test_any_split_into_batches_merges_to_the_same_rows(spark: SparkSession, fold: Any, ansi: str) -> None:
    chance = random.Random(ansi)
    rows = [random_line(chance) for _ in range(300)]
    batches: list[list[tuple[Any, ...]]] = [[], [], []]
    for row in rows:
        chance.choice(batches).append(row)
    whole = aggregate(lines(spark, *rows), EVERYTHING)
    folded = fold([lines(spark, *batch) for batch in batches], EVERYTHING)
    assert bits(folded) == bits(whole)
    chance.shuffle(rows)
    assert bits(aggregate(lines(spark, *rows).repartition(3), EVERYTHING)) == bits(whole)


@pytest.mark.parametrize("count", [3, 300])
def test_a_merge_opens_no_file_without_a_window_of_the_batch(
    spark: SparkSession, fold: Callable[[Sequence[DataFrame], GoldTable], DataFrame], tmp_path: Path, count: int
) -> None:
    table = GoldTable(every="1 second", measures={"log_count": "count"})

    def seconds(begin: int) -> DataFrame:
        return lines(spark, *(line(log_time=NOON + timedelta(seconds=begin + each)) for each in range(count)))

    fold([seconds(0), seconds(10_000)], table)
    early = spark.read.format("delta").load(str(tmp_path / "gold")).where(F.col("log_time") < NOON + timedelta(hours=1))
    for file in early.inputFiles():
        Path(file.removeprefix("file:")).unlink()
    rows = aggregate(seconds(10_001), table)

    path = str(tmp_path / "gold")
    merge(spark, path, rows, merge_sql(table, windows(rows)))
    late = spark.read.format("delta").load(str(tmp_path / "gold")).where(F.col("log_time") >= NOON + timedelta(hours=1))
    assert late.agg(F.sum("log_count"), F.count("*")).collect() == [(2 * count, count + 1)]
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist"):
        merge(spark, path, rows, merge_sql(table, ()))


def test_windows_beyond_the_calendar_give_no_range(spark: SparkSession) -> None:
    table = GoldTable(every="1 second", measures={"log_count": "count"})
    far = lines(spark, line(), line()).withColumn("log_time", F.timestamp_micros(F.lit(300_000_000_000_000_000)))
    assert not windows(aggregate(far, table))
    assert not windows(aggregate(lines(spark), table))


def test_texts_that_are_not_utf_8_are_made_valid_before_they_are_counted(spark: SparkSession) -> None:
    """Two of them can be one key afterwards, and an extreme of two batches is that of all lines."""
    text = "cast(unhex(message) as string)"
    measures = {"lines": "count", "least": f"min({text})", "most": f"max(array(struct({text}, level)))"}
    table = GoldTable(every="1 hour", by={"text": text, "level": "level"}, measures=measures)
    rows = lines(spark, *(line(message=each) for each in ("61", "ff", "fe", "x")))
    counted = aggregate(rows, table, counting=True)
    hidden = ["_invalid_text", "_invalid_least", "_invalid_most", "_invalid_"]
    assert counted.columns == [*aggregate(rows, table).columns, *hidden]
    found = {row["text"]: tuple(row)[3:] for row in counted.collect()}
    assert found == {
        "a": (1, "a", [("a", "INFO")], 0, 0, 0, 1),
        "\ufffd": (2, "\ufffd", [("\ufffd", "INFO")], 2, 2, 2, 2),
        None: (1, None, [(None, "INFO")], 0, 0, 0, 1),
    }
    plain = GoldTable(every="1 hour", by={"level": "level"}, measures={"lines": "count", "least": "min(message)"})
    assert aggregate(rows, plain, counting=True).columns == aggregate(rows, plain).columns


@pytest.mark.parametrize(("keys", "starts"), [(1, 60), (5, 60), (3, 34), (200, 1), (1, 150), (2, 101)])
def test_a_batch_of_many_rows_in_few_windows_leaves_no_window_out(
    spark: SparkSession, fold: Callable[[Sequence[DataFrame], GoldTable], DataFrame], keys: int, starts: int
) -> None:
    table = GoldTable(every="1 minute", by={"message": "message"}, measures={"lines": "count"})
    groups = itertools.product(range(starts), range(keys))
    rows = [line(log_time=NOON + timedelta(minutes=start), message=f"{key}") for start, key in groups]
    random.Random(keys).shuffle(rows)
    gold = fold([lines(spark, *rows)] * 3, table)
    assert [row["lines"] for row in gold.collect()] == [3] * keys * starts


def test_the_range_from_a_first_to_a_last_window_has_both() -> None:
    merge_of_range = merge_sql(GoldTable(every="1 second", measures={"lines": "count"}), windows_within(0, 10**12))
    assert merge_of_range.windows == [(datetime.fromtimestamp(0, UTC), datetime.fromtimestamp(10**6, UTC))]
    assert windows_within(None, None) == windows_within(0, 300_000_000_000_000_000) == []
