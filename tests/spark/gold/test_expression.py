"""A gold expression that would throw on a line is refused when it is declared, or gives null for that line."""

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.runtime import has_class
from oncelake.common.spark.versions import installed
from oncelake.gold.declaration import GoldTable
from oncelake.gold.declaration_check import check
from oncelake.gold.expression import RULES, TRY_FORMS, column, throwing, with_try_forms
from oncelake.silver.schema import SILVER
from tests.support.spark_handles import java_session

pytestmark = pytest.mark.spark

# by function that throws: a call that throws on some line
THROWING = {
    "*": "INTERVAL '1' DAY * partition > INTERVAL '1' DAY",
    "+": "log_time::date + INTERVAL 1 MONTH * partition",
    "-": "cast(message AS TIMESTAMP) - log_time > INTERVAL '1' DAY",
    "/": "INTERVAL '1' DAY / partition > INTERVAL '1' DAY",
    "abs": "abs(make_dt_interval(partition)) > INTERVAL '1' DAY",
    "add_months": "add_months(log_time, partition)",
    "array_insert": "array_insert(array('a'), partition, 'b')",
    "array_repeat": "size(array_repeat(level, partition))",
    "array_sort": "array_sort(split(message, ' '), (a, b) -> length(a) - length(b))[0]",
    "bit_get": "bit_get(partition, partition)",
    "cast": "cast(try_parse_json(message) AS INT)",
    "convert_timezone": "convert_timezone(level, 'UTC', log_time::timestamp_ntz)::string",
    "date_format": "date_format(log_time, level)",
    "date_trunc": "date_trunc('YEAR', message)",
    "decode": "decode(unhex(message), 'UTF-8')",
    "element_at": "element_at(split(message, ' '), partition)",
    "encode": "encode(message, 'US-ASCII')",
    "format_number": "format_number(partition, message)",
    "format_string": "format_string(message, 1)",
    "from_csv": "from_csv(message, 'a INT').a",
    "from_json": "from_json(message, 'a INT', map('mode', 'FAILFAST')).a",
    "from_unixtime": "from_unixtime(partition, message)",
    "from_utc_timestamp": "from_utc_timestamp(log_time, level)",
    "from_xml": "from_xml(message, 'a INT').a",
    "getbit": "getbit(partition, partition)",
    "hll_sketch_estimate": "hll_sketch_estimate(unhex(message))",
    "hll_union": "hll_union(unhex(message), unhex(message))",
    "ilike": "message ILIKE level",
    "int": "int(try_parse_json(message))",
    "like": "message LIKE level",
    "lpad": "lpad(message, partition, 'x')",
    "make_dt_interval": "extract(DAY FROM make_dt_interval(partition))",
    "make_timestamp": "make_timestamp(2017, 1, 1, 1, 1, 1, level)",
    "make_timestamp_ltz": "make_timestamp_ltz(2017, 1, 1, 1, 1, 1, level)",
    "make_ym_interval": "extract(YEAR FROM make_ym_interval(partition))",
    "map": "map(message, 1)['a']",
    "map_from_arrays": "map_from_arrays(split(message, ' '), split(message, ' '))['a']",
    "map_from_entries": "map_from_entries(array(struct(message, 1)))['a']",
    "parse_url": "parse_url(message, 'QUERY', level)",
    "printf": "printf(message, 1)",
    "regexp": "message REGEXP level",
    "regexp_count": "regexp_count(message, level)",
    "regexp_extract": "regexp_extract(message, level, 0)",
    "regexp_extract_all": "size(regexp_extract_all(message, level, 0))",
    "regexp_instr": "regexp_instr(message, level)",
    "regexp_like": "regexp_like(message, level)",
    "regexp_replace": "regexp_replace(message, 'a', level)",
    "regexp_substr": "regexp_substr(message, level)",
    "repeat": "repeat(message, partition)",
    "rlike": "message RLIKE level",
    "rpad": "rpad(message, partition, 'x')",
    "sequence": "size(sequence(0, partition))",
    "slice": "size(slice(split(message, ' '), partition, 1))",
    "space": "space(partition)",
    "split": "split(message, level)[0]",
    "split_part": "split_part(message, ' ', partition)",
    "str_to_map": "str_to_map(message, level)['a']",
    "substring_index": "substring_index(message, ' ', partition)",
    "timestamp": "timestamp(cast(message AS DATE))",
    "timestamp_millis": "timestamp_millis(offset)",
    "timestamp_seconds": "timestamp_seconds(offset)",
    "to_char": "to_char(unhex(message), 'utf-8')",
    "to_date": "to_date(message, 'yyyy-MM-dd')",
    "to_number": "to_number(message, '999')",
    "to_timestamp": "to_timestamp(message, 'yyyy-MM-dd')",
    "to_timestamp_ltz": "to_timestamp_ltz(message, 'yyyy-MM-dd')",
    "to_timestamp_ntz": "to_timestamp_ntz(message, 'yyyy-MM-dd')::string",
    "to_unix_timestamp": "to_unix_timestamp(message)",
    "to_utc_timestamp": "to_utc_timestamp(log_time, level)",
    "to_varchar": "to_varchar(unhex(message), 'utf-8')",
    "to_xml": "to_xml(struct(fields))",
    "transform_keys": "transform_keys(fields, (k, v) -> v)['a']",
    "try_element_at": "try_element_at(split(message, ' '), partition)",
    "try_make_timestamp": "try_make_timestamp(2017, 1, 1, 1, 1, 1, level)",
    "try_make_timestamp_ltz": "try_make_timestamp_ltz(2017, 1, 1, 1, 1, 1, level)",
    "try_parse_url": "try_parse_url(message, 'QUERY', level)",
    "try_to_number": "try_to_number(message, '999')",
    "try_to_timestamp": "try_to_timestamp(message, 'yyyy-MM-dd')",
    "unbase64": "unbase64(message)",
    "unix_timestamp": "unix_timestamp(message)",
    "xpath": "cast(xpath(message, 'a') as STRING)",
    "xpath_boolean": "cast(xpath_boolean(message, 'a') as STRING)",
    "xpath_double": "cast(xpath_double(message, 'a') as STRING)",
    "xpath_float": "cast(xpath_float(message, 'a') as STRING)",
    "xpath_int": "cast(xpath_int(message, 'a') as STRING)",
    "xpath_long": "cast(xpath_long(message, 'a') as STRING)",
    "xpath_number": "cast(xpath_number(message, 'a') as STRING)",
    "xpath_short": "cast(xpath_short(message, 'a') as STRING)",
    "xpath_string": "cast(xpath_string(message, 'a') as STRING)",
}

# refused for other reasons: they depend on more than the row, or Spark has not loaded them
NOT_OF_THE_ROW = """
    java_method reflect try_reflect
    aes_encrypt assert_true curdate current_catalog current_database current_date current_schema
    current_timestamp current_timezone current_user from_avro from_protobuf input_file_block_length
    input_file_block_start input_file_name localtimestamp monotonically_increasing_id now raise_error rand randn
    random randstr schema_of_avro session_user session_window shuffle spark_partition_id to_avro to_protobuf
    uniform user uuid version window window_time
"""

# Assumed to give null: tried on unusual rows, or plain functions of numbers, texts and lists. A function that is new
# in Spark's registry has to be tried and added here or above.
SAFE = """
    ! != % & < << <= <=> <> = == > >= >> >>> ^ acos acosh aggregate and array array_append array_compact
    array_contains array_distinct array_except array_intersect array_join array_max array_min array_position
    array_prepend array_remove array_size array_union arrays_overlap arrays_zip ascii asin asinh atan atan2
    atanh base64 between bigint bin binary bit_count bit_length bitmap_bit_position bitmap_bucket_number
    bitmap_count boolean bround btrim cardinality case cbrt ceil ceiling char char_length character_length chr
    coalesce collate collation concat concat_ws contains conv cos cosh cot crc32 csc date date_add date_diff
    date_from_unix_date date_part date_sub dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear
    decimal degrees div double e elt endswith equal_null exists exp expm1 extract factorial filter find_in_set
    flatten float floor forall get get_json_object greatest hash hex hour hypot if ifnull in initcap instr
    is_valid_utf8 is_variant_null isnan isnotnull isnull json_array_length json_object_keys json_tuple last_day
    lcase least left len length levenshtein ln locate log log10 log1p log2 lower ltrim luhn_check make_date
    make_interval make_timestamp_ntz make_valid_utf8 map_concat map_contains_key map_entries map_filter map_keys
    map_values map_zip_with mask md5 minute mod month monthname months_between named_struct nanvl negative
    next_day not nullif nullifzero nvl nvl2 octet_length or overlay pi pmod position positive pow power quarter
    radians reduce replace reverse right rint round rtrim schema_of_csv schema_of_json schema_of_variant
    schema_of_variant_agg schema_of_xml sec second sentences sha sha1 sha2 shiftleft shiftright
    shiftrightunsigned sign signum sin sinh size smallint sort_array soundex sqrt startswith string struct
    substr substring tan tanh timestamp_micros tinyint to_csv to_json to_variant_object transform
    transform_values translate trim trunc try_add try_aes_decrypt try_divide try_make_interval
    try_make_timestamp_ntz try_mod try_multiply try_parse_json try_subtract try_to_binary try_url_decode
    try_validate_utf8 try_variant_get typeof ucase unhex unix_date unix_micros unix_millis unix_seconds upper
    url_encode variant_explode variant_explode_outer weekday weekofyear when width_bucket xxhash64 year
    zeroifnull zip_with | || ~
"""
# new in Spark 4.1; Spark dates them back
DATED_BACK = "time try_to_date"
# functions of many rows, or that return several rows for one
_OTHERS = ("agg_funcs", "window_funcs", "generator_funcs", "table_funcs")


def refusal(spark: SparkSession, text: str) -> str | None:
    table = GoldTable(every="1 hour", by={"k": text}, measures={"n": "count"})
    try:
        check(spark, "t", table, SILVER)
    except ConfigError as error:
        return str(error)
    return None


def test_a_function_that_throws_is_refused_by_name(spark: SparkSession) -> None:
    said = {name: refusal(spark, text) for name, text in THROWING.items()}
    assert [name for name, text in said.items() if "throws on some lines in " not in (text or "")] == []
    assert said["to_date"] == (
        "gold.t.by.k: \"to_date(message, 'yyyy-MM-dd')\" throws on some lines in to_date; "
        "write try_cast(x AS TIMESTAMP) or make_date of its parts, because '+999999-01-01' overflows with any format"
    )
    assert "in rlike; use a constant pattern" in (said["rlike"] or "")


@pytest.mark.parametrize(
    "text",
    [
        *("regexp_extract(message, '(a', 1)", "message RLIKE '('", "split(message, '[')[0]"),
        *(
            "regexp_extract(message, '(a)', 2)",
            "regexp_extract(message, '(a)', -1)",
            "regexp_replace(message, 'a', '$5')",
        ),
        *("CASE WHEN level = 'FATAL' THEN regexp_extract(message, 'no such (text)', 2) END",),
        *(
            "element_at(split(message, ' '), 0)",
            "try_element_at(split(message, ' '), 0)",
            "split_part(message, ' ', 0)",
        ),
        *("date_format(log_time, 'bb')", "from_utc_timestamp(log_time, 'Nowhere')", "format_string('%d', message)"),
        *("transform(split(message, ' '), x -> element_at(split(x, ':'), 0))[0]", "getbit(partition, 70)"),
        "if(level = 'FATAL', split_part(fields['thread'], '-', 0), '')",
        "format_string('%c', cast(fields['code'] AS INT))",
    ],
)
def test_a_constant_that_throws_is_refused(spark: SparkSession, text: str) -> None:
    assert refusal(spark, text) is not None


@pytest.mark.parametrize(
    "text",
    [
        "upper(transform(array(message), x -> regexp_extract(x, level, 0))[0])",
        "coalesce(CASE WHEN level = 'FATAL' THEN split_part(message, ' ', partition) END, 'none')",
        "log_time > cast(message AS DATE)",
        "try_add(to_date(message, 'yyyy-MM-dd'), 1)",
        "`unbase64`(message)",
        "url_decode /* as it stands */ (message)",
        "cast(message AS INTERVAL DAY) > INTERVAL '1' DAY",
        "cast(message AS TIMESTAMP) + INTERVAL '1' DAY > log_time",
    ],
)
def test_a_function_that_throws_is_found_anywhere_in_an_expression(spark: SparkSession, text: str) -> None:
    assert "throws on some lines in " in (refusal(spark, text) or "")
    measured = GoldTable(every="1 hour", measures={"m": f"max({text})"})
    with pytest.raises(ConfigError, match=r"measures\.m: .*throws on some lines in "):
        check(spark, "t", measured, SILVER)
    chosen = GoldTable(where=f"({text}) IS NULL", every="1 hour", measures={"n": "count"})
    with pytest.raises(ConfigError, match=r"where: .*throws on some lines in "):
        check(spark, "t", chosen, SILVER)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "cast(message AS INT)",
            "cast(message AS TIMESTAMP)",
            "to_date(message)",
            "fields['a']",
            "cast(message AS DATE)",
        ),
        *("date_trunc('DAY', log_time)", "log_time - INTERVAL 1 HOUR", "ingested_at - log_time > INTERVAL '1' HOUR"),
        *("date_format(log_time, 'yyyy-MM')", "from_utc_timestamp(log_time, 'Asia/Tokyo')", "log_time::date"),
        *(
            "regexp_extract(message, '^(\\\\w+) (\\\\w+)', 2)",
            "message LIKE '%a%'",
            "message RLIKE 'a|b'",
            "partition / 0",
        ),
        *("split(message, ' ')[7]", "split_part(message, ' ', -1)", "element_at(split(message, ' '), 9)"),
        *("element_at(fields, message)", "str_to_map(message, ' ', '=')['k']", "regexp_replace(message, '(a)', '$1b')"),
        *(
            "from_json(message, 'a INT').a",
            "get_json_object(message, '$.a')",
            "try_variant_get(parse_json(message), '$.a', 'int')",
        ),
        *("unix_timestamp(log_time)", "hour(log_time)", "lpad(level, 8, ' ')", "substring_index(message, ':', 1)"),
        *("try_add(cast(message AS TIMESTAMP), INTERVAL '1' DAY)", "try_cast(cast(message AS DATE) AS TIMESTAMP)"),
        *("cast(url_decode(message) AS STRING)", "make_date(cast(message AS INT), 1, 1)", "-partition * offset"),
    ],
)
def test_an_expression_that_gives_null_is_unchanged(spark: SparkSession, text: str) -> None:
    assert refusal(spark, text) is None


def test_a_function_with_a_try_form_gives_null_where_it_would_throw(spark: SparkSession) -> None:
    rows = spark.sql("SELECT * FROM VALUES ('100%zz', X'FF'), ('a%20b', cast('ok' AS BINARY)) AS t(s, b)").repartition(
        2
    )
    calls = {
        "url_decode(s)": "a b",
        "`URL_decode` (s)": "a b",
        "cast(to_binary(hex(b), 'utf-8') AS STRING)": "6F6B",
        "to_binary(s, 'hex')": None,
        "cast(parse_json(s) AS STRING)": None,
        "variant_get(parse_json('\"x\"'), '$', 'int') + length(s)": None,
        "validate_utf8(cast(b AS STRING))": "ok",
        "aes_decrypt(b, '0000111122223333')": None,
        "'url_decode(' || s": "url_decode(a%20b",
    }
    found = {tuple(row) for row in rows.select(*(column(text) for text in calls)).collect()}
    assert tuple(calls.values()) in found
    assert len(found) == 2


@pytest.mark.parametrize(
    "text",
    [
        *(
            "'url_decode(x)'",
            '"url_decode(x)"',
            "r'\\' || level",
            "-- url_decode(x)\nlevel",
            "/* url_decode(x) */ level",
        ),
        *("try_url_decode(x)", "my_url_decode(x)", "url_decode", "'it\\'s url_decode(x)'", "url_decode_all(x)"),
    ],
)
def test_only_function_calls_are_replaced(text: str) -> None:
    assert with_try_forms(text) == text


def test_every_function_of_spark_is_classified(spark: SparkSession) -> None:
    state = java_session(spark).sessionState()
    identifier = jvm(spark).org.apache.spark.sql.catalyst.FunctionIdentifier
    functions = [name for (name,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect()]
    infos = {name: state.catalog().lookupFunctionInfo(identifier(name)) for name in functions if name[0].isalpha()}
    of_one_row = {name for name, info in infos.items() if info.getGroup() not in (*_OTHERS, "")}
    later = {name for name in of_one_row if infos[name].getSince() >= "4.1"}
    known = {*THROWING, *TRY_FORMS, *NOT_OF_THE_ROW.split(), *SAFE.split()}
    assert of_one_row - known - later - {*DATED_BACK.split()} == set()
    assert not later & known
    assert {name for name in known if name[0].isalpha()} - set(functions) == set()


def test_each_class_of_a_rule_is_one_of_this_spark_or_of_another(spark: SparkSession) -> None:
    package = "org.apache.spark.sql.catalyst.expressions"
    missing = {name for name in RULES if not has_class(spark, f"{package}.{name}")}
    missing = {name for name in missing if not has_class(spark, f"{package}.variant.{name}")}
    missing = {name for name in missing if not has_class(spark, f"{package}.xml.{name}")}
    assert missing in ({"TimeAdd"}, {"TimestampAddInterval"})


@pytest.mark.parametrize(
    "text",
    [
        *("kll_sketch_get_n_bigint(value)", "make_time(1, 2, 3)", "`kll_sketch_get_n_bigint` (value)"),
        *("try_to_date(message)", "upper(TIME(message))", "make_time /* w */ (1, 2, 3)", "make_time -- w\n(1, 2, 3)"),
    ],
)
def test_a_function_that_a_later_spark_has_brought_is_refused(spark: SparkSession, text: str) -> None:
    if installed().name == "4.0":
        pytest.skip("Spark 4.0 has no such function")
    rows = spark.sql("SELECT 1 AS n")
    assert "which Spark 4.0 does not have" in (throwing(rows, text, SILVER) or "")


def test_a_function_whose_name_is_put_together_is_refused(spark: SparkSession) -> None:
    assert "by identifier()" in (throwing(spark.sql("SELECT 1 AS n"), "IDENTIFIER('upper')(message)", SILVER) or "")


@pytest.mark.parametrize("text", ["'make_time(1, 2, 3)'", "-- make_time(1)\nmessage", "upper(`make_time`)"])
def test_the_name_of_such_a_function_in_a_text_or_of_a_column_is_no_call(spark: SparkSession, text: str) -> None:
    rows = spark.sql("SELECT 'x' AS message, 'y' AS make_time").select(column(text))
    assert "does not have" not in (throwing(rows, text, SILVER) or "")
