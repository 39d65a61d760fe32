"""A dashboard of the served tables for Grafana, whose data sources of MySQL and PostgreSQL read them.

Each measure is a panel: one series for each group, at most `MOST_SERIES`, those with the largest value in the time that
is shown. A row of a served table is a point of a series, so nothing is added up that does not add up.
Source of the form: Grafana's documentation, "Dashboard JSON model"; of the variables, "Global variables".
"""

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect, make_url

from oncelake.common.errors import ConfigError
from oncelake.serving.sink import KEY, LOG_TIME, SinkTable
from oncelake.serving.tables import POSITION, REFUSED, served_table

MOST_SERIES = 10
_WIDTH, _HEIGHT = 12, 9
_NUMBERS = ("integer", "float", "decimal")
# Grafana replaces ${__from} and ${__to} by milliseconds since 1970. Its own macro for a range of times depends on the
# time zone of the connection.
_MYSQL_TIME = "TIMESTAMPADD(MICROSECOND, {} * 1000, '1970-01-01')"
_POSTGRESQL_TIME = "TIMESTAMP '1970-01-01' + {} * INTERVAL '1 millisecond'"
# By backend: the type of the data source, and a time.
_BACKENDS = {
    "mysql": ("mysql", _MYSQL_TIME),
    "mariadb": ("mysql", _MYSQL_TIME),
    "postgresql": ("grafana-postgresql-datasource", _POSTGRESQL_TIME),
}


def dashboard(tables: Sequence[tuple[SinkTable, Sequence[str]]], backend: str) -> dict[str, Any]:
    """Return the dashboard, to be imported as JSON.

    Args:
        tables: the served tables, each with the columns by which it groups.
        backend: the kind of their database, such as `mysql`.

    Raises:
        ConfigError: Grafana has no data source of its own for this database.
    """
    if backend not in _BACKENDS:
        raise ConfigError(f"Grafana reads no {backend} by itself; a dashboard can be made for MySQL and PostgreSQL")
    kind, time = _BACKENDS[backend]
    dialects: Callable[..., Dialect] = make_url(f"{backend}://").get_dialect()
    dialect = dialects(paramstyle="named")
    places = [
        _panel("Last batches", "table", _sql(_positions(), dialect)),
        _panel("Rows that the database cannot hold", "table", _sql(_refused(), dialect)),
    ]
    for table, by in tables:
        others = (KEY, LOG_TIME, *by)
        places += [
            _panel(f"{table.name}: {column.name}", "timeseries", _sql(_series(table, by, column.name, time), dialect))
            for column in table.columns
            if column.kind in _NUMBERS and column.name not in others
        ]
    source = {"type": kind, "uid": "${datasource}"}
    panels = [
        {
            "id": number + 1,
            "gridPos": {"x": number % 2 * _WIDTH, "y": number // 2 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "datasource": source,
            **panel,
            "targets": [{"datasource": source, **target} for target in panel["targets"]],
        }
        for number, panel in enumerate(places)
    ]
    variable = {"name": "datasource", "type": "datasource", "query": kind, "label": "Data source"}
    return {
        "title": "oncelake: served tables",
        "uid": "oncelake-served",
        "tags": ["oncelake"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "utc",
        "templating": {"list": [variable]},
        "panels": panels,
    }


def _panel(title: str, kind: str, sql: str) -> dict[str, Any]:
    target = {
        "refId": "A",
        "format": "table" if kind == "table" else "time_series",
        "rawQuery": True,
        "editorMode": "code",
        "rawSql": sql,
    }
    defaults = {"unit": "short", "custom": {"spanNulls": False, "showPoints": "auto"}} if kind != "table" else {}
    return {
        "title": title,
        "type": kind,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {},
        "targets": [target],
    }


def _sql(query: sa.Select[Any], dialect: Dialect) -> str:
    return str(query.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))


def _series(table: SinkTable, by: Sequence[str], measure: str, time: str) -> sa.Select[Any]:
    """Return the query of a measure's points: time, value, and with keys the name of the series."""
    rows = served_table(table)
    low: Any = sa.literal_column(time.format("${__from}"))
    high: Any = sa.literal_column(time.format("${__to}"))
    value = rows.c[measure]
    shown = sa.and_(rows.c[LOG_TIME].between(low, high), value.is_not(None))
    points = sa.select(rows.c[LOG_TIME].label("time"), value.label("value")).where(shown).order_by(rows.c[LOG_TIME])
    if not by:
        return points
    texts = [sa.func.coalesce(sa.cast(rows.c[key], sa.String()), "(null)") for key in by]
    name = sa.func.concat_ws(", ", *texts)
    largest = (
        sa.select(name.label("series"))
        .where(shown)
        .group_by(name)
        .order_by(sa.func.max(value).desc())
        .limit(MOST_SERIES)
        .subquery("largest")
    )
    return points.add_columns(name.label("metric")).select_from(rows.join(largest, largest.c.series == name))


def _positions() -> sa.Select[Any]:
    columns = POSITION.c
    return sa.select(columns.stage, columns.batch_id, columns.total_rows, columns.committed_at).order_by(columns.stage)


def _refused() -> sa.Select[Any]:
    columns = REFUSED.c
    return sa.select(columns.stage, columns.row_values, columns.column_name, columns.value_text, columns.reason)
