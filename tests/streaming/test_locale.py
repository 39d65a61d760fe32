"""The language of the machine changes nothing: digits, names of months and the names of Delta's files stay the same."""

import pytest

from tests.support.house import House

pytestmark = pytest.mark.chain


@pytest.mark.parametrize(
    ("language", "country"),
    [("ar", "EG"), pytest.param("fa", "IR", marks=pytest.mark.long), pytest.param("mr", "IN", marks=pytest.mark.long)],
)
def test_a_machine_whose_language_has_other_digits_counts_the_same(
    house: House, monkeypatch: pytest.MonkeyPatch, language: str, country: str
) -> None:
    lines = [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:08 INFO two", b"broken"]
    house.write("a.log", *lines)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.language={language} -Duser.country={country}")
    process = house.start("run", "--once")
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert "bronze: batch 0, 3 rows" in said
    house.must_be(lines)
