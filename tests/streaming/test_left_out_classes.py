"""On a Spark that our Java classes do not fit, a run goes the slower way and counts the same; `doctor` says so."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from oncelake.common.spark import compiled
from tests.support.house import House, events
from tests.support.own_jar import NAMED, WHY, cache_without

pytestmark = pytest.mark.chain

LINES = [b"2017-07-30 14:09:08 ERROR one", b"2017-07-30 14:10:00 INFO two", b"broken"]


@dataclass(frozen=True)
class Way:
    """What a Spark lacks, and how a run then writes silver with a setting of `run.small_batch`."""

    missing: tuple[str, ...]
    small_batch: str
    engine: str


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(Way(NAMED, "32 MiB", "Apache-Spark"), id="all"),
        pytest.param(Way(("DirectFileSystem", "FewRows", "PreparedPlan"), "1 B", "delta-rs"), id="some"),
    ],
)
def test_a_run_without_some_classes_counts_the_same_and_doctor_names_them(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    cache_without(way.missing, tmp_path / "cache", monkeypatch)
    house.sets.append(f"run.small_batch={way.small_batch}")
    house.write("a.log", *LINES)
    house.call("run", "--once")
    house.must_be(LINES)
    assert committed_by(house.table("silver/access_log")).startswith(way.engine)
    assert "holds" in house.call("prove")
    (result,) = events(house.call("doctor", "--json"))
    named = [text for text in result["warnings"] if "Java class " in text]
    assert named == [
        f"oncelake's Java class {name} is not used ({WHY}): {compiled.CLASSES[name]}"
        for name in NAMED
        if name in way.missing
    ]


def committed_by(table: Path) -> str:
    """Return the engine that wrote a table's newest commit."""
    newest = max((table / "_delta_log").glob("*.json"))
    actions = (json.loads(line) for line in newest.read_text().splitlines())
    (engine,) = (action["commitInfo"]["engineInfo"] for action in actions if "commitInfo" in action)
    return str(engine)
