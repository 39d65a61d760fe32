"""A gold table gets another declaration: it is built beside the old one, and takes its place in one commit."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, LockedError, StageError, StateError
from oncelake.exactly_once.files import LocalFiles
from tests.support.crashing import crashed
from tests.support.house import House, until
from tests.support.lakes import LINES, MORE, Filled, put_back

pytestmark = pytest.mark.spark

CHANGED: dict[str, Any] = {"where": "level <> 'INFO'", "every": "1 hour", "by": {"level": "level"}}
CHANGED["measures"] = {"lines": "count", "last": "max(log_time)"}
TABLE = "gold/error_log"


@pytest.fixture
def house(filled: Filled, spark: SparkSession) -> House:
    return filled.again(spark)


def change(house: House, **others: Any) -> None:
    """Declare error_log in another way."""
    house.sets += [f"gold.error_log={json.dumps({**CHANGED, **others})}"]


def counted(house: House) -> dict[tuple[datetime, str], int]:
    rows = house.rows(TABLE)
    assert len({(row["log_time"], row["level"]) for row in rows}) == len(rows)
    return {(row["log_time"].replace(tzinfo=UTC), row["level"]): row["lines"] for row in rows}


def expected(lines: list[bytes]) -> dict[tuple[datetime, str], int]:
    """Count the lines of the changed declaration in plain Python."""
    found: dict[tuple[datetime, str], int] = {}
    for line in lines:
        day, _, rest = line.decode().partition(" ")
        time, _, rest = rest.partition(" ")
        level = rest.partition(" ")[0].upper()
        if day[:2] == "20" and level not in ("INFO", ""):
            at = datetime.fromisoformat(f"{day} {time[:2]}:00:00").replace(tzinfo=UTC)
            found[at, level] = found.get((at, level), 0) + 1
    return found


def proven(house: House, spark: SparkSession) -> None:
    assert house.doubts(spark) == []
    assert [str(link) for link in house.lakehouse(spark).prove(full=True).links if not link.holds] == []


def test_a_changed_table_is_built_beside_the_old_one_and_replaces_it(house: House, spark: SparkSession) -> None:
    old, before = house.table_id(TABLE), house.versions()[TABLE]
    change(house)
    with pytest.raises(
        ConfigError, match=r"gold.error_log is declared as .* run: oncelake rebuild gold.error_log|To b"
    ):
        house.run(spark)
    assert "build gold.error_log from silver.access_log beside" in house.tell(
        spark, "rebuild", "gold.error_log", "--dry-run"
    )
    assert house.versions()[TABLE] == before
    said = house.rebuild(spark, "gold.error_log")
    assert any("is now the new table" in each for each in said)
    assert house.versions()[TABLE] == before + 1
    assert house.table_id(TABLE) != old
    assert counted(house) == expected(LINES)
    assert not (house.lake / "_beside" / "gold.error_log").exists()
    proven(house, spark)

    assert house.run(spark) == []
    house.write("more.log", *MORE)
    reports = {each.stage: each.batch_id for each in house.run(spark)}
    assert reports["gold.error_log"] == 1
    assert counted(house) == expected(LINES + MORE)
    proven(house, spark)
    (span,) = house.lakehouse(spark).history("gold.error_log")
    assert (span.batches, span.rules is not None) == ((0, 1), True)

    house.sets = []
    house.rebuild(spark, "gold.error_log")
    house.must_be(LINES + MORE)
    proven(house, spark)
