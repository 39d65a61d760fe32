"""The balance compares tables over the same versions of bronze."""

from pathlib import Path

import pytest

from oncelake.common.lake import QUARANTINE, SILVER, Table
from oncelake.exactly_once.span import Span
from oncelake.proof.balance import same_lines
from oncelake.proof.pin import Limits, from_batch, from_beginning, pin
from tests.support.house import House
from tests.support.memory import MemoryFiles, commit, metadata


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Make bronze of four batches; silver of three, each over one version of bronze, two of them in quarantine too."""
    files = MemoryFiles()
    for name, batches in (
        ("bronze/access_log", (0, 1, 2, 3)),
        ("silver/access_log", (0, 1, 2)),
        ("silver/quarantine", (0, 2)),
    ):
        commit(files, name, 0, operation="CREATE TABLE")
        for index, batch in enumerate(batches):
            commit(files, name, index + 1, metadata(batch, name.replace("/", "."), rows=10 * index))
        files.texts[f"{name}/_delta_log/{len(batches):020d}.crc"] = '{"metadata":{"id":"source-id"}}'
    house = House(tmp_path)
    for name, text in files.texts.items():
        (house.lake / name).parent.mkdir(parents=True, exist_ok=True)
        (house.lake / name).write_text(text)
    return house


def span(house: House, table: Table, after: int | None = None) -> Span:
    chain = house.chain()
    begin = from_beginning if after is None else from_batch(after)
    pinned = pin(table, chain.lake.at(table), chain.commit_log(table), Limits(begin))
    assert pinned
    return pinned.span


def weigh(house: House, after: int | None = None) -> tuple[list[list[int]], list[bool]]:
    """Return the batches of bronze, silver and quarantine that are compared, and whether all rows are."""
    silver = span(house, SILVER, after)
    quarantine = span(house, QUARANTINE, silver.start.batch_id if silver.start else None)
    same = same_lines(house.chain(), silver, quarantine)
    spans: list[Span] = [*same.bronze.values(), same.silver, *same.beside]
    return [[batch.metadata.batch_id for batch in one.commits] for one in spans], [span.whole for span in spans]


def clean_up(house: House, table: str, below: int) -> None:
    for version in range(below):
        (house.lake / table / "_delta_log" / f"{version:020d}.json").unlink()


def test_bronze_is_limited_to_what_silver_has_read(house: House) -> None:
    assert weigh(house) == ([[0, 1], [0, 1, 2], [0, 2]], [True, True, True])
    spans = same_lines(house.chain(), span(house, SILVER), span(house, QUARANTINE)).bronze
    bronze = spans[None]
    assert (bronze.commits[-1].version, bronze.whole) == (2, True)


def test_bronze_begins_where_silver_begins(house: House) -> None:
    assert weigh(house, after=1) == ([[1], [2], [2]], [False, False, False])


@pytest.mark.parametrize("after", [None, 0])
def test_all_rows_are_compared_if_commits_of_bronze_are_gone(house: House, after: int | None) -> None:
    clean_up(house, "bronze/access_log", 2)
    batches = [[1], [0, 1, 2], [0, 2]] if after is None else [[1], [1, 2], [2]]
    assert weigh(house, after) == (batches, [True, True, True])


@pytest.mark.parametrize("table", ["silver/access_log", "silver/quarantine"])
def test_all_rows_are_compared_if_commits_of_silver_or_quarantine_are_gone(house: House, table: str) -> None:
    clean_up(house, table, 2)
    silver = [0, 1, 2] if table.endswith("quarantine") else [1, 2]
    assert weigh(house) == ([[0, 1], silver, [2]], [True, True, True])


def test_bronze_begins_with_the_first_commit_that_silver_read_if_older_ones_are_gone(house: House) -> None:
    clean_up(house, "bronze/access_log", 2)
    assert weigh(house, after=1) == ([[1], [2], [2]], [False, False, False])


def test_a_bronze_whose_version_is_gone_is_read_without_the_batches_that_silver_has_not_read(house: House) -> None:
    clean_up(house, "bronze/access_log", 4)
    same = same_lines(house.chain(), span(house, SILVER), span(house, QUARANTINE))
    bronze = same.bronze[None]
    assert (bronze.version, len(bronze.commits), bronze.whole, bronze.later) == (4, 0, True, frozenset({1}))
