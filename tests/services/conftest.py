"""One database server of each kind for all tests of this directory."""

from collections.abc import Iterator

import pytest

from tests.services.mariadb import MariaDB
from tests.services.postgres import PostgreSQL


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    """A MariaDB whose lock waits end after a second."""
    with MariaDB(tmp_path_factory.mktemp("mariadb"), "--innodb-lock-wait-timeout=1") as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgreSQL]:
    """A PostgreSQL."""
    with PostgreSQL() as server:
        yield server
