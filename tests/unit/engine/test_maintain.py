"""During a busy run, maintenance retries a conflict, and a table that fails does not stop the others."""

import re
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.engine.maintain import MaintenanceResult, maintain
from oncelake.exactly_once.write import TRIES
from tests.support.house import House
from tests.support.memory import MemoryFiles, commit, metadata

TABLES = ["bronze.access_log", "silver.access_log", "silver.quarantine", "gold.error_log", "gold.log_volume"]


class Spark:
    """A Spark whose statements fail a given number of times, by their first words and their table."""

    def __init__(self, **failing: tuple[int, str]) -> None:
        self.failing = failing
        self.asked: Counter[str] = Counter()

    def sql(self, statement: str) -> "Spark":
        verb, table = re.match(r"(\w+)(?: TABLE)? delta\.`.*/(\w+/\w+)`", statement).groups()  # type: ignore[union-attr]
        self.asked[f"{verb} {table}"] += 1
        times, said = self.failing.get(f"{verb}_{table.replace('/', '_')}", (0, ""))
        if self.asked[f"{verb} {table}"] <= times:
            raise RuntimeError(said)
        return self

    def select(self, *_: str) -> "Spark":
        return self

    def collect(self) -> list[tuple[int, int]]:
        return [(4, 1)]


@pytest.fixture
def house(house: House, monkeypatch: pytest.MonkeyPatch) -> House:
    """Make a lake with a batch in every table."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    files = MemoryFiles()
    for name in TABLES:
        commit(files, str(house.lake / name.replace(".", "/")), 1, metadata(0, name))
    for path, text in files.texts.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    return house


def tidied(house: House, spark: Any) -> dict[str, MaintenanceResult]:
    return {result.table: result for result in maintain(house.chain(), spark)}


@pytest.mark.parametrize(
    "conflict", ["ConcurrentDeleteReadException", "ConcurrentDeleteDeleteException", "MetadataChangedException"]
)
@pytest.mark.parametrize("verb", ["OPTIMIZE", "VACUUM"])
def test_a_conflict_with_a_batch_is_retried(house: House, verb: str, conflict: str) -> None:
    spark = Spark(**{f"{verb}_gold_error_log": (TRIES - 1, f"{conflict}: files were deleted by a concurrent update")})
    done = tidied(house, spark)
    assert [name for name, result in done.items() if result.failed] == []
    assert (done["gold.error_log"].compacted, spark.asked[f"{verb} gold/error_log"]) == (4, TRIES)


def test_a_table_that_is_always_busy_is_named_and_does_not_stop_the_others(house: House) -> None:
    spark = Spark(OPTIMIZE_silver_access_log=(99, "ConcurrentDeleteDeleteException"))
    done = tidied(house, spark)
    assert list(done) == TABLES
    assert {name: result.compacted for name, result in done.items()} == {
        **dict.fromkeys(TABLES, 4),
        "silver.access_log": 0,
    }
    assert str(done["silver.access_log"]) == (
        "silver.access_log: NOT DONE: all 5 tries conflicted with a batch; run it again when the chain has less to do"
    )
    assert spark.asked["OPTIMIZE silver/access_log"] == TRIES


def test_a_permanent_error_is_not_retried_and_does_not_stop_the_others(house: House) -> None:
    spark = Spark(VACUUM_bronze_access_log=(99, "Permission denied\nat java"))
    done = tidied(house, spark)
    assert done["bronze.access_log"].failed == "Permission denied"
    assert spark.asked["VACUUM bronze/access_log"] == 1
    assert sum(result.compacted for result in done.values()) == 16


@pytest.mark.parametrize(("times", "code"), [(TRIES - 1, 0), (99, 1)])
def test_the_command_fails_only_if_a_table_failed(
    house: House, monkeypatch: pytest.MonkeyPatch, times: int, code: int
) -> None:
    spark = Spark(OPTIMIZE_gold_error_log=(times, "ConcurrentDeleteReadException"))
    monkeypatch.setattr("oncelake.engine.open_lake.spark_session", lambda *_, **__: nullcontext(spark))
    result = CliRunner().invoke(app, ["maintain", *house.options])
    assert result.exit_code == code, result.output
    assert ("gold.error_log: NOT DONE" in result.output) == bool(code)
    assert "gold.log_volume: 4 files became 1" in result.output
