"""Fixtures: one database server of each kind for all tests of this directory, and a served lake for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelake.serving.settings import Mode
from tests.support.house import House
from tests.support.mariadb import MariaDB
from tests.support.postgres import PostgreSQL
from tests.support.serving_house import ServingHouse


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    """Start a MariaDB whose lock waits time out after a second."""
    with MariaDB(tmp_path_factory.mktemp("mariadb"), "--innodb-lock-wait-timeout=1") as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgreSQL]:
    """Start a PostgreSQL."""
    with PostgreSQL() as server:
        yield server


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Return a directory of logs, and a lake whose one gold table is error_log."""
    return House.with_error_log(tmp_path)


@pytest.fixture(params=["idempotent", "transactional"])
def place(house: House, mariadb: MariaDB, request: pytest.FixtureRequest) -> ServingHouse:
    """Return a lake that is served from MariaDB, in each mode."""
    mode: Mode = request.param
    return ServingHouse(house, mariadb, f"s{abs(hash(request.node.nodeid)) % 10**12}", mode)
