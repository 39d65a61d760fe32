"""Run the chain's code on the model instead of Spark, for all tests of the model."""

from collections.abc import Iterator

import pytest

from tests.model.chain_model import modelled


@pytest.fixture(autouse=True)
def _modelled() -> Iterator[None]:
    with modelled():
        yield
