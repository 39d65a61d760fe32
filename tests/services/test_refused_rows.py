"""A row with a value that a database cannot hold is refused by name, and the rest of the table goes on: on a server."""

from dataclasses import replace
from datetime import datetime

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError
from oncelake.gold import functions
from oncelake.gold.declaration import GoldTable
from oncelake.gold.transform import aggregate
from oncelake.serving.settings import Mode
from oncelake.serving.table_setup import make
from tests.support import overflow
from tests.support.mariadb import MariaDB
from tests.support.overflow import AT_THE_END, CASES, must_hold, must_refuse_one_group
from tests.support.postgres import PostgreSQL
from tests.support.refused_rows import (
    DECLARED,
    FEW_DIGITS,
    must_refuse,
    must_refuse_sums,
    put,
    served,
    silver,
    stored,
)
from tests.support.serving import compare, database, run_all

pytestmark = [pytest.mark.database, pytest.mark.spark]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"r{abs(hash(request.node.name)) % 10**12}"


def url_on(request: pytest.FixtureRequest, kind: str, name: str) -> str:
    server: MariaDB | PostgreSQL = request.getfixturevalue(kind)
    return server.make_database(name, **({"rights": "ALL"} if isinstance(server, MariaDB) else {}))


@pytest.mark.parametrize("mode", ["idempotent", "transactional"])
@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
def test_what_a_server_cannot_hold_is_refused_and_the_rest_goes_on(
    spark: SparkSession, request: pytest.FixtureRequest, name: str, kind: str, mode: Mode
) -> None:
    must_refuse(spark, url_on(request, kind, name), kind, mode)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
def test_one_group_whose_sum_a_server_cannot_hold_is_refused_and_the_rest_goes_on(
    request: pytest.FixtureRequest, name: str, kind: str, case: str
) -> None:
    must_refuse_one_group(overflow.table(url_on(request, kind, name)), case)


@pytest.mark.parametrize(
    ("kind", "statements"),
    [
        ("mariadb", ["ALTER TABLE odd MODIFY n DECIMAL(40,0), MODIFY whole DECIMAL(60,0), MODIFY exact DECIMAL(60,3)"]),
        ("mariadb", ["ALTER TABLE odd MODIFY n BIGINT UNSIGNED"]),
        ("postgres", ["ALTER TABLE odd ALTER n TYPE NUMERIC, ALTER whole TYPE NUMERIC, ALTER exact TYPE NUMERIC"]),
    ],
)
def test_a_wider_column_holds_no_more_than_gold(
    request: pytest.FixtureRequest, name: str, kind: str, statements: list[str]
) -> None:
    table = overflow.table(url_on(request, kind, name))
    table.make(overflow.SCHEMA)
    run_all(database(table), statements)
    for case in CASES if len(statements[0]) > 60 else ["a count"]:
        must_refuse_one_group(table, case)


@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
def test_sums_at_the_end_of_their_range_are_served_by_a_server(
    request: pytest.FixtureRequest, name: str, kind: str
) -> None:
    table = overflow.table(url_on(request, kind, name))
    table.make(overflow.SCHEMA)
    for first, then in AT_THE_END:
        must_hold(table, first, then)
        table.empty()


@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
def test_sums_of_lines_that_a_server_cannot_hold_are_refused_and_counted_by_the_proof(
    monkeypatch: pytest.MonkeyPatch, spark: SparkSession, request: pytest.FixtureRequest, name: str, kind: str
) -> None:
    monkeypatch.setattr(functions, "DECIMAL_SUM_DIGITS", FEW_DIGITS)
    must_refuse_sums(spark, url_on(request, kind, name))


def test_a_decimal_that_no_type_holds_is_refused_at_init(mariadb: MariaDB, name: str, spark: SparkSession) -> None:
    declared = GoldTable.model_validate(
        {"every": "1 hour", "measures": {"x": "max(try_cast(message as decimal(38,35)))"}}
    )
    table = replace(served(mariadb.make_database(name, rights="ALL")), declared=declared)
    with pytest.raises(ConfigError, match=r"x has type decimal\(38,35\), but mysql has at most 30 digits"):
        make(spark, [table])


def test_times_before_the_first_year_of_a_database_are_refused(
    mariadb: MariaDB, name: str, spark: SparkSession
) -> None:
    table = served(mariadb.make_database(name, rights="ALL"))
    make(spark, [table])
    gold = aggregate(silver(spark, {"early": ["early"], "x": ["1"]}), DECLARED)
    put(table, gold, 0)
    assert [row[2] for row in stored(table)] == ["x"]
    assert compare(table, gold).holds
    assert stored(table)[0][1] == datetime(2026, 1, 1, 10)
