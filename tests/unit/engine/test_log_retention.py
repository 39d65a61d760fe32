"""A quiet table that others maintain keeps the commit of its last batch, and a busy one keeps no long log for it."""

import json
from pathlib import Path
from typing import Any

import pytest

from oncelake.engine.before_spark import nothing_new
from oncelake.engine.log_retention import fading, keep_logs
from tests.support.house import House
from tests.support.memory import MemoryFiles, commit, metadata

DAY = 24 * 3600 * 1000
KEPT = {"delta.logRetentionDuration": "interval 36500 days"}
OWN = {"delta.logRetentionDuration": "interval 60 days"}


class Spark:
    """A Spark that keeps the statements that it is given."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def sql(self, statement: str) -> None:
        self.statements.append(statement)


@pytest.fixture
def log(house: House) -> Path:
    """Return the log of a quarantine with one batch."""
    files = MemoryFiles()
    commit(files, str(house.lake / "silver/quarantine"), 1, metadata(0, "silver.quarantine"))
    for path, text in files.texts.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    return house.lake / "silver/quarantine/_delta_log"


def maintained(log: Path, days: int, properties: dict[str, str]) -> None:
    """Let others commit to the table some days after its batch."""
    create(log, properties)
    for version in (2, 3):
        info = {"operation": "VACUUM END", "timestamp": 1_000 + days * DAY, "operationParameters": {}}
        (log / f"{version:020}.json").write_text(json.dumps({"commitInfo": info}))


def create(log: Path, properties: dict[str, str]) -> None:
    first = {"metaData": {"id": "quarantine", "configuration": properties, "schemaString": "{}"}}
    (log / f"{0:020}.json").write_text(json.dumps(first))


@pytest.mark.parametrize(
    ("days", "properties", "fades"), [(16, {}, True), (3, {}, False), (16, KEPT, False), (16, OWN, False)]
)
def test_the_log_of_a_quiet_table_that_others_maintain_is_kept_before_its_last_batch_is_forgotten(
    house: House, log: Path, days: int, properties: dict[str, str], fades: bool
) -> None:
    maintained(log, days, properties)
    spark: Any = Spark()
    sentences = fading(house.chain())
    assert keep_logs(house.chain(), spark) == sentences
    said = "silver.quarantine: its last batch is of 1970-01-01 00:00:01 UTC, and other commits go on, up to VACUUM END"
    assert [sentence.startswith(said) for sentence in sentences] == [True] * fades
    change = "SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 36500 days')"
    assert spark.statements == [f"ALTER TABLE delta.`{log.parent}` {change}"] * fades


@pytest.mark.parametrize(("properties", "released"), [(KEPT, True), (OWN, False), ({}, False)])
@pytest.mark.parametrize("days", [None, 3])
def test_a_log_that_was_kept_is_released_by_a_new_batch(
    house: House, log: Path, days: int | None, properties: dict[str, str], released: bool
) -> None:
    create(log, properties)
    if days is not None:  # others clean up after the batch as well, each night
        maintained(log, days, properties)
    spark: Any = Spark()
    assert keep_logs(house.chain(), spark) == []
    change = "UNSET TBLPROPERTIES ('delta.logRetentionDuration')"
    assert spark.statements == [f"ALTER TABLE delta.`{log.parent}` {change}"] * released


def test_a_log_that_cannot_be_kept_is_named_and_stops_no_run(
    house: House, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maintained(log, 16, {})
    spark: Any = Spark()

    def refuse(statement: str) -> None:
        raise RuntimeError(f"no right: {statement[:11]}")

    monkeypatch.setattr(spark, "sql", refuse)
    _, sentence = keep_logs(house.chain(), spark)
    assert sentence.startswith("silver.quarantine: no right: ALTER TABLE. Run: ALTER TABLE delta.`")


def test_a_batch_is_found_below_any_number_of_commits_by_others(house: House, log: Path) -> None:
    maintained(log, 1, {})
    for version in range(4, 300):
        info = {"operation": "OPTIMIZE", "timestamp": 1_000 + version * DAY, "operationParameters": {}}
        (log / f"{version:020}.json").write_text(json.dumps({"commitInfo": info}))
    assert len(fading(house.chain())) == 1


@pytest.mark.parametrize("days", [3, 16])
def test_a_run_without_new_lines_starts_spark_to_keep_a_log(
    house: House, log: Path, days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelake.engine.before_spark.check_tables", lambda _: None)
    maintained(log, days, {})
    assert nothing_new(house.chain(), []) == (days == 3)
