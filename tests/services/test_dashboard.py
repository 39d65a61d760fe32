"""The SQL of the dashboard of served tables runs on the servers, in any time zone, and returns what is served."""

from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from oncelake.serving.dashboard import MOST_SERIES, dashboard
from oncelake.serving.sink import KEY, SinkColumn, SinkTable
from oncelake.serving.sql import SqlSink
from oncelake.serving.tables import served_table
from tests.support.mariadb import MariaDB
from tests.support.postgres import PostgreSQL

pytestmark = [pytest.mark.database]

NOON = datetime(2026, 11, 20, 12)
PLAIN = SinkTable("error_log", "log_time", (SinkColumn("log_time", "time"), SinkColumn("log_count", "integer")))
KEYED = SinkTable(
    "by_path",
    KEY,
    (
        SinkColumn(KEY, "text"),
        SinkColumn("log_time", "time"),
        SinkColumn("path", "text"),
        SinkColumn("status", "integer"),
        SinkColumn("hits", "integer"),
        SinkColumn("share", "float"),
        SinkColumn("first", "text"),
    ),
)
TABLES = [(PLAIN, ()), (KEYED, ("path", "status"))]


@pytest.fixture(params=["mariadb", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    name = f"d{abs(hash(request.node.nodeid)) % 10**12}"
    if request.param == "postgresql":
        postgres: PostgreSQL = request.getfixturevalue("postgres")
        return postgres.make_database(name)
    mariadb: MariaDB = request.getfixturevalue("mariadb")
    mariadb.make_database(name)
    return mariadb.owner_url(name)


def points(connection: Connection, title: str, since: datetime, until: datetime) -> list[Any]:
    """Return what a panel shows between two times, which Grafana puts into its SQL."""
    panels = dashboard(TABLES, connection.dialect.name)["panels"]
    sql: str = next(panel for panel in panels if panel["title"] == title)["targets"][0]["rawSql"]
    for variable, time in (("${__from}", since), ("${__to}", until)):
        sql = sql.replace(variable, str((time - datetime(1970, 1, 1)) // timedelta(milliseconds=1)))
    assert "$" not in sql
    return [tuple(row) for row in connection.exec_driver_sql(sql.replace("%", "%%"))]


def test_a_panel_shows_the_rows_of_its_time(url: str) -> None:
    sink = SqlSink("error_log", {"url": url})
    with sink.database.engine.connect() as connection:
        for table, _ in TABLES:
            for statement in sink.statements(table):
                connection.exec_driver_sql(statement)
        is_mysql = connection.dialect.name != "postgresql"
        connection.exec_driver_sql("SET time_zone = '-07:00'" if is_mysql else "SET TIME ZONE '-07:00'")
        plain, keyed = served_table(PLAIN), served_table(KEYED)
        minutes = [NOON + timedelta(minutes=minute) for minute in range(4)]
        counts = [{"log_time": minute, "log_count": number} for number, minute in enumerate(minutes)]
        connection.execute(sa.insert(plain), counts)
        assert points(connection, "error_log: log_count", minutes[1], minutes[2]) == [(minutes[1], 1), (minutes[2], 2)]

        paths = [f"/p{number:02}%" for number in range(MOST_SERIES)]
        connection.execute(
            sa.insert(keyed),
            [
                {KEY: f"{path}{minute}", "log_time": minute, "path": path, "status": 200, "hits": number + 5}
                for minute in minutes[:2]
                for number, path in enumerate([*paths, None])
            ],
        )
        shown = points(connection, "by_path: hits", minutes[0], minutes[0])
        assert sorted((metric, value) for _, value, metric in shown) == sorted(
            [("(null), 200", MOST_SERIES + 5), *((f"{path}, 200", n + 5) for n, path in enumerate(paths) if n > 0)]
        )
        assert points(connection, "by_path: share", minutes[0], minutes[1]) == []
        for title in ("Last batches", "Rows that the database cannot hold"):
            assert points(connection, title, NOON, NOON) == []
