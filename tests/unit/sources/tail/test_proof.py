"""A proof of growing files says what no run can read any more."""

import gzip
from pathlib import Path

from oncelake.common.lake import BRONZE
from oncelake.exactly_once.link import Link
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.sources.tail.proof import tail_files
from oncelake.sources.tail.source import TailSource


def proven(directory: Path, state: State) -> Link:
    return tail_files(TailSource(str(directory)), None, BRONZE, Diagnosis(state, "bytes 0 to 9 of file 0 are gone"))


def test_planned_bytes_that_are_gone_are_a_fault_also_if_nothing_else_waits(tmp_path: Path) -> None:
    link = proven(tmp_path, State.SOURCE_TRIMMED)
    assert (link.holds, link.said) == (False, "bytes 0 to 9 of file 0 are gone")


def test_bytes_that_no_run_reads_are_a_fault(tmp_path: Path) -> None:
    assert proven(tmp_path, State.CHECKPOINT_LOST).holds
    (tmp_path / "app.log").write_bytes(b"one\n")
    link = proven(tmp_path, State.CHECKPOINT_LOST)
    assert (link.holds, link.said) == (False, "1 file has bytes that no run reads: bronze cannot start")
    link = proven(tmp_path, State.ALIGNED)
    assert link.holds
    assert [part.said for part in link.uncompared] == ["4 bytes that wait in 1 file"]


def test_a_compressed_file_that_is_being_written_is_a_number(tmp_path: Path) -> None:
    (tmp_path / "app.log.gz").write_bytes(gzip.compress(b"one\n" * 100)[:-6])
    link = proven(tmp_path, State.ALIGNED)
    assert link.holds, link.said
    assert [part.said for part in link.uncompared] == ["1 compressed file that waits to be complete"]
