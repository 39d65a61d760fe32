"""The user's own code adds columns to silver row by row; anything else is refused when it is declared."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from oncelake.common.errors import ConfigError, ReceiptError
from oncelake.common.spark.collect import SmallBatches
from oncelake.common.spark.rows import Collected
from oncelake.exactly_once.batch import Batch
from oncelake.silver.local_split import LocalSplit
from oncelake.silver.parsing.format import LogFormat
from oncelake.silver.parsing.parser import Parser, load_parser
from oncelake.silver.rules import Silver
from oncelake.silver.transform import TimeLimits, accepted
from oncelake.silver.user_code import find_code
from oncelake.silver.user_transform import UserTransform
from tests.support.bronze_rows import bronze_rows
from tests.support.memory import metadata
from tests.support.places import FORMATS

pytestmark = pytest.mark.spark

GOOD = """
from pyspark.sql import functions as F
from pyspark.sql.functions import udf

@udf("int")
def words(message):
    return len(message.split())

def add(rows):
    rows = rows.alias("line").withColumn("is_bad", F.col("level") == "ERROR")
    return rows.select("words_by_python", "*") if False else rows.withColumns(
        {"words": words("message"), "day": F.to_date("log_time"), "size": F.length("message").cast("decimal(9,2)")}
    )
"""


def silver(directory: Path, source: str, parsers: dict[str, Parser] | None = None, **others: Any) -> Silver:
    (directory / "own_code.py").write_text(source)
    own = UserTransform(find_code("own_code:add", [directory]))
    return Silver(parsers or {"access_log": load_parser("default", [FORMATS])}, TimeLimits(), transform=own, **others)


def body(text: str) -> str:
    imports = "import random, time\nfrom datetime import datetime\nfrom pyspark.sql import Window, functions as F\n"
    return f"{imports}from pyspark.sql.functions import pandas_udf, udf\ndef add(rows):\n    return {text}\n"


def test_texts_that_are_not_utf_8_are_made_valid_and_there_is_one_zero(spark: SparkSession, tmp_path: Path) -> None:
    text = body("rows.selectExpr('*', 'cast(unhex(message) as string) text', 'double(-0.0d) zero')")
    made = silver(tmp_path, text)
    rows = accepted(made.parse(bronze_rows(spark, [f"2017-07-30 14:09:08 ERROR {each}" for each in ("61", "ff", "x")])))
    assert made.completed(rows).columns == made.table_schema(spark).fieldNames()
    assert made.transform is not None
    found = made.transform.marked(rows).select("text", "_invalid_text", F.col("zero").cast("string")).collect()
    assert {tuple(row) for row in found} == {("a", False, "0.0"), (None, False, "0.0"), ("\ufffd", True, "0.0")}


def test_columns_are_added_to_accepted_rows_after_silver_s_own(spark: SparkSession, tmp_path: Path) -> None:
    made = silver(tmp_path, GOOD)
    lines = [
        "2017-07-30 14:09:08 ERROR one two",
        "broken",
        "2017-07-30 14:09:08 INFO ",
        "2017-07-30 14:09:09 WARN a b c",
    ]
    rows = made.completed(accepted(made.parse(bronze_rows(spark, lines))))
    assert StructType.fromJson(rows.schema.jsonValue()).fieldNames() == made.table_schema(spark).fieldNames()
    assert made.table_schema(spark).fieldNames() == [*made.schema.fieldNames(), "is_bad", "words", "day", "size"]
    assert [field.metadata["comment"] for field in made.transform_fields(spark)] == ["by own_code:add"] * 4
    found = rows.select("is_bad", "words", "size").collect()
    assert [(each[0], each[1], str(each[2])) for each in found] == [
        *((True, 2, "7.00"), (False, 0, "0.00"), (False, 3, "5.00")),
    ]


def test_columns_come_after_those_of_several_formats(spark: SparkSession, tmp_path: Path) -> None:
    pattern = r"^(?<time>\S+) (?<message>\S+) (?<size>\S+)$"
    declared = {"pattern": pattern, "time": "iso8601", "default_level": "INFO"}
    formats = {
        "one": Parser(LogFormat.model_validate({**declared, "columns": {"size": "int"}})),
        "other": Parser(LogFormat.model_validate({**declared, "columns": {"weight": "double from size"}})),
    }
    made = silver(tmp_path, body("rows.withColumn('twice', F.col('size') * 2 + F.col('weight'))"), formats, named=True)
    assert made.table_schema(spark).fieldNames()[-4:] == ["source", "size", "weight", "twice"]


NOT_ROW_BY_ROW = r"each column must be computed from the columns of its own row"
REFUSED = {
    "rows.where('level = \"ERROR\"').withColumn('a', F.lit(1))": rf"uses Filter; {NOT_ROW_BY_ROW}",
    "rows.withColumn('a', F.lit(1)).limit(5)": r"uses GlobalLimit; ",
    "rows.withColumn('a', F.lit(1)).sample(0.5)": r"uses Sample; ",
    "rows.withColumn('a', F.lit(1)).orderBy('a')": r"uses Sort; ",
    "rows.withColumn('a', F.lit(1)).dropDuplicates(['level'])": r"uses Deduplicate; ",
    "rows.withColumn('a', F.lit(1)).repartition(3)": r"uses Repartition; ",
    "rows.withColumn('a', F.lit(1)).unionByName(rows.withColumn('a', F.lit(2)))": r"uses Union; ",
    "rows.join(rows.groupBy('level').agg(F.count('*').alias('a')), 'level')": r"uses Join; ",
    "rows.groupBy('level').agg(F.count('*').alias('a'))": r"uses Aggregate; ",
    "rows.withColumn('a', F.explode(F.map_values('fields')))": r"uses Generate; ",
    "rows.withColumn('a', F.row_number().over(Window.orderBy('offset')))": r"uses Window; ",
    "rows.mapInPandas(lambda each: each, rows.schema)": r"uses MapInPandas; ",
    "rows.sparkSession.range(1)": r"does not return the DataFrame that it gets; ",
    "rows.withColumn('a', F.rand())": r"has .*rand.*, which gives another value at every run, so a replay would differ",
    "rows.withColumn('a', F.monotonically_increasing_id())": r"has .*, which gives another value at every run",
    "rows.withColumn('a', F.spark_partition_id())": r"has .*, which gives another value at every run",
    "rows.withColumn('a', F.expr('uuid()'))": r"has .*, which gives another value at every run",
    "rows.withColumn('a', F.input_file_name())": r"has .*, which gives another value at every run",
    "rows.withColumn('a', udf(lambda m: m, 'string').asNondeterministic()('message'))": r"has .*, which gives",
    "rows.withColumn('a', F.current_timestamp())": r"has .*, which depends on the clock",
    "rows.withColumn('a', F.lit('now').cast('timestamp'))": r"has .*, which depends on the clock",
    "rows.withColumn('a', F.expr('(SELECT max(id) FROM range(5))'))": r"has .*, which has a subquery",
    "rows.withColumn('a', F.lit(random.random()))": r"gives another value .*: two calls with the same rows",
    "rows.withColumn('a', F.lit(time.time_ns()))": r"gives another value .*: two calls with the same rows",
    "rows.withColumn('level', F.lower('level'))": r"changes silver's column level; give your column another name",
    "rows.withColumn('LEVEL', F.lower('level'))": r"changes silver's column level; give your column another name",
    "rows.select('*', F.lit(1).alias('Level'))": r"changes silver's column level; give your column another name",
    "rows.select('*', 'level')": r"changes silver's column level; give your column another name",
    "rows.drop('file').withColumn('a', F.lit(1))": r"drops silver's column file; return the DataFrame with all",
    "rows.withColumnRenamed('file', 'a')": r"drops silver's column file; ",
    "rows": r"adds no column; ",
    "rows.withColumn('a b', F.lit(1))": r"names a column 'a b'; use a letter, then letters, digits or _",
    "rows.withColumn('value', F.lit(1))": r"names a column value, which is a column of bronze or silver",
    "rows.select('*', F.lit(1).alias('a'), F.lit(2).alias('A'))": r"names two columns A; upper and lower case",
    "rows.withColumn('a', F.lit(None))": r"gives a the type void; a column must be a plain value",
    "rows.withColumn('a', F.array('level'))": r"gives a the type array<string>; .*: cast it, or use to_json",
    "rows.withColumn('a', F.col('message').cast('timestamp_ntz'))": r"gives a the type timestamp_ntz",
    "rows.withColumn('a', F.col('nothing'))": r"cannot be used: .*`nothing`",
    "rows.withColumn('a', 1 / 0)": r"raised ZeroDivisionError: division by zero",
    "None": r"returned None; it must return the DataFrame that it gets, with more columns",
    "5": r"returned 5; it must return the DataFrame",
}


@pytest.mark.parametrize(("text", "said"), REFUSED.items(), ids=[each.removeprefix("rows.")[:40] for each in REFUSED])
def test_code_that_is_not_row_by_row_is_refused_in_one_line(
    spark: SparkSession, tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(ConfigError, match=rf"^silver.transform own_code:add {said}") as refused:
        silver(tmp_path, body(text)).table_schema(spark)
    assert "\n" not in str(refused.value)


ELSEWHERE = r"on \d{4}-\d\d-\d\d in the zone [\w/]+; columns must not depend on the clock or the machine's zone"
OTHER = rf"has another Python function {ELSEWHERE}"
CLOCKS = {
    "F.lit(date.today())": rf"has .DATE '.*' AS a., which would be .DATE '.*' AS a. {ELSEWHERE}",
    "F.lit(datetime.now())": r"gives another value",
    "F.lit(time.strftime('%Y %B %d'))": rf"has .'2.*' AS a., which would be .'2.*' AS a. {ELSEWHERE}",
    "F.lit(time.gmtime().tm_year)": rf"has '\d+ AS a', which would be '\d+ AS a' {ELSEWHERE}",
    "F.lit(uuid.uuid1().hex)": r"gives another value",
    "F.lit(pandas.Timestamp.now().date())": rf"has .DATE '.*' AS a., which would be .DATE '.*' AS a. {ELSEWHERE}",
    "F.datediff(F.lit(at_import), 'log_time')": rf"has .datediff\(DATE .*, which would be .datediff.* {ELSEWHERE}",
    "F.lit(beside.at_import)": rf"has .DATE '.*' AS a., which would be .DATE '.*' AS a. {ELSEWHERE}",
    "F.lit(datetime(2020, 1, 1))": rf"has .TIMESTAMP '2020-01-01 00:00:00' AS a., which would .* {ELSEWHERE}",
    "F.lit(datetime.fromtimestamp(0).isoformat())": rf"has .'1970-01-01T00:00:00' AS a., which would be .* {ELSEWHERE}",
    "F.lit(time.tzname[0])": rf"has .'UTC' AS a., which would be .* {ELSEWHERE}",
    "udf(lambda at: (at.date() - at_import).days, 'int')('log_time')": rf"has .*, which {OTHER}",
    "closure()('log_time')": rf"has 'age\(log_time\) AS a', which {OTHER}",
    "F.lit(1) if date.today().year < 2030 else rows.nothing": r"cannot be used: .*nothing.*\. This was with the clock ",
}
CLOCK_MODULE = """
import random, time, uuid
from datetime import UTC, date, datetime

import pandas
from pyspark.sql import functions as F
from pyspark.sql.functions import udf

import beside

at_import = date.today()

def closure():
    year = date.today().year

    def age(at):
        return year - at.year

    return udf(age, "int")

class Age:
    def __call__(self, at):
        return len({"ERROR", "WARN", "INFO"}) + at.year

def by_class(at):
    return Age()(at)
"""


def with_clock(directory: Path, text: str) -> Silver:
    sys.modules.pop("beside", None)  # that of another test
    (directory / "beside.py").write_text("from datetime import date\nat_import = date.today()\n")
    return silver(directory, f"{CLOCK_MODULE}\ndef add(rows):\n    return rows.withColumn('a', {text})\n")


@pytest.mark.parametrize(("text", "said"), CLOCKS.items(), ids=[clock[:40] for clock in CLOCKS])
def test_a_plan_that_depends_on_the_clock_or_the_zone_is_refused_by_its_column(
    spark: SparkSession, tmp_path: Path, text: str, said: str
) -> None:
    before = (time.tzname, dict(os.environ))
    with pytest.raises(ConfigError, match=rf"^silver.transform own_code:add {said}") as refused:
        with_clock(tmp_path, text).table_schema(spark)
    assert "\n" not in str(refused.value)
    assert (time.tzname, dict(os.environ)) == before


@pytest.mark.parametrize(
    "text",
    [
        "F.lit(datetime(2020, 1, 1, tzinfo=UTC))",
        "F.lit(date(2020, 1, 1))",
        "F.col('level').isin({'ERROR', 'FATAL', 'WARN'})",
        "udf(by_class, 'int')('log_time')",
        "udf(lambda at: Age()(at), 'int')('log_time')",
        "udf(lambda text: datetime.fromisoformat(text).year, 'int')('message')",
    ],
)
def test_a_plan_that_is_the_same_at_every_time_is_accepted(spark: SparkSession, tmp_path: Path, text: str) -> None:
    assert with_clock(tmp_path, text).table_schema(spark).fieldNames()[-1] == "a"


def test_a_small_batch_of_another_number_of_rows_is_not_written(spark: SparkSession, tmp_path: Path) -> None:
    made = silver(tmp_path, GOOD)
    frame = made.parse(bronze_rows(spark, ["2017-07-30 14:09:08 ERROR one two", "broken"]))
    batch = Batch(0, lambda _: metadata(0), {}, small_batches=SmallBatches(1_000, 1024**2))
    found = batch.collect(frame)
    assert made.transform is not None
    assert found is not None
    rows = LocalSplit(frame, made, batch, made.transform, parsed=found).accepted()
    assert isinstance(rows, Collected)
    assert rows.rows["words"].to_pylist() == [2]
    for wrong in (lambda rows: rows.limit(0), lambda rows: rows.union(rows)):
        with pytest.raises(
            ReceiptError, match=r"silver.transform made (0 rows|2 rows) of 1 in batch 0; nothing was wr"
        ):
            LocalSplit(frame, made, batch, wrong, parsed=found).accepted()


def test_code_is_checked_again_when_it_is_built_for_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    source = (
        "from pyspark.sql import functions as F\ncalls = []\ndef add(rows):\n    calls.append(1)\n"
        "    return rows.withColumn('a', F.lit(1)) if len(calls) < 3 else rows.withColumn('a', F.lit(1)).limit(1)\n"
    )
    made = silver(tmp_path, source)
    made.table_schema(spark)
    with pytest.raises(ConfigError, match="uses GlobalLimit"):
        made.completed(accepted(made.parse(bronze_rows(spark, ["2017-07-30 14:09:08 ERROR one"]))))
