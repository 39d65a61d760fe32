"""This is where the tests of the model begin: the chain's code runs on it instead of on Spark."""

from collections.abc import Iterator

import pytest

from tests.model.chain_model import modelled


@pytest.fixture(autouse=True)
def _modelled() -> Iterator[None]:
    with modelled():
        yield
