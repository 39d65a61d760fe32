"""Parquet files in several stores: each store ends right, whichever of them fails, and no reader sees half a batch."""

import json
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from oncelake.common.errors import ConfigError, OvertakenError, TargetAwayError, TargetError
from oncelake.serving.sink import LOG_TIME, Row, SinkBatch, SinkColumn, SinkRows, SinkTable
from oncelake.serving.sinks.parquet import ParquetStores

TABLE = SinkTable(
    "by_level",
    "_key",
    (
        SinkColumn("_key", "text"),
        SinkColumn(LOG_TIME, "time"),
        SinkColumn("level", "text"),
        SinkColumn("lines", "integer", never_null=True, merge="count"),
    ),
)


def row(key: str, day: int, level: str, lines: int) -> Row:
    return key, datetime(2026, 1, day), level, lines


def batch(version: int) -> SinkBatch:
    return SinkBatch("serving.by_level", version, "query", version - 1, after=str(version))


def write(sink: ParquetStores, version: int, *rows: Row) -> None:
    sink.write(TABLE, batch(version), SinkRows(len(rows), lambda _: iter([list(rows)] if rows else [])))


def stores(root: Path, *names: str, **options: str) -> ParquetStores:
    return ParquetStores("by_level", {**{f"store.{name}": str(root / name) for name in names}, **options})


def read_as_documented(directory: Path) -> list[Row]:
    """Read a store as docs/sinks.md says: the newest manifest, and the files that it names."""
    newest = max((directory / "_manifests").glob("[0-9]*.json"))
    files = json.loads(newest.read_text())["files"].values()
    tables = [pq.read_table((directory / name).open("rb")).to_pylist() for name in files]
    return sorted(tuple(each[name] for name in TABLE.names) for table in tables for each in table)


def test_every_store_gets_all_rows_and_a_row_is_replaced_by_its_key(tmp_path: Path) -> None:
    sink = stores(tmp_path, "a", "b")
    write(sink, 1, row("x", 1, "ERROR", 1), row("y", 2, "INFO", 2))
    write(sink, 2, row("x", 1, "ERROR", 5))
    wanted = [row("x", 1, "ERROR", 5), row("y", 2, "INFO", 2)]
    for name in ("a", "b"):
        assert read_as_documented(tmp_path / name / "by_level") == wanted
    assert list(sink.read(TABLE)) == wanted


def test_rows_are_split_by_a_column(tmp_path: Path) -> None:
    sink = stores(tmp_path, "ERROR", "other", by="level")
    write(sink, 1, row("x", 1, "ERROR", 1), row("y", 1, "INFO", 2), row("z", 1, "other", 3))
    assert [each[0] for each in read_as_documented(tmp_path / "ERROR/by_level")] == ["x"]
    assert [each[0] for each in read_as_documented(tmp_path / "other/by_level")] == ["y", "z"]
    assert [each[0] for each in sink.read(TABLE)] == ["x", "y", "z"]


def test_a_value_without_a_store_is_refused_before_a_store_is_written(tmp_path: Path) -> None:
    sink = stores(tmp_path, "ERROR", by="level")
    with pytest.raises(ConfigError, match=r"'INFO', and no store has this name\. Add serving\.options\.store\.other"):
        write(sink, 1, row("x", 1, "ERROR", 1), row("y", 1, "INFO", 2))
    assert sink.last() is None
    assert not (tmp_path / "ERROR").exists()


def test_a_store_that_fails_does_not_double_the_one_before_it(tmp_path: Path) -> None:
    """The question of foreachBatch: one store was written, the next one fails, and the batch is replayed."""
    sink = stores(tmp_path, "a", "b")
    write(sink, 1, row("x", 1, "ERROR", 1))
    (tmp_path / "b").rename(tmp_path / "away")
    (tmp_path / "b").write_text("a file: this disk is gone")
    with pytest.raises(TargetAwayError, match="store b is unavailable"):
        write(sink, 2, row("x", 1, "ERROR", 2), row("y", 1, "ERROR", 9))
    (tmp_path / "b").unlink()
    (tmp_path / "away").rename(tmp_path / "b")
    first = sorted(path.name for path in (tmp_path / "a/by_level/_manifests").iterdir())
    last = sink.last()
    assert last is not None
    assert last.version == 1, "the store that is behind decides"
    assert list(sink.read(TABLE)) == [row("x", 1, "ERROR", 1)], "as after the last batch that all stores have"
    write(sink, 2, row("x", 1, "ERROR", 2), row("y", 1, "ERROR", 9))
    assert sorted(path.name for path in (tmp_path / "a/by_level/_manifests").iterdir()) == first
    for name in ("a", "b"):
        assert read_as_documented(tmp_path / name / "by_level") == [row("x", 1, "ERROR", 2), row("y", 1, "ERROR", 9)]


def test_a_batch_that_is_not_the_next_one_is_refused(tmp_path: Path) -> None:
    sink = stores(tmp_path, "a")
    write(sink, 1, row("x", 1, "ERROR", 1))
    for version in (3, 0):
        with pytest.raises(OvertakenError):
            write(sink, version, row("x", 1, "ERROR", 7))
    other = SinkBatch("serving.by_level", 1, "another query", 0, after="1")
    with pytest.raises(OvertakenError):
        sink.write(TABLE, other, SinkRows(0, lambda _: iter([])))
    assert list(sink.read(TABLE)) == [row("x", 1, "ERROR", 1)]


def test_two_processes_cannot_create_the_same_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, other = stores(tmp_path, "a"), stores(tmp_path, "a")
    write(sink, 1, row("x", 1, "ERROR", 1))
    store, newest = sink.stores["a"], sink.stores["a"].newest()
    write(other, 2, row("x", 1, "ERROR", 2))
    monkeypatch.setattr(type(store), "newest", lambda _: newest)  # as one that looked before the other wrote
    with pytest.raises(OvertakenError):
        write(sink, 2, row("x", 1, "ERROR", 3), row("y", 1, "ERROR", 1))
    monkeypatch.undo()
    assert list(sink.read(TABLE)) == [row("x", 1, "ERROR", 2)]


def test_old_versions_and_files_without_a_manifest_are_removed(tmp_path: Path) -> None:
    sink = stores(tmp_path, "a", keep="2")
    at = tmp_path / "a/by_level"
    write(sink, 1, row("x", 1, "ERROR", 1))
    (at / "2026-01-01.1.left-by-a-kill.parquet").write_bytes(b"")
    for version in range(2, 6):
        write(sink, version, row("x", 1, "ERROR", version))
    assert len(list((at / "_manifests").iterdir())) == 2
    assert sorted(path.name.split(".")[1] for path in at.glob("*.parquet")) == ["4", "5"]
    assert list(sink.read(TABLE)) == [row("x", 1, "ERROR", 5)]


def test_a_rebuild_empties_every_store_and_its_old_batches_are_refused(tmp_path: Path) -> None:
    sink = stores(tmp_path, "a", "b")
    write(sink, 1, row("x", 1, "ERROR", 1))
    mark = SinkBatch("serving.by_level", 2)
    sink.empty(mark)
    sink.empty(mark)
    assert (sink.last(), list(sink.read(TABLE))) == (mark, [])
    with pytest.raises(OvertakenError):
        write(sink, 2, row("x", 1, "ERROR", 1))
    write(sink, 3, row("y", 1, "ERROR", 1))
    assert list(sink.read(TABLE)) == [row("y", 1, "ERROR", 1)]


def test_stores_that_differ_are_found_when_they_are_read(tmp_path: Path) -> None:
    sink = stores(tmp_path, "a", "b")
    write(sink, 1, row("x", 1, "ERROR", 1))
    write(stores(tmp_path / "elsewhere", "a"), 1, row("x", 1, "ERROR", 2))
    (ours,) = (tmp_path / "b/by_level").glob("*.parquet")
    (other,) = (tmp_path / "elsewhere/a/by_level").glob("*.parquet")
    ours.write_bytes(other.read_bytes())
    with pytest.raises(TargetError, match="store b holds other rows than store a"):
        sink.read(TABLE)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, r"has no store\.NAME"),
        ({"stores": "/a"}, r"accepted are store\.NAME, by and keep"),
        ({"store.a": "s3://bucket/a"}, "Arrow offers that for no object store"),
        ({"store.a": "/x", "store.b": "/x/"}, "names one directory for two stores"),
        ({"store.a": "/x", "keep": "1"}, "at least 2"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ParquetStores("by_level", options)


@pytest.mark.parametrize("by", ["lines", "_key", "nothing"])
def test_rows_are_split_only_by_a_key_which_never_changes(tmp_path: Path, by: str) -> None:
    with pytest.raises(ConfigError, match=r"must be a key of gold\.by_level, accepted: log_time, level"):
        stores(tmp_path, "other", by=by).check(TABLE)
