"""The dashboard of served tables has a panel for each number, and is refused where Grafana reads no database."""

import pytest

from oncelake.common.errors import ConfigError
from oncelake.serving.dashboard import dashboard
from oncelake.serving.sink import KEY, SinkColumn, SinkTable
from tests.support.grafana import check_dashboard

TABLE = SinkTable(
    "by_path",
    KEY,
    (
        SinkColumn(KEY, "text"),
        SinkColumn("log_time", "time"),
        SinkColumn("status", "integer"),
        SinkColumn("hits", "integer"),
        SinkColumn("longest", "float"),
        SinkColumn("paid", "decimal", precision=12, scale=2),
        SinkColumn("last_path", "text"),
    ),
)


@pytest.mark.parametrize("backend", ["mysql", "mariadb", "postgresql"])
def test_each_measure_that_is_a_number_has_a_panel(backend: str) -> None:
    made = dashboard([(TABLE, ["status"])], backend)
    check_dashboard(made)
    titles = [panel["title"] for panel in made["panels"]]
    assert [title for title in titles if ":" in title] == ["by_path: hits", "by_path: longest", "by_path: paid"]


def test_a_database_without_a_data_source_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="Grafana reads no sqlite by itself"):
        dashboard([(TABLE, ["status"])], "sqlite")
