"""A row with a value that a database cannot hold is refused by name, and the rest of the table goes on: on a server."""

from dataclasses import replace
from datetime import datetime

import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError
from oncelake.gold.declaration import GoldTable
from oncelake.gold.transform import aggregate
from oncelake.serving.check import make
from oncelake.serving.settings import Mode
from tests.support.mariadb import MariaDB
from tests.support.postgres import PostgreSQL
from tests.support.refused_rows import DECLARED, must_refuse, put, served, silver, stored
from tests.support.serving import compare

pytestmark = [pytest.mark.database, pytest.mark.spark]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"r{abs(hash(request.node.name)) % 10**12}"


@pytest.mark.parametrize("mode", ["idempotent", "transactional"])
@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
def test_what_a_server_cannot_hold_is_refused_and_the_rest_goes_on(
    spark: SparkSession, request: pytest.FixtureRequest, name: str, kind: str, mode: Mode
) -> None:
    server: MariaDB | PostgreSQL = request.getfixturevalue(kind)
    rights = {"rights": "ALL"} if isinstance(server, MariaDB) else {}
    must_refuse(spark, server.make_database(name, **rights), kind, mode)


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
