"""Commands, settings, metrics, states, columns and fingerprints are unchanged; a command may get new options."""

import pytest

from tests.frozen.golden import read
from tests.frozen.names import names


@pytest.mark.parametrize("kind", read("names"))
def test_names_are_unchanged(kind: str) -> None:
    assert names()[kind] == read("names")[kind]


def test_every_kind_of_name_is_frozen() -> None:
    assert names().keys() == read("names").keys()
