"""Values of a served table are equal and in order as in gold, also where a database has no type for them."""

import math
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql.types import DecimalType, StructField, StructType, TimestampType

from oncelake.common.lake import Table
from oncelake.gold.declaration import GoldTable
from oncelake.serving.patience import NONE
from oncelake.serving.rows import Rows
from oncelake.serving.served import Served
from oncelake.serving.sql import SqlSink
from oncelake.serving.values import compare_decimals, equal
from tests.support.serving import MINUTES, metadata

DECLARED = GoldTable.model_validate(
    {"every": "1 minute", "measures": {"top": "max(cast(message as decimal(30,3)))", "low": "min(1.5)"}}
)
SCHEMA = StructType(
    [StructField("log_time", TimestampType()), *(StructField(name, DecimalType(30, 3)) for name in ("top", "low"))]
)


@pytest.mark.parametrize(
    ("values", "low", "top"),
    [
        (["9.500", "10.500"], "9.500", "10.500"),
        (["10.500", "9.500"], "9.500", "10.500"),
        (["-9.500", "-10.500", "0.000"], "-10.500", "0.000"),
        (["900719925474099300000000.001", "900719925474099300000000.002"], "900719925474099300000000.001", None),
    ],
)
def test_the_least_and_the_largest_decimal_of_sqlite_are_those_of_the_numbers(
    tmp_path: Path, values: list[str], low: str, top: str | None
) -> None:
    sink = SqlSink("odd", {"url": f"sqlite:///{tmp_path / 'served.db'}", "mode": "transactional"})
    table = Served(Table("serving", "odd"), DECLARED, "transactional", Table("silver", "access_log"), sink)
    table.make(SCHEMA)
    for number, each in enumerate(values):
        row = (MINUTES[0], Decimal(each), Decimal(each))
        rows = Rows(tuple(SCHEMA.names), 1, 1, SCHEMA, lambda row=row: iter([row]))  # type: ignore[misc]
        table.apply(rows, metadata(number, number or None, number + 1), NONE, lambda: None)
    with table.snapshot(SCHEMA) as stored:
        assert list(stored.rows) == [(MINUTES[0], Decimal(top or values[-1]), Decimal(low))]


@pytest.mark.parametrize(
    ("values", "total"),
    [
        (["0.1", "0.2"], "0.300"),
        (["9223372036854775807", "9223372036854775807"], "18446744073709551614.000"),
        (["12345678901234567890.123", "-0.001", "1" + 30 * "0"], "1000000000012345678901234567890.122"),
        (["-12345678901234567890.123", "12345678901234567890.122"], "-0.001"),
        ([None, "0.1", None, "0.2"], "0.300"),
        ([None, None], None),
    ],
)
def test_a_sum_of_decimals_in_sqlite_is_exact(tmp_path: Path, values: list[str | None], total: str | None) -> None:
    declared = GoldTable.model_validate(
        {"every": "1 minute", "measures": {"all": "sum(cast(message as decimal(28,3)))"}}
    )
    schema = StructType([StructField("log_time", TimestampType()), StructField("all", DecimalType(37, 3))])
    sink = SqlSink("odd", {"url": f"sqlite:///{tmp_path / 'served.db'}", "mode": "transactional"})
    table = Served(Table("serving", "odd"), declared, "transactional", Table("silver", "access_log"), sink)
    table.make(schema)
    given = [None if value is None else Decimal(value) for value in values]
    for number, each in enumerate(given):
        rows = Rows(tuple(schema.names), 1, 1, schema, lambda each=each: iter([(MINUTES[0], each)]))  # type: ignore[misc]
        table.apply(rows, metadata(number, number or None, number + 1), NONE, lambda: None)
    with table.snapshot(schema) as stored:
        assert list(stored.rows) == [(MINUTES[0], None if total is None else Decimal(total))]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (math.nan, float("nan"), True),
        (math.nan, None, False),
        (math.nan, 7.0, False),
        (math.inf, math.inf, True),
        (-math.inf, math.inf, False),
        (0.0, -0.0, True),
        (Decimal("9.500"), Decimal("9.5"), True),
        ("a ", "a", False),
        ("A", "a", False),
        (None, None, True),
    ],
)
def test_values_are_equal_by_one_rule(one: object, other: object, *, same: bool) -> None:
    assert equal(["key", one], ["key", other]) is same


def test_decimals_compare_as_numbers() -> None:
    texts = ["10.5", "9.5", "-10", "-9", "0", "1E+3", "999"]
    assert sorted(texts, key=Decimal) == ["-10", "-9", "0", "9.5", "10.5", "999", "1E+3"]
    for one in texts:
        for other in texts:
            assert compare_decimals(one, other) == (Decimal(one) > Decimal(other)) - (Decimal(one) < Decimal(other))
