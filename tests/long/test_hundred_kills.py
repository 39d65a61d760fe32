"""The hundred kills of `oncelake crash-test`, as the README describes them."""

import json

import pytest

from tests.support.house import House

pytestmark = [pytest.mark.chain, pytest.mark.long]


@pytest.mark.timeout(5400)
def test_a_hundred_kills_lose_nothing_and_double_nothing(house: House) -> None:
    process = house.start("crash-test", "--json")
    said, _ = process.communicate(timeout=5400)
    figures = json.loads(said.splitlines()[-1])
    assert process.returncode == 0, said
    assert (figures["kills"], figures["lost"], figures["doubled"], figures["prove_holds"]) == (100, 0, 0, True)
