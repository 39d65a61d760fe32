"""The kit passes every sink that is shipped, through fifty kills at random moments each."""

from pathlib import Path

import pytest

from oncelake.lab.sink_test.sink_check import SinkTest
from tests.support.mariadb import MariaDB
from tests.support.postgres import PostgreSQL

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
SQL, PARQUET = "oncelake.serving.sql:SqlSink", "oncelake.serving.sinks.parquet:ParquetStores"


def passes(sink: str, options: dict[str, str]) -> None:
    checks = list(SinkTest(sink, options, kills=50, seed=1, lines=40, pauses=8).checks())
    assert [str(check) for check in checks if not check.holds] == []
    assert checks[-1].said.startswith("50 kills")


@pytest.mark.parametrize(
    "options",
    [{"store.a": "a", "store.b": "b"}, {"store.ERROR": "errors", "store.other": "rest", "by": "level", "keep": "2"}],
    ids=["whole", "split"],
)
def test_the_kit_passes_parquet_files(tmp_path: Path, options: dict[str, str]) -> None:
    passes(PARQUET, {key: str(tmp_path / text) if key.startswith("store.") else text for key, text in options.items()})


def test_the_kit_passes_sqlite(tmp_path: Path) -> None:
    passes(SQL, {"url": f"sqlite:///{tmp_path / 'served.db'}"})


def test_the_kit_passes_mariadb(mariadb: MariaDB) -> None:
    mariadb.make_database("kit")
    passes(SQL, {"url": mariadb.owner_url("kit")})


def test_the_kit_passes_postgresql(postgres: PostgreSQL) -> None:
    passes(SQL, {"url": postgres.make_database("kit")})
