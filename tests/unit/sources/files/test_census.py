"""A proof fails and names every file of the source whose lines are missing in bronze; without Spark."""

import bz2
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast
from unittest.mock import MagicMock

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelake.bronze.mask_versions import MaskVersions
from oncelake.common.table_rows import TableRows
from oncelake.exactly_once.files import LocalFiles
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.sources.directory import comparison
from oncelake.sources.directory.accepted import write_accepted, write_renamed
from oncelake.sources.directory.bronze_files import BronzeFiles, ReadFile
from oncelake.sources.directory.census import Census, Fault, Faulty
from oncelake.sources.directory.listing import ListedFile, Problem
from oncelake.sources.files import census as module
from oncelake.sources.files import kind as kind_module
from oncelake.sources.files.census import census_link, count_files
from oncelake.sources.files.kind import FilesKind
from oncelake.sources.files.source import FilesSource
from oncelake.sources.files.spark_list import list_texts
from oncelake.sources.proof import StageView
from tests.support.house import House
from tests.support.memory import MemoryFiles, commit, metadata, offsets

NO_SPARK = cast(SparkSession, None)
ROWS = cast(DataFrame, object())
NO_MASK = cast(MaskVersions, None)


def read(path: Path | str, size: int, modified: int = 1) -> ReadFile:
    return ReadFile(f"file://{path}", 1, size, 1, 1, size, modified, steady=True)


def held(*files: ReadFile, at: int = 0) -> BronzeFiles:
    return BronzeFiles(lambda: ROWS, files, f'{{"logOffset":{at}}}', NO_MASK)


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """Make a source of two files, of which bronze has read the first."""
    monkeypatch.setattr(module, "file_name_encoding", lambda _: "utf-8")
    house = House(tmp_path)
    for name in ("a.log", "b.log"):
        house.logs.joinpath(name).write_text("one\n")
    planned(house, "a.log")
    return house


def planned(house: House, *names: str) -> None:
    """Write files into the list of Spark's first batch."""
    seen = [(f"file://{house.logs / name}", modified(house, name)) for name in names]
    for name, text in list_texts(0, seen).items():
        path = house.lake / "_checkpoints/bronze" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def modified(house: House, name: str) -> int:
    return (house.logs / name).stat().st_mtime_ns // 1_000_000


def counted(house: House, of: BronzeFiles, *, may_start: bool = True) -> Census:
    source = FilesSource(str(house.logs), LocalFiles(), str(house.lake / "_checkpoints/bronze"))
    state = State.ALIGNED if may_start else State.SOURCE_TRIMMED
    chain = house.chain()
    view = StageView(source, None, Diagnosis(state, ""))
    ingestion = replace(chain.ingestion(chain.stages[0], TableRows(lambda: NO_SPARK)), source=source, look=lambda: view)
    return count_files(source, ingestion, of)


def bronze_of(house: House) -> BronzeFiles:
    return held(read(house.logs / "a.log", 4, modified(house, "a.log")))


def names(found: Sequence[ListedFile]) -> list[str]:
    return [Path(each.path).name for each in found]


def test_read_and_waiting_files_come_from_the_source_and_sparks_list(house: House) -> None:
    found = counted(house, bronze_of(house))
    assert (found.read, names(found.waiting), found.faults) == ([str(house.logs / "a.log")], ["b.log"], [])
    assert [fault.fault for fault in counted(house, bronze_of(house), may_start=False).faults] == [Fault.BLOCKED]


def test_a_file_that_spark_listed_and_bronze_lacks_is_a_fault(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "lines_of", lambda _, paths: set(paths))
    planned(house, "a.log", "b.log")
    (fault,) = counted(house, bronze_of(house)).faults
    assert (Path(fault.path).name, fault.fault) == ("b.log", Fault.NEVER_READ)


def test_a_gone_file_with_another_name_is_compared_with_no_other_file(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of the renamed file is another file."""
    asked: list[str] = []

    def holding(rows: DataFrame, pairs: Mapping[str, Sequence[str]], _: MaskVersions) -> list[tuple[str, str, int]]:
        assert rows is ROWS
        asked.extend(pairs)
        return [(uri, path, 0) for uri, others in pairs.items() for path in others]

    monkeypatch.setattr(module, "lines_of", lambda _, paths: set(paths))
    monkeypatch.setattr(comparison, "holding", holding)
    planned(house, "a.log", "b.log")
    of = held(read(house.logs / "gone.log", 4, modified(house, "a.log")))
    found = counted(house, of).faults
    assert [(Path(fault.path).name, fault.fault) for fault in found] == [
        ("a.log", Fault.CHANGED),
        ("b.log", Fault.NEVER_READ),
    ]
    assert found[0].earlier == str(house.logs / "gone.log")
    write_renamed(LocalFiles(), str(house.lake), [str(house.logs / "a.log")], datetime.now(UTC))
    asked.clear()
    found = counted(house, of).faults
    assert [(Path(fault.path).name, fault.fault) for fault in found] == [("b.log", Fault.NEVER_READ)]
    assert asked == []


def test_a_file_is_compared_with_one_that_is_gone_only_if_it_may_begin_with_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Sequence[str]] = {}
    monkeypatch.setattr(module, "lines_of", lambda _, paths: set(paths))
    monkeypatch.setattr(comparison, "holding", lambda _, pairs, __: asked.update(pairs) or [])
    house.logs.joinpath("b.log").write_text("one\ntwo, longer\nthree\n")
    planned(house, "a.log", "b.log")
    sizes = {"long": 99, "whole": 22, "whole, no end": 21, "two": 16, "two, no end": 15, "within": 10, "one": 4}
    counted(house, held(bronze_of(house).files[0], *(read(f"/gone/{name}", size) for name, size in sizes.items())))
    expected = ["whole", "whole, no end", "two", "two, no end", "one"]
    assert sorted(asked) == sorted(f"file:///gone/{name}" for name in expected)
    monkeypatch.setattr(module, "FEW", 2)
    asked.clear()
    counted(house, held(bronze_of(house).files[0], *(read(f"/gone/{name}", size) for name, size in sizes.items())))
    assert sorted(asked) == ["file:///gone/whole", "file:///gone/whole, no end"]


def test_a_file_that_a_run_read_after_bronze_was_pinned_is_no_fault(house: House) -> None:
    planned(house, "a.log", "b.log")
    files = MemoryFiles()
    commit(files, "log", 0, operation="CREATE TABLE")
    commit(files, "log", 1, metadata(0, "bronze.access_log", after=offsets({"logOffset": 0})))
    log = house.table("bronze/access_log") / "_delta_log"
    log.mkdir(parents=True)
    for path, text in files.texts.items():
        (log / Path(path).name).write_text(text)
    found = counted(house, BronzeFiles(None, (), None, NO_MASK), may_start=False)
    assert (sorted(names(found.waiting)), found.faults) == (["a.log", "b.log"], [])


def test_a_name_that_is_not_ascii_is_read_in_the_encoding_of_spark(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    (house.logs / "café.log").write_bytes(b"one\n")
    for encoding, problem in (("utf-8", []), ("ascii", [Fault.NAME])):
        monkeypatch.setattr(module, "file_name_encoding", lambda _, encoding=encoding: encoding)
        found = counted(house, bronze_of(house))
        assert [fault.fault for fault in found.faults] == problem
        assert ("café.log" in names(found.waiting)) == (not problem)


def with_session(session: SparkSession) -> TableRows:
    return TableRows(lambda: session)


def test_only_a_session_knows_whether_zstd_is_unpacked(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    (house.logs / "c.log.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(8))
    monkeypatch.setattr(module, "broken_of", lambda *_: [])
    chain = house.chain()
    kind = chain.kind(chain.stages[0])
    assert isinstance(kind, FilesKind)
    for native in (True, False):
        java = MagicMock()
        java.org.apache.hadoop.io.compress.ZStandardCodec.isNativeCodeLoaded.return_value = native
        monkeypatch.setattr(kind_module, "jvm", lambda _, java=java: java)
        census, _ = kind.census(chain.ingestion(chain.stages[0], with_session(cast(SparkSession, object()))))
        assert [fault.fault for fault in census.faults] == ([] if native else [Fault.NOT_UNPACKED])


def test_a_source_that_cannot_be_listed_is_a_fault(house: House) -> None:
    of = bronze_of(house)
    house.logs.rename(house.root / "elsewhere")
    assert [fault.fault for fault in counted(house, of).faults] == [Fault.SOURCE_AWAY]


def test_a_source_without_any_read_file_is_a_fault_until_accepted(house: House) -> None:
    of = bronze_of(house)
    for path in house.logs.iterdir():
        path.unlink()
    found = counted(house, of)
    assert [fault.fault for fault in found.faults] == [Fault.SOURCE_EMPTY]
    write_accepted(LocalFiles(), str(house.lake), found.faults, datetime.now(UTC))
    assert counted(house, of).faults == []
    house.logs.rename(house.root / "mounted")
    house.logs.mkdir()  # another directory under the same name, as after an unmount
    assert [fault.fault for fault in counted(house, of).faults] == [Fault.SOURCE_EMPTY]


@pytest.mark.parametrize("rewritten", [True, False])
def test_a_file_of_the_same_size_and_another_time_is_read_again(
    house: House, monkeypatch: pytest.MonkeyPatch, *, rewritten: bool
) -> None:
    asked: list[str] = []

    def differing(rows: DataFrame, uris: list[str], _: MaskVersions) -> tuple[list[tuple[str, int, int]], list[str]]:
        assert rows is ROWS
        asked.extend(uris)
        return [(uri, 1, 1) for uri in uris] if rewritten else [], []

    monkeypatch.setattr(module, "differing", differing)
    monkeypatch.setattr(module, "FEW", -1)  # a condition on names needs Spark
    path, of = house.logs / "a.log", held(read(house.logs / "a.log", 4, 1))
    found = counted(house, of)
    assert asked == [f"file://{path}"]
    assert ([fault.fault for fault in found.faults], found.read) == (
        ([Fault.CHANGED], []) if rewritten else ([], [str(path)])
    )
    asked.clear()
    write_accepted(LocalFiles(), str(house.lake), found.faults, datetime.now(UTC))
    assert counted(house, of).faults == []
    assert (asked == []) == rewritten


@pytest.mark.parametrize("fault", Fault)
def test_a_proof_link_with_a_fault_fails_and_names_the_file(fault: Fault) -> None:
    census = Census(["/logs/b.log"], faults=[Faulty("/logs/a.log", fault, 7, 1, 2)])
    link = census_link("/logs", census, held())
    assert not link.holds
    assert link.said.startswith("/logs/a.log")
    assert "\n" not in link.said


def test_a_proof_link_without_a_fault_counts_files_and_notes_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    same = [("file:///logs/old.log", "/logs/a.log"), ("file:///logs/old.log", "/logs/new.log")]
    monkeypatch.setattr(module, "same_lines_as", lambda *_: same)
    census = Census(
        read=["/logs/a.log"],
        waiting=[ListedFile("/logs/new.log", 3, 1)],
        hidden=[ListedFile("/logs/.h.log", 3, 1, hidden=True)],
        empty=[ListedFile("/logs/e.log", 0, 1)],
        gone=["/logs/old.log"],
        accepted=[Faulty("/logs/caf\udce9.log", Fault.NAME)],
    )
    link = census_link("/logs", census, held(read("/logs/a.log", 2), read("/logs/old.log", 2)))
    assert (link.holds, link.name) == (True, "files of /logs")
    assert link.said == "1 file matches what was read, 1 waiting for the next run, 2 ignored"
    assert link.notes == (
        "1 file was read and is gone: old.log",
        "renamed after they were read, so their lines count under both names: /logs/a.log holds the lines of "
        "/logs/old.log, which is gone",
        "renamed after they were read, so the next run counts their lines under both names: /logs/new.log holds the "
        "lines of /logs/old.log, which is gone",
        "1 file is ignored, as a name starts with _ or a dot: .h.log",
        "1 file is ignored, as it holds no line: e.log",
        "1 file waits for the next run: new.log",
        r"1 fault was accepted: /logs/caf\udce9.log (name not readable)",
    )
    assert [part.said for part in link.uncompared] == [
        "1 file that waits for the next run",
        "1 file that was accepted at fault",
    ]


def test_a_problem_is_reported_with_the_file(house: House) -> None:
    (house.logs / "loop").symlink_to(house.logs)
    found = counted(house, bronze_of(house))
    link = census_link(str(house.logs), found, bronze_of(house))
    assert not link.holds
    assert f"{house.logs / 'loop'}: {Problem.LOOP}" in link.said


def test_an_incomplete_compressed_file_does_not_wait(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cut.log.bz2", "whole.log.bz2"):  # what is damaged in its middle shows only when it is read
        house.logs.joinpath(name).write_bytes(bz2.compress(b"x"))
    asked: list[str] = []

    def broken_of(_: SparkSession, paths: Sequence[str]) -> list[str]:
        asked.extend(paths)
        return [path for path in paths if "cut" in path]

    monkeypatch.setattr(module, "broken_of", broken_of)
    found = counted(house, bronze_of(house))
    assert sorted(Path(path).name for path in asked) == ["cut.log.bz2", "whole.log.bz2"]
    assert sorted(names(found.waiting)) == ["b.log", "whole.log.bz2"]
    assert [(Path(fault.path).name, fault.fault) for fault in found.faults] == [("cut.log.bz2", Fault.BROKEN)]


def test_a_file_with_a_checksum_file_waits_only_if_it_is_readable(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    (house.logs / ".b.log.crc").write_bytes(b"crc")
    monkeypatch.setattr(module, "broken_of", lambda _, paths: list(paths))
    found = counted(house, bronze_of(house))
    assert [(Path(fault.path).name, fault.fault) for fault in found.faults] == [("b.log", Fault.BROKEN)]
