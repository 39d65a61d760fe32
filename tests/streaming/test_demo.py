"""The demo tells its story to the end, and its proof holds."""

import json

import pytest

from tests.house import House

pytestmark = pytest.mark.chain


def test_the_demo_s_proof_holds_in_any_time_zone(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    said = house.call("demo", "--keep", str(house.root / "kept"), "--json")
    assert "40 days late" in said
    assert "2017-06-20 13:50" in said
    proof = json.loads(said.splitlines()[-1])["proof"]
    assert len(proof) == 7
    assert all(proof.values())
