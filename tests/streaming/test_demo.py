"""The demo runs to its end, and its proof holds."""

import json

import pytest

from tests.support.house import House
from tests.support.readme import block, must_print

pytestmark = pytest.mark.chain


def test_the_demo_prints_what_the_page_shows_in_any_time_zone(
    shipped_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    *told, last = shipped_house.call("demo", "--keep", str(shipped_house.root / "kept"), "--json").splitlines()
    proof = json.loads(last)["proof"]
    assert len(proof) == 7
    assert all(proof.values())
    must_print(
        block("The demo", "text").text.splitlines(),
        "\n".join(told).replace(str(shipped_house.root / "kept"), "/tmp/oncelake-demo"),
    )
