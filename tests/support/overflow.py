"""Sums that leave the range of their column in a served table, and the course of adding to them: without Spark."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.types import DataType, DecimalType, LongType, StructField, StructType, TimestampType
from sqlalchemy import Connection, event

from oncelake.common.errors import TargetError
from oncelake.common.lake import Table
from oncelake.exactly_once.write import Written
from oncelake.gold.declaration import GoldTable
from oncelake.serving.patience import NONE
from oncelake.serving.rows import Rows
from oncelake.serving.served import Served
from oncelake.serving.settings import Unheld
from oncelake.serving.sql import SqlSink
from oncelake.serving.values import exact_sum
from tests.support.serving import MINUTES, database, metadata

DECLARED = GoldTable.model_validate(
    {
        "every": "1 minute",
        "measures": {
            "n": "count",
            "whole": "sum(try_cast(message as bigint))",
            "exact": "sum(try_cast(message as decimal(28,3)))",
        },
    }
)
KINDS: dict[str, DataType] = {"n": LongType(), "whole": DecimalType(38, 0), "exact": DecimalType(37, 3)}
SCHEMA = StructType([StructField("log_time", TimestampType()), *(StructField(*each) for each in KINDS.items())])
WHOLE, EXACT = Decimal("9" * 38), Decimal("9" * 34 + ".999")
LEAST_WHOLE, LEAST_EXACT = WHOLE.copy_negate(), EXACT.copy_negate()
Values = tuple[int, Decimal | None, Decimal | None]
# a stored row, what is added to it, the column that cannot hold the sum, the sum, and the range of the column
CASES: dict[str, tuple[Values, Values, str, str, str]] = {
    "a count": ((2**63 - 1, None, None), (1, None, None), "n", str(2**63), "bigint"),
    "a sum of integers": ((1, WHOLE, None), (1, Decimal(1), None), "whole", "1" + "0" * 38, "decimal(38,0)"),
    "a negative sum of integers": (
        (1, LEAST_WHOLE, None),
        (1, LEAST_WHOLE, None),
        "whole",
        str(-2 * int(WHOLE)),
        "decimal(38,0)",
    ),
    "a sum": ((1, None, EXACT), (1, None, Decimal("0.001")), "exact", "1" + "0" * 34 + ".000", "decimal(37,3)"),
    "a sum of many digits": (
        (1, None, Decimal("8" * 28 + "555555.556")),
        (1, None, Decimal("1" * 28 + "444444.444")),
        "exact",
        "1" + "0" * 34 + ".000",
        "decimal(37,3)",
    ),
    "a negative sum": (
        (1, None, LEAST_EXACT),
        (1, None, Decimal("-0.001")),
        "exact",
        "-1" + "0" * 34 + ".000",
        "decimal(37,3)",
    ),
}
# sums at the end of their range, which a column holds
AT_THE_END: Sequence[tuple[Values, Values]] = [
    ((2**63 - 2, Decimal("9" * 37 + "8"), Decimal("9" * 34 + ".998")), (1, Decimal(1), Decimal("0.001"))),
    ((1, LEAST_WHOLE, LEAST_EXACT), (1, Decimal(0), Decimal("0.000"))),
    ((1, LEAST_WHOLE, LEAST_EXACT), (2**62, WHOLE, EXACT)),
    ((1, None, EXACT), (1, WHOLE, None)),
]


def table(url: str, unheld: Unheld = "refuse") -> Served:
    sink = SqlSink("odd", {"url": url, "mode": "transactional"})
    return Served(
        Table("serving", "odd"), DECLARED, "transactional", Table("silver", "access_log"), sink, unheld=unheld
    )


def put(served: Served, number: int, rows: dict[datetime, Values]) -> Written:
    found = [(at, *values) for at, values in sorted(rows.items())]
    given = Rows(tuple(SCHEMA.names), len(found), 1, SCHEMA, lambda: iter(found))
    return served.apply(given, metadata(number, number or None, number + 1), NONE, lambda: None)


def stored(served: Served) -> list[tuple[Any, ...]]:
    with served.snapshot(SCHEMA) as content:
        return list(content.rows)


def refused(served: Served) -> list[tuple[Any, ...]]:
    text = "SELECT row_key, row_values, column_name, value_text, reason, batch_id FROM oncelake_refused"
    return database(served).snapshot(lambda connection: [tuple(row) for row in connection.exec_driver_sql(text)])


@contextmanager
def dies_before_commit(served: Served) -> Iterator[None]:
    """Let a batch end after its last statement."""
    engine = database(served).engine

    def die(_: Connection, __: Any, statement: str, *___: Any) -> None:
        if statement.startswith("INSERT INTO oncelake_refused"):
            raise RuntimeError("killed")

    event.listen(engine, "after_cursor_execute", die)
    try:
        yield
    finally:
        event.remove(engine, "after_cursor_execute", die)


def must_refuse_one_group(served: Served, case: str) -> None:
    """Add three batches to two groups; in the second batch, one group leaves the range of its column."""
    first, then, column, total, kind = CASES[case]
    group, other = MINUTES[:2]
    plain: Values = (1, Decimal(2), Decimal("0.500"))
    wanted = [
        (
            str(group),
            '{"log_time":"2026-01-01T00:00:00.000Z"}',
            column,
            total,
            f"it is not within the range of {kind}",
            1,
        )
    ]
    served.make(SCHEMA)
    put(served, 0, {group: first, other: plain})
    assert stored(served) == [(group, *first), (other, *plain)]
    # a kill before COMMIT, then the same batch, its replay, and a batch with which the sum would fit again
    with dies_before_commit(served), pytest.raises(TargetError, match="killed"):
        put(served, 1, {group: then, other: plain})
    assert (stored(served), refused(served)) == ([(group, *first), (other, *plain)], [])
    assert not put(served, 1, {group: then, other: plain}).replayed
    assert (stored(served), refused(served)) == ([(other, 2, Decimal(4), Decimal("1.000"))], wanted)
    assert put(served, 1, {group: then, other: plain}).replayed
    back = (1, *(None if value is None else value.copy_negate() for value in then[1:]))
    put(served, 2, {group: back, other: plain})  # type: ignore[dict-item]
    assert (stored(served), refused(served)) == ([(other, 3, Decimal(6), Decimal("1.500"))], wanted)
    served.empty()
    assert (stored(served), refused(served)) == ([], [])


def must_hold(served: Served, first: Values, then: Values) -> None:
    """Add a row to another one; expect their sums, also beside rows that grow so much that all sums are asked for."""
    group, *others = MINUTES[:3]
    zero: Values = (0, Decimal(0), Decimal(0))
    large: list[Values] = [(2**63 - 1, WHOLE, EXACT), (0, LEAST_WHOLE, LEAST_EXACT)]
    put(served, 0, {group: first, **dict.fromkeys(others, zero)})
    put(served, 1, {group: then, **dict(zip(others, large, strict=True))})
    sums = [
        one if other is None else other if one is None else exact_sum(one, other)
        for one, other in zip(first[1:], then[1:], strict=True)
    ]
    wanted = [(group, first[0] + then[0], *sums), *((at, *each) for at, each in zip(others, large, strict=True))]
    assert (stored(served), refused(served)) == (wanted, [])
