"""Bronze reads each file whatever its date, and checks each batch against its plan; without Spark."""

from pathlib import Path
from typing import cast

import pyarrow
import pytest
from pyspark.sql import Column, DataFrame, SparkSession

from oncelake.bronze.settings import SourceSettings
from oncelake.common.errors import ReceiptError, SourceError
from oncelake.common.lake import BRONZE
from oncelake.common.spark import rows as given_rows
from oncelake.common.spark.rows import BatchRows, Collected, Count
from oncelake.engine.configuration import load
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.write import Written
from oncelake.sources.files import kind as files
from oncelake.sources.files.kind import FilesKind
from oncelake.sources.files.spark_list import list_texts
from tests.support.memory import metadata, offsets


class Reader:
    """A Spark that records the options of its stream."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    @property
    def readStream(self) -> "Reader":  # noqa: N802 - Spark's name
        return self

    def format(self, kind: str) -> "Reader":
        self.told["format"] = kind
        return self

    def option(self, key: str, value: str) -> "Reader":
        return self.options(**{key: value})

    def options(self, **told: str) -> "Reader":
        self.told |= told
        return self

    def load(self, path: str) -> "Reader":
        self.told["path"] = path
        return self


class Lines:
    """A batch's lines, with counts that are known in advance."""

    sparkSession = None  # noqa: N815 - Spark's name

    def observe(self, *_: object) -> "Lines":
        return self


class Aggregate:
    """A column that nothing computes."""

    def alias(self, _: str) -> "Aggregate":
        return self


class Counted:
    """What Spark counts of them."""

    def __init__(self) -> None:
        self.get = {"rows": 2, "bytes": 4}


class Taken:
    """A batch of two files of one line each, of which a table gets this many rows."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.appended: list[str] = []
        self.masked: dict[str, int] = {}

    def holds(self, _: object) -> None:
        return None

    def seems_small(self, _: object) -> bool:
        return False

    def metadata(self, _: object) -> CommitMetadata:
        return metadata(0, "bronze.access_log", after=offsets({"logOffset": 0}))

    def append(self, table: object, _: object) -> Written:
        self.appended.append(str(table))
        return Written(ChainCommit(1, "WRITE", {}, {"numOutputRows": str(self.count)}, 0, self.metadata(table)))


class Small(Taken):
    """A small batch of these lines."""

    def __init__(self, *lines: bytes) -> None:
        super().__init__(len(lines))
        self.lines = lines

    def seems_small(self, _: object) -> bool:
        return True

    def rows(self, _: object) -> BatchRows:
        count = len(self.lines)
        rows = {"value": list(self.lines), "file": ["file:///a.log"] * count, "headers": [None] * count}
        return Collected(pyarrow.table(rows), cast(SparkSession, None))


@pytest.fixture
def source(tmp_path: Path) -> SourceSettings:
    conf = tmp_path / "conf.yaml"
    conf.write_text(f"source: {{path: {tmp_path / 'logs'}}}\nlake: {{root: {tmp_path / 'lake'}}}\n")
    seen = []
    for name in ("a.log", "b.log"):
        path = tmp_path / "logs" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x\n")
        seen.append((f"file://{path}", 1))
    for name, text in list_texts(0, seen).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return load(conf).by_name["access_log"]


def write(source: SourceSettings, root: Path, batch: Taken, *names: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "files_of", lambda _: {str(root / "logs" / name): 2 for name in names})
    monkeypatch.setattr(given_rows, "Observation", Counted)
    if not isinstance(batch, Small):
        monkeypatch.setattr(files, "counts", lambda *_: [Count("rows", lambda: cast(Column, Aggregate()), len)])
    FilesKind(source).write(cast(DataFrame, Lines()), cast(Batch, batch), str(root))


def test_no_date_of_a_file_makes_another_file_too_old(source: SourceSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "from_files", lambda lines, _: lines)
    monkeypatch.setattr(files, "has_auto_loader", lambda _: False)
    reader = Reader()
    FilesKind(source).read(cast(SparkSession, reader))
    assert reader.told["maxFileAge"] == "9223372036854775807ms"
    assert reader.told["recursiveFileLookup"] == "true"
    assert reader.told["lineSep"] == "\n"
    assert reader.told["mapreduce.input.linerecordreader.line.maxlength"] == "2147483647"


def test_a_batch_with_a_missing_file_writes_nothing(
    source: SourceSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Taken(1)
    with pytest.raises(SourceError, match=r"logs/b\.log: planned for this batch, and missing"):
        write(source, tmp_path, batch, "a.log", monkeypatch=monkeypatch)
    assert batch.appended == []


def test_a_small_batch_whose_bytes_were_not_all_read_is_not_written(
    source: SourceSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Small(b"x", b"x")
    write(source, tmp_path, whole, "a.log", "b.log", monkeypatch=monkeypatch)
    assert whole.appended == ["bronze.access_log"]
    cut = Small(b"x", b"")
    with pytest.raises(ReceiptError, match=r"had 4 bytes .* but 3 were read .* Nothing of the batch was written"):
        write(source, tmp_path, cut, "a.log", "b.log", monkeypatch=monkeypatch)
    assert cut.appended == []


def test_a_batch_whose_bytes_were_not_all_read_fails_after_the_write(
    source: SourceSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = Taken(2)
    write(source, tmp_path, batch, "a.log", "b.log", monkeypatch=monkeypatch)
    assert batch.appended == [str(BRONZE)]
    with pytest.raises(ReceiptError, match="a file changed while it was read"):
        write(source, tmp_path, Taken(1), "a.log", "b.log", monkeypatch=monkeypatch)
