"""A group whose sum leaves the range of its column is refused by name, and the other groups go on: in SQLite."""

from pathlib import Path

import pytest

from oncelake.common.errors import ConfigError, TargetError
from tests.support.overflow import (
    AT_THE_END,
    CASES,
    SCHEMA,
    Values,
    must_hold,
    must_refuse_one_group,
    put,
    stored,
    table,
)
from tests.support.serving import MINUTES, database


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'served.db'}"


@pytest.mark.parametrize("case", CASES)
def test_one_group_is_refused_and_stays_so_and_the_rest_goes_on(url: str, case: str) -> None:
    must_refuse_one_group(table(url), case)


@pytest.mark.parametrize(("first", "then"), AT_THE_END)
def test_a_sum_at_the_end_of_its_range_is_served(url: str, first: Values, then: Values) -> None:
    served = table(url)
    served.make(SCHEMA)
    must_hold(served, first, then)


def test_a_run_can_stop_at_a_sum_instead_and_names_the_row(url: str) -> None:
    served = table(url, "stop")
    served.make(SCHEMA)
    first, then, *_ = CASES["a sum"]
    put(served, 0, {MINUTES[0]: first})
    said = (
        r'the row \{"log_time":"2026-01-01T00:00:00.000Z"\} has exact = 1000.*not within the range of decimal\(37,3\)'
    )
    with pytest.raises(TargetError, match=f"{said}.*or set serving.unheld to refuse"):
        put(served, 1, {MINUTES[0]: then})
    assert stored(served) == [(MINUTES[0], *first)]


def test_a_table_of_an_older_version_asks_for_serving_init(url: str) -> None:
    served = table(url)
    served.make(SCHEMA)
    first, then, *_ = CASES["a sum"]
    put(served, 0, {MINUTES[0]: first})
    database(served).transaction(lambda connection: connection.exec_driver_sql("DROP TABLE oncelake_refused"))
    with pytest.raises(ConfigError, match=r"has exact = 1000.*no table oncelake_refused.*oncelake serving init"):
        put(table(url), 1, {MINUTES[0]: then})
    served.make(SCHEMA)
    put(table(url), 1, {MINUTES[0]: then})
    assert stored(served) == []
