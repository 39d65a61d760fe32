"""A new project that is begun from a sample runs at once, with the format and the suite that the sample shows."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.engine.configuration import configured
from oncelake.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

# no shipped format fits
LINES = [f"<26.11.2026 10:{at // 60:02}:{at % 60:02}> (till-{at % 3}) Err: card {at} refused" for at in range(200)]


@pytest.fixture
def logs(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory of logs beside the working directory."""
    del spark
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/shop.log").write_text("".join(f"{line}\n" for line in LINES))
    return tmp_path / "logs"


def init(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["init", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_project_from_a_sample_counts_its_lines(logs: Path, spark: SparkSession) -> None:
    said = init("lake", "--from", str(logs / "shop.log"))
    assert said.splitlines()[0] == f"100.0% of 200 lines of {logs}/shop.log parse as shop"
    assert said.splitlines()[-1] == "next: cd lake && oncelake run --once"
    conf = Path("lake/conf/local.yaml")
    settings, _ = configured(conf, [])
    source = settings.by_name["access_log"]
    assert (source.kind, source.path, source.format) == ("tail", str(logs), "shop")
    warned: list[str] = []
    with Lakehouse.open(
        conf, ["gold.log_volume={every: 1 day, measures: {n: count}}"], spark=spark, warn=warned.append
    ) as lake:
        lake.run(once=True)
        assert lake.table("silver.access_log").count() == len(LINES)
        assert lake.table("silver.access_log").where("size(warnings) > 0").count() == 0
        assert sum(row["log_count"] for row in lake.table("gold.error_log").collect()) == len(LINES)
    assert warned == []


def test_a_known_format_is_named_and_its_fields_get_rules(logs: Path) -> None:
    (logs / "shop.log").unlink()
    (logs / "app.log").write_text(
        "".join(f"2026-11-25 10:00:00,123 INFO  [worker-{at % 2}] c.e.App - started\n" for at in range(100))
    )
    output = json.loads(init("lake", "--from", str(logs), "--json"))
    assert output["format"] == "java"
    assert not Path("lake/conf/formats").exists()
    suite = json.loads(Path("lake/conf/expectations/silver.access_log.json").read_text())
    rules = {(expectation["kwargs"]["column"], expectation["severity"]) for expectation in suite["expectations"]}
    assert ("fields.thread", "warning") in rules
    assert ("level", "critical") in rules
    assert ("message", "critical") not in rules
