"""A commit of delta-rs gets the version checksum that Delta's protocol describes, or none."""

import json
from pathlib import Path
from typing import Any

import deltalake
import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake

from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.version_checksum import VersionChecksums


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a table with a version of each kind: created, appended to three times, merged, compacted."""
    rows = pyarrow.table({"n": pyarrow.array([1, 2, 3], pyarrow.int64())})
    DeltaTable.create(tmp_path, deltalake.Schema.from_arrow(rows.schema))
    for _ in range(3):
        write_deltalake(tmp_path, rows, mode="append")
    merge = DeltaTable(tmp_path).merge(rows.slice(0, 1), "t.n = b.n + 100", source_alias="b", target_alias="t")
    merge.when_matched_update({"n": "b.n"}).when_not_matched_insert_all().execute()
    DeltaTable(tmp_path).optimize.compact()
    return tmp_path


def path(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.crc"


def write(table: Path, *versions: int) -> None:
    for version in versions:
        checksums(table).write(version)


def checksums(table: Path) -> VersionChecksums:
    return VersionChecksums(DeltaLog(LocalFiles(), str(table)), LocalFiles())


def read(table: Path, version: int) -> dict[str, Any]:
    return dict(json.loads(path(table, version).read_text()))


def metadata(table: Path) -> dict[str, Any]:
    lines = (table / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    return next(dict(json.loads(line)["metaData"]) for line in lines if "metaData" in json.loads(line))


def test_the_sums_are_those_of_the_table(table: Path) -> None:
    versions = range(DeltaTable(table).version() + 1)
    write(table, *versions)
    for version in versions:
        sizes = pyarrow.table(DeltaTable(table, version=version).get_add_actions())["size_bytes"].to_pylist()
        found = read(table, version)
        assert (found["numFiles"], found["tableSizeBytes"]) == (len(sizes), sum(sizes)), version
        assert (found["numMetadata"], found["numProtocol"]) == (1, 1)
        assert found["metadata"] == metadata(table)
        assert found["protocol"] == {"minReaderVersion": 1, "minWriterVersion": 2}
    assert len(sizes) == 1, "the last version is compacted"


def test_versions_without_a_checksum_are_counted_in_the_next(table: Path) -> None:
    newest = DeltaTable(table).version()
    write(table, *range(newest + 1))
    whole = read(table, newest)
    for version in range(1, newest + 1):
        path(table, version).unlink()
    write(table, newest)
    assert read(table, newest) == whole
    assert not path(table, newest - 1).exists()


def test_changed_properties_are_in_the_next_checksum(table: Path) -> None:
    DeltaTable(table).alter.set_table_properties({"delta.checkpointInterval": "7"})
    newest = DeltaTable(table).version()
    write(table, newest)
    assert read(table, newest)["metadata"]["configuration"]["delta.checkpointInterval"] == "7"


def test_a_checksum_is_never_overwritten(table: Path) -> None:
    path(table, 1).write_text("of another writer")
    write(table, 1)
    assert path(table, 1).read_text() == "of another writer"
    assert [each.name for each in (table / "_delta_log").iterdir() if each.name.startswith(".")] == []


@pytest.mark.parametrize(
    "action",
    [
        '{"add": {"path": "a", "size": 1, "deletionVector": {"storageType": "u"}}}',
        '{"remove": {"path": "a"}}',
        '{"commitInfo": {"inCommitTimestamp": 1}}',
        '{"domainMetadata": {}}',
        "{",
    ],
)
def test_a_commit_that_cannot_be_counted_gets_none(table: Path, action: str) -> None:
    with (table / "_delta_log" / f"{1:020}.json").open("a") as file:
        file.write(f"\n{action}\n")
    write(table, 0, 1, 2)
    assert path(table, 0).exists()
    assert not path(table, 1).exists()
    assert not path(table, 2).exists()


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", "5", '"text"', '{"tableSizeBytes":"1","numFiles":1}'])
def test_a_broken_checksum_is_not_continued(table: Path, text: str) -> None:
    path(table, 1).write_text(text)
    write(table, 2)
    assert not path(table, 2).exists()


def test_a_log_that_begins_later_gets_none(table: Path) -> None:
    (table / "_delta_log" / f"{0:020}.json").unlink()
    write(table, 3)
    assert not path(table, 3).exists()


def test_old_checksums_are_removed(table: Path) -> None:
    write(table, 0, 1, 2, 3)
    checksums(table).remove(-5, 3)
    assert [version for version in range(4) if path(table, version).exists()] == [3]
    assert DeltaTable(table).to_pyarrow_table().num_rows == 10
