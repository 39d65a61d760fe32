"""The lake of the tests on S3."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.s3.house import S3House
from tests.s3.server import Server
from tests.support.processes import SMALL


@pytest.fixture
def house(tmp_path: Path) -> Iterator[S3House]:
    with Server() as server:
        yield S3House(tmp_path, sets=[*SMALL], server=server)
