"""On Databricks, Auto Loader reads the files: the same lines, each file once, and no guess at what only it knows."""

import json
from pathlib import Path
from typing import cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, StateError
from oncelake.engine.configuration import load
from oncelake.exactly_once.checkpoint import read_checkpoint
from oncelake.exactly_once.state import State
from oncelake.proof.positions import between, goes_back
from oncelake.sources.directory.bronze_files import ReadFile
from oncelake.sources.files.census import auto_loader_files
from oncelake.sources.files.kind import auto_loader
from oncelake.sources.files.source import AutoLoaderSource, FilesSource
from oncelake.sources.registry import position_of
from tests.support.memory import MemoryFiles

HEADER = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1500000000000,"conf":{}}\n'


def options(tmp_path: Path, given: str = "{}") -> dict[str, str]:
    conf = tmp_path / "conf.yaml"
    conf.write_text(f"source: {{path: /Volumes/main/logs/app, auto_loader: {given}}}\nlake: {{root: /lake}}\n")
    return auto_loader(load(conf).by_name["access_log"])


def test_lines_equal_those_of_sparks_own_source(tmp_path: Path) -> None:
    assert options(tmp_path) == {
        "lineSep": "\n",
        "cloudFiles.format": "text",
        "cloudFiles.allowOverwrites": "false",
        "cloudFiles.partitionColumns": "",
        "cloudFiles.maxBytesPerTrigger": str(512 * 1024**2),
    }


def test_notifications_are_an_option_with_a_daily_listing(tmp_path: Path) -> None:
    found = options(tmp_path, "{cloudFiles.useNotifications: true}")
    assert found["cloudFiles.useNotifications"] == "true"
    assert found["cloudFiles.backfillInterval"] == "1 day"
    found = options(tmp_path, "{useNotifications: true, backfillInterval: 1 hour}")
    assert found["cloudFiles.backfillInterval"] == "1 hour"
    assert "cloudFiles.backfillInterval" not in options(tmp_path, "{useManagedFileEvents: true}")


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("allowOverwrites", "would be read again"),
        ("cloudFiles.maxFileAge", "read again"),
        ("includeExistingFiles", "skipped"),
        ("format", "lines are read as text"),
    ],
)
def test_an_option_that_would_break_the_guarantee_is_refused(tmp_path: Path, key: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        options(tmp_path, f"{{{key}: 'x'}}")
    assert why in str(error.value)


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.texts["c/metadata"] = '{"id":"q"}'
    files.texts["c/offsets/0"] = HEADER + json.dumps({"seqNum": 3, "sourceVersion": 1})
    files.texts["c/commits/0"] = "v1\n{}"
    return files


def test_a_missing_list_of_files_is_detected(files: MemoryFiles) -> None:
    source = AutoLoaderSource("/Volumes/main/logs/app", files, "c")
    checkpoint = read_checkpoint(files, "c")
    assert source.damage(checkpoint) == "sources/0, Auto Loader's list of the files it has read, is missing"
    files.texts["c/sources/0/rocksdb/000001.sst"] = ""
    files.texts["c/sources/0/metadata"] = ""
    assert source.damage(checkpoint) is None


def test_a_checkpoint_that_cannot_be_recovered_is_refused_with_the_way_out(files: MemoryFiles) -> None:
    with pytest.raises(StateError, match="oncelake rebuild bronze"):
        AutoLoaderSource("/logs", files, "c").log("{}", None, list)


def test_the_other_reader_of_the_same_directory_is_another_source(files: MemoryFiles) -> None:
    spark, loader = FilesSource("/logs", files, "c"), AutoLoaderSource("/logs", files, "c")
    for one, other in ((spark, loader), (loader, spark)):
        found = one.trouble(None, None, other.identity())
        assert found is not None
        assert found.state is State.SOURCE_REPLACED
    assert loader.trouble('{"seqNum":1}', '{"seqNum":3}', loader.identity()) is None


def test_its_positions_are_compared_by_the_number_of_files() -> None:
    one, other = '{"seqNum":3,"sourceVersion":1}', '{"seqNum":5,"sourceVersion":1,"lastBackfillStartTimeMs":7}'
    position = position_of(one)
    assert position is not None
    assert not position.before_all
    assert goes_back(other, one, "files")
    assert not goes_back(one, other, "files")
    assert "file lists 4 to 5" in between(one, other, "files")


class Lister:
    """A Spark that lists the files of Auto Loader, each with whether it was read completely."""

    def __init__(self, **found: bool) -> None:
        self.found = found
        self.asked = ""

    def sql(self, statement: str) -> "Lister":
        self.asked = statement
        return self

    def collect(self) -> list[dict[str, object]]:
        if not self.found:
            raise AnalysisException("[UNRESOLVABLE_TABLE_VALUED_FUNCTION] cloud_files_state\nat java")
        return [{"path": f"dbfs:/Volumes/logs/{name}%20x.log", "done": done} for name, done in self.found.items()]


def read_files(*names: str) -> list[ReadFile]:
    return [ReadFile(f"dbfs:/Volumes/logs/{name}%20x.log", 1, 2, 1, 1, 2, 1, steady=True) for name in names]


def test_a_proof_gets_the_read_files_from_auto_loader(files: MemoryFiles) -> None:
    source, lister = AutoLoaderSource("/Volumes/logs", files, "/it's"), Lister(a=True, b=False)
    link, paths = auto_loader_files(cast(SparkSession, lister), source, read_files("a"))
    assert (link.holds, link.said) == (True, "1 file is in bronze, 1 waiting for the next run")
    assert link.notes == ("files that Auto Loader has not found yet are not counted",)
    assert len(paths) == 1
    assert "cloud_files_state('/it\\'s')" in lister.asked


def test_a_file_that_auto_loader_has_read_and_bronze_lacks_is_named(files: MemoryFiles) -> None:
    source, lister = AutoLoaderSource("/Volumes/logs", files, "c"), Lister(a=True, b=True)
    link, paths = auto_loader_files(cast(SparkSession, lister), source, read_files("a"))
    assert (link.holds, paths) == (False, ())
    assert link.said == "1 file was read by Auto Loader and has no line in bronze: b x.log"


def test_a_proof_fails_if_auto_loader_cannot_be_asked(files: MemoryFiles) -> None:
    source = AutoLoaderSource("/Volumes/logs", files, "c")
    link, _ = auto_loader_files(cast(SparkSession, Lister()), source, read_files("a"))
    assert not link.holds
    assert link.said.startswith("not checked: Auto Loader does not list its files here (")
    assert "java" not in link.said
