"""The examples that need no server count what their makers made, and prove it."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.examples import EXAMPLES, Example

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def session(spark: SparkSession) -> None:
    assert spark.getActiveSession() is not None  # the commands get it


def test_an_access_log_becomes_counts_by_page_and_a_dashboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = Example.copied("nginx", tmp_path, monkeypatch)
    *_, proof, report = example.run()
    expected = example.expected
    assert f"{expected['lines']:,} lines, every one exactly once" in proof
    counted: Counter[tuple[str, str]] = Counter()
    for row in example.rows("gold/by_page"):
        counted[row["path"], row["status"]] += row["requests"]
    assert sorted([*key, count] for key, count in counted.items()) == expected["requests"]
    assert len(example.rows("silver/quarantine")) == expected["refused"] == 3
    assert "Every link holds" in report
    assert "<html" in (example.place / "data/dashboard.html").read_text()
    outage = {row["log_time"].hour for row in example.rows("gold/by_page") if row["status"] in ("502", "504")}
    assert outage == {17}, "18:10 to 18:35 at +0100"


def test_the_services_of_a_cluster_are_counted_apart_and_cut_lines_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = Example.copied("cluster", tmp_path, monkeypatch)
    *_, proof = example.run()
    assert "every one exactly once" in proof
    counted: Counter[tuple[str, str]] = Counter()
    longest: Counter[str] = Counter()
    for row in example.rows("gold/by_service"):
        counted[row["service"], row["level"]] += row["lines"]
        longest[row["service"]] = max(longest[row["service"]], row["longest"])
    expected = example.expected
    assert sorted([*key, count] for key, count in counted.items()) == expected["records"]
    assert longest == expected["longest"], "a message that was cut is whole"
    assert example.rows("silver/quarantine") == []
    assert expected["lines"] > counted.total(), "some lines were cut"


@pytest.mark.parametrize("name", ["nginx", "java", "cluster"])
def test_every_example_has_its_maker_its_configuration_and_one_command(name: str) -> None:
    for file in ("make.py", "conf.yaml", "run.sh"):
        assert (EXAMPLES / name / file).is_file()
        assert f"({name}/{file})" in (EXAMPLES / "README.md").read_text()
    assert (EXAMPLES / name / "run.sh").stat().st_mode & 0o111
