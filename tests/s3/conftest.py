"""The lake of the tests on S3."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import SMALL
from tests.support.s3_house import S3House
from tests.support.s3_server import Server


@pytest.fixture
def writer() -> list[str]:
    """Return the settings of the writer that is the default."""
    return []


@pytest.fixture
def house(tmp_path: Path, writer: list[str]) -> Iterator[S3House]:
    with Server() as server:
        yield S3House(tmp_path, sets=[*SMALL, *writer], server=server)
