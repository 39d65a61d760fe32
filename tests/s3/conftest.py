"""The lake of the tests on S3."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.s3.house import S3House
from tests.s3.server import Server
from tests.support.processes import SMALL

# The settings with which each of the two writers commits the batches of a test.
WRITERS = pytest.mark.parametrize("writer", [[], ["run.small_batch=0"]], ids=["delta-rs", "spark"])


@pytest.fixture
def writer() -> list[str]:
    """Return the settings of the writer that is the default."""
    return []


@pytest.fixture
def house(tmp_path: Path, writer: list[str]) -> Iterator[S3House]:
    with Server() as server:
        yield S3House(tmp_path, sets=[*SMALL, *writer], server=server)
