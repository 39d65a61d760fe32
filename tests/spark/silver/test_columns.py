"""A format's columns hold exactly what the line says, or nothing; a value that does not fit is counted or refused."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from oncelake.common.spark.collect import SmallBatches
from oncelake.quality.suite import Rule
from oncelake.silver import collected
from oncelake.silver.parsing.format import LogFormat
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.rules import Silver
from oncelake.silver.transform import TimeLimits, accepted, quarantined
from tests.support.bronze_rows import bronze_rows
from tests.support.suites import read

pytestmark = pytest.mark.spark

TIME = "2017-07-30T14:09:08Z"
JSON = {"json": {"time": "time", "level": "level", "message": "message"}, "time": "iso8601", "default_level": "INFO"}
WORDS = {"pattern": r"(?<time>\S+) (?<message>[^|]*)\|(?<v>.*)", "time": "iso8601", "default_level": "INFO"}
TEN = "1234567890"


@pytest.fixture(autouse=True, params=["true", "false"], ids=["ansi", "no-ansi"])
def _ansi(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    before = spark.conf.get("spark.sql.ansi.enabled", "true")
    spark.conf.set("spark.sql.ansi.enabled", request.param)
    yield
    spark.conf.set("spark.sql.ansi.enabled", before or "true")


def silver_of(form: dict[str, Any], columns: dict[str, Any], rules: tuple[Rule, ...] = ()) -> Silver:
    return Silver({"access_log": Parser(LogFormat.model_validate({**form, "columns": columns}))}, TimeLimits(), rules)


def values(spark: SparkSession, silver: Silver, lines: list[str], column: str = "v") -> list[Any]:
    """Return the values of a column, MISFIT where a line carries the mark of the column's rule."""
    rows = accepted(silver.parse(bronze_rows(spark, lines))).orderBy("offset").collect()
    assert len(rows) == len(lines)
    return [MISFIT if f"column_{column}" in (row["warnings"] or ()) else row[column] for row in rows]


MISFIT = "a misfit"
TYPED: dict[str, dict[str, Any]] = {
    "int": {
        "200": 200,
        " 42 ": 42,
        "+5": 5,
        "-0": 0,
        "007": 7,
        "2147483647": 2147483647,
        "-2147483648": -2147483648,
        "": None,
        "  ": None,
        **dict.fromkeys(["3.7", "5.0", "2147483648", "99999999999", "1e3", "0x10", "1_0", "1L", "x", "-", "٣"], MISFIT),
    },
    "bigint": {"9223372036854775807": 2**63 - 1, "9223372036854775808": MISFIT, "1.0": MISFIT},
    "double": {
        "3.5": 3.5,
        ".5": 0.5,
        "5.": 5.0,
        "-1e3": -1000.0,
        "1E-5": 1e-05,
        "0": 0.0,
        **dict.fromkeys(["NaN", "Infinity", "1e999", "-1e999", "1d", "1f", "0x1p3", "1,5", ".", "e5", "1e"], MISFIT),
    },
    "decimal(10,2)": {
        "1.50": Decimal("1.50"),
        "1.5000": Decimal("1.50"),
        "-.5": Decimal("-0.50"),
        "7.": Decimal("7.00"),
        "12345678.99": Decimal("12345678.99"),
        "1.5e2": Decimal("150.00"),
        "15E-1": Decimal("1.50"),
        "0" * 50 + "1": Decimal("1.00"),
        **dict.fromkeys(
            ["1.505", "1.999", "123456789", "1e8", "1e-3", "1.2345e1", "1e-400", "1e99999999", "NaN"], MISFIT
        ),
        **dict.fromkeys([".", "NaN", "٣", "1.5" + "0" * 2000, "1234567890123456e-8"], MISFIT),
    },
    "boolean": {"true": True, "No": False, "1": True, "y": True, "2": MISFIT, "on": MISFIT},
    "date": {
        "2017-07-30": date(2017, 7, 30),
        **dict.fromkeys(["2017-02-30", "2017-07", "2017-07-30T10:00:00", "today", "2017-7-3", "12017-07-30"], MISFIT),
    },
    "timestamp": {
        "2017-07-30T14:09:08.5+02:00": datetime(2017, 7, 30, 12, 9, 8, 500_000),
        "2017-07-30 14:09:08": datetime(2017, 7, 30, 14, 9, 8),
        **dict.fromkeys(["now", "2017-07-30", "1501423748", "2017-02-30T00:00:00Z"], MISFIT),
    },
    "string": {" a ": " a ", "": None},
}
CASES = [(kind, text, value) for kind, found in TYPED.items() for text, value in found.items()]


@pytest.mark.parametrize("kind", TYPED)
def test_a_text_is_read_exactly_or_it_is_a_misfit(spark: SparkSession, kind: str) -> None:
    lines = [f"{TIME} m|{text}" for text in TYPED[kind]]
    found = values(spark, silver_of(WORDS, {"v": kind}), lines)
    assert dict(zip(TYPED[kind], found, strict=True)) == TYPED[kind]


JSON_VALUES: dict[str, dict[str, Any]] = {
    "bigint": {'{"v": 12}': 12, '{"v": "12"}': 12, '{"v": 1.5}': MISFIT, '{"v": null}': None, "{}": None},
    "boolean": {'{"v": true}': True, '{"v": [true]}': MISFIT},
    "double": {'{"v": 0.00001}': 1e-05, '{"v": 12345678.5}': 12345678.5, '{"v": {}}': MISFIT},
    "string": {'{"v": {"a": [1, 2]}}': '{"a": [1, 2]}', '{"v": ""}': ""},
    "decimal(20,6)": {
        '{"v": 12345678901234.123456}': Decimal("12345678901234.123456"),
        '{"v": "12345678901234.123456"}': Decimal("12345678901234.123456"),
        '{"v": 0.1000000000000000055}': MISFIT,
        '{"v": 0.10000}': Decimal("0.1"),
        '{"v": 1e-5}': Decimal("0.00001"),
        '{"v": null}': None,
        '{"v": 1, "v": 2}': Decimal(2),
    },
}


@pytest.mark.parametrize("kind", JSON_VALUES)
def test_a_json_value_is_read_exactly_or_it_is_a_misfit(spark: SparkSession, kind: str) -> None:
    lines = [each.replace("{", f'{{"time": "{TIME}", ', 1).replace(", }", "}") for each in JSON_VALUES[kind]]
    found = values(spark, silver_of(JSON, {"v": kind}), lines)
    assert dict(zip(JSON_VALUES[kind], found, strict=True)) == JSON_VALUES[kind]


@pytest.mark.parametrize("kind", ["int", "decimal(5,2)", "string"])
def test_a_path_leads_to_a_nested_value(spark: SparkSession, kind: str) -> None:
    line = f'{{"time": "{TIME}", "user": {{"id": 7, "a b": {{"n": [4, 5]}}}}, "$": 1, "it\'s": 6}}'
    columns = {"a": f"{kind} from $.user.id", "b": f"{kind} from $.user['a b'].n[1]", "c": f"{kind} from it's"}
    silver = silver_of(JSON, {**columns, "none": f"{kind} from $.user.id.deeper"})
    (row,) = accepted(silver.parse(bronze_rows(spark, [line]))).collect()
    assert [str(row[name]).removesuffix(".00") for name in "abc"] == ["7", "5", "6"]
    assert row["none"] is None
    assert row["warnings"] is None
    assert row["fields"]["it's"] == "6"


def test_a_value_stays_in_fields(spark: SparkSession) -> None:
    silver = silver_of({**WORDS, "pattern": r"(?<time>\S+) (?<message>\S+) (?<status>\S+)"}, {"status": "int"})
    rows = accepted(silver.parse(bronze_rows(spark, [f"{TIME} m 200", f"{TIME} m many"]))).orderBy("offset").collect()
    assert [(row["status"], row["fields"]) for row in rows] == [(200, {"status": "200"}), (None, {"status": "many"})]


@pytest.mark.parametrize("part", ["time", "level", "message"])
def test_a_column_can_be_from_a_part_of_the_line(spark: SparkSession, part: str) -> None:
    form: dict[str, Any] = {
        "pattern": r"^(?<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?<level>[^ ]+)(?: (?<message>.*))?$",
        "time": "yyyy-MM-dd HH:mm:ss",
    }
    kind, value = {
        "time": ("timestamp", datetime(2017, 7, 30, 14, 9, 8)),
        "level": ("string", "info"),
        "message": ("int", 5),
    }[part]
    assert values(spark, silver_of(form, {"v": f"{kind} from {part}"}), ["2017-07-30 14:09:08 info 5"]) == [value]


def test_logfmt_columns(spark: SparkSession) -> None:
    form = {"logfmt": JSON["json"], "time": "iso8601", "default_level": "INFO"}
    lines = [f'time={TIME} took=1.5 ok="yes"', f"time={TIME} took= ok", f"time={TIME}", f"time={TIME} took=slow"]
    silver = silver_of(form, {"took": "double", "fine": "boolean from ok"})
    assert values(spark, silver, lines, "took") == [1.5, None, None, MISFIT]
    assert values(spark, silver, lines, "fine") == [True, None, None, None]


def test_a_timestamp_has_the_formats_patterns_or_its_own(spark: SparkSession) -> None:
    form = {**WORDS, "time": ["iso8601"], "zone": "Europe/Paris"}
    own = {"type": "timestamp", "time": ["epoch_seconds", "epoch_millis", "epoch_micros", "epoch_nanos"]}
    lines = [f"{TIME} m|{text}" for text in ("1501423748.25", f"{TEN}123", f"{TEN}123456", f"{TEN}123456789", "x")]
    at = datetime.fromtimestamp(int(TEN), UTC).replace(tzinfo=None)
    assert values(spark, silver_of(form, {"v": own}), lines) == [
        datetime(2017, 7, 30, 14, 9, 8, 250_000),
        at.replace(microsecond=123_000),
        at.replace(microsecond=123_456),
        at.replace(microsecond=123_456),
        MISFIT,
    ]
    local = values(spark, silver_of(form, {"v": "timestamp"}), [f"{TIME} m|2017-07-30 14:09:08"])
    assert local == [datetime(2017, 7, 30, 12, 9, 8)]
    monthly = {"type": "timestamp", "time": "MMM dd HH:mm"}
    (found,) = values(spark, silver_of(form, {"v": monthly}), [f"{TIME} m|Jan 02 03:04"])
    assert (found.month, found.day, found.hour) == (1, 2, 2)


def test_texts_that_mean_no_value(spark: SparkSession) -> None:
    column = {"type": "bigint", "null_is": ["-", "n/a"]}
    lines = [f"{TIME} m|{text}" for text in ("-", " n/a ", "5", "--")]
    assert values(spark, silver_of(WORDS, {"v": column}), lines) == [None, None, 5, MISFIT]


def test_a_misfit_goes_to_quarantine_if_declared_so(spark: SparkSession) -> None:
    silver = silver_of(WORDS, {"v": {"type": "int", "misfit": "quarantine"}})
    parsed = silver.parse(bronze_rows(spark, [f"{TIME} m|many", f"{TIME} m|", f"{TIME} m|5", "broken"]))
    assert [row["v"] for row in accepted(parsed).orderBy("offset").collect()] == [None, 5]
    refused = quarantined(parsed).orderBy("offset").collect()
    assert [[tuple(each) for each in row["reasons"]] for row in refused] == [
        [("column_v", "v", "many")],
        [("pattern", "value", "broken")],
    ]


LINES = [f"{TIME} m|{text}" for text in ("many", "5", "", "77", "1e3")] + ["broken", "", f"x m|{5}"]


@pytest.mark.parametrize("misfit", ["null", "quarantine"])
def test_a_small_batch_has_the_same_rows_and_counts(
    spark: SparkSession, misfit: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    small = {
        "type": "expect_column_values_to_be_between",
        "kwargs": {"column": "v", "max_value": 50},
        "meta": {"rule": "small"},
    }
    rules = tuple(read(tmp_path_factory.mktemp("suite"), small).rules)
    silver = silver_of(WORDS, {"v": {"type": "int", "misfit": misfit}, "w": "double from v"}, rules)
    parsed = silver.parse(bronze_rows(spark, LINES))
    found = SmallBatches(1_000, 10_000_000).collect(parsed)
    assert found is not None
    assert collected.accepted(found).rows.equals(accepted(parsed).toArrow())
    assert collected.accepted(found).rows.column_names == silver.schema.fieldNames()
    assert collected.quarantined(found).rows.equals(quarantined(parsed).toArrow())
    counts = parsed.agg(*silver.aggregates).first()
    assert counts is not None
    known = {name.removeprefix("rule "): n for name, n in counts.asDict().items() if name.startswith("rule ") and n}
    assert dict(collected.broken(found)) == known
    assert known == {"column_v": 2, "column_w": 1, "small": 1, "pattern": 1, "blank": 1, "time": 1}
