"""A directory of growing files asks bronze for what was read of a file that was cut; without Spark."""

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow
import pytest
from deltalake import write_deltalake

from oncelake.bronze.mask import VERSION
from oncelake.bronze.settings import SourceSettings
from oncelake.common.lake import BRONZE, Lake
from oncelake.exactly_once.files import files_at
from oncelake.sources.directory.census import fault_message
from oncelake.sources.tail.kind import TailKind
from oncelake.sources.tail.position import TailPosition
from oncelake.sources.tail.source import TailSource
from tests.support.tailing import LogDirectory, ReadFiles, drain


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    return LogDirectory.with_lines(tmp_path / "logs", 20)


@pytest.fixture
def at(logs: LogDirectory) -> TailPosition:
    return drain(ReadFiles(logs.path), TailPosition())[1]


def source_of(logs: LogDirectory, lake: Path, extra: Mapping[str, object], *, cut: int = -1) -> TailSource:
    """Write bronze, and return the source without Spark.

    Args:
        logs: the logs.
        lake: the lake's root.
        extra: further columns of bronze, which have one value.
        cut: the number of a huge line that bronze holds only in part; -1 if there is none.
    """
    offsets, at = [], 0
    for line in logs.lines:
        offsets.append(at)
        at += len(line) + 1
    headers = [[{"key": "length", "value": b"1"}] if number == cut else None for number in range(len(logs.lines))]
    kind = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
    columns = {
        "file_id": pyarrow.array([0] * len(offsets), pyarrow.int64()),
        "file_offset": pyarrow.array(offsets, pyarrow.int64()),
        "value": pyarrow.array(logs.lines, pyarrow.binary()),
        "headers": pyarrow.array(headers, kind),
        **{name: pyarrow.array([value] * len(offsets)) for name, value in extra.items()},
    }
    places = Lake(str(lake), str(lake / "checkpoints"))
    Path(places.at(BRONZE)).mkdir(parents=True)
    write_deltalake(places.at(BRONZE), pyarrow.table(columns))
    checkpoint = str(lake / "checkpoints" / "bronze")
    declared = TailKind(SourceSettings(kind="tail", path=str(logs.path)), lake=places)
    return declared.source(None, files_at(checkpoint, None), checkpoint)


@pytest.mark.parametrize("lost", [0, 10, 40])
def test_of_a_log_that_was_cut_only_what_is_behind_the_cut_waits(
    logs: LogDirectory, at: TailPosition, tmp_path: Path, lost: int
) -> None:
    source = source_of(logs, tmp_path / "lake", {})
    os.truncate(logs.log, logs.log.stat().st_size - lost)
    half = logs.log.stat().st_size - len(b"".join(line + b"\n" for line in logs.lines[: 19 if lost < 30 else 18]))
    expected = {str(logs.log): half} if lost else {}
    assert source.waiting(at.to_json()) == expected
    census = source.census(at.to_json())
    assert [file.path for file in census.waiting] == [*expected]
    assert census.read == ([] if expected else [str(logs.log)])


def test_a_log_that_was_cut_after_a_line_has_nothing_waiting_and_then_its_new_lines(
    logs: LogDirectory, at: TailPosition, tmp_path: Path
) -> None:
    source = source_of(logs, tmp_path / "lake", {})
    os.truncate(logs.log, sum(len(line) + 1 for line in logs.lines[:19]))
    assert source.waiting(at.to_json()) == {}
    assert source.census(at.to_json()).read == [str(logs.log)]
    assert source.exhausted(at.to_json())
    with logs.log.open("ab") as file:
        file.write(b"another line\n")
    assert source.waiting(at.to_json()) == {str(logs.log): len(b"another line\n")}
    assert not source.exhausted(at.to_json())


def test_a_cut_log_with_a_huge_line_is_compared_up_to_that_line(
    logs: LogDirectory, at: TailPosition, tmp_path: Path
) -> None:
    source = source_of(logs, tmp_path / "lake", {}, cut=15)
    os.truncate(logs.log, sum(len(line) + 1 for line in logs.lines[:19]))
    rest = sum(len(line) + 1 for line in logs.lines[15:19])
    assert source.waiting(at.to_json()) == {str(logs.log): rest}


def test_a_cut_log_whose_lines_are_masked_is_named_with_the_way_out(
    logs: LogDirectory, at: TailPosition, tmp_path: Path
) -> None:
    source = source_of(logs, tmp_path / "lake", {VERSION: "1"})
    os.truncate(logs.log, logs.log.stat().st_size - 10)
    (fault,) = source.census(at.to_json()).faults
    message = fault_message(fault, "bronze.web")
    assert "it was cut after it was read, and bronze has its lines masked" in message
    assert "oncelake rebuild bronze.web; if it finds lines of bronze in no file any more, --accept-loss" in message
    assert "; or oncelake census accept" in message


def test_of_a_cut_log_all_waits_while_bronze_cannot_be_read(
    logs: LogDirectory, at: TailPosition, tmp_path: Path
) -> None:
    source = source_of(logs, tmp_path / "lake", {})
    (tmp_path / "lake" / "bronze").rename(tmp_path / "elsewhere")
    os.truncate(logs.log, logs.log.stat().st_size - 10)
    assert source.waiting(at.to_json()) == {str(logs.log): logs.log.stat().st_size}
    assert not source.exhausted(at.to_json())
