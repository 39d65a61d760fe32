"""Fixture: one kernel for the notebooks."""

from collections.abc import Iterator

import pytest

from tests.support.notebooks.kernel import Kernel, started


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """Start a kernel, which is warm after its first notebook."""
    with started(tmp_path_factory.mktemp("kernel")) as kernel:
        yield kernel
