"""Resolving a fault loses no byte of a file, whatever dies in between and whoever writes to it meanwhile."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pipelines import resolve
from pipelines.errors import StateError
from pipelines.exactly_once.census import Fault, Faulty, Known, Recorded, take
from pipelines.exactly_once.listing import listing
from pipelines.proof.census import Held
from pipelines.proof.read_files import ReadFile
from pipelines.resolve import Resolve, chosen

READ = b"one\ntwo\n"
MADE = 1_400_000_000_000


class Reads(Resolve):
    """Bronze holds the first bytes of every file, without a Spark that could say so."""

    starts = True

    def _starts_as_read(self, faulty: Faulty) -> bool:
        del faulty
        return self.starts


def of(root: Path, path: Path) -> Resolve:
    file = ReadFile(f"file://{path}", 2, len(READ), 0, 0, len(READ), MADE, steady=True)
    return Reads(cast(Any, None), cast(Any, None), str(root), Held(cast(Any, object()), [file], None))


def grown(path: Path, content: bytes) -> Faulty:
    path.write_bytes(content)
    return Faulty(str(path), Fault.GREW, len(content), 0, len(READ))


def visible(root: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in root.iterdir() if not each.name.startswith(".")}


def test_what_was_added_becomes_a_file_of_its_own_and_what_was_read_stays(tmp_path: Path) -> None:
    path = tmp_path / "a.log.1"
    said = of(tmp_path, path).reread(grown(path, READ + b"three\n"))
    assert visible(tmp_path) == {"a.log.1": READ, "a.added-8-14.log.1": b"three\n"}
    assert path.stat().st_mtime_ns == MADE * 1_000_000
    assert (tmp_path / ".a.log.1.whole-8").read_bytes() == READ + b"three\n"
    assert "half a line" not in said


@pytest.mark.parametrize("step", range(12))
def test_a_death_at_any_step_loses_nothing_and_the_command_goes_on(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    faulty = grown(path, READ + b"three\n")
    calls = 0

    def dying(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == step:
                raise KeyboardInterrupt
            return work(*arguments, **named)

        return call

    with monkeypatch.context() as patch:
        for owner, name in ((Path, "replace"), (Path, "hardlink_to"), (Path, "unlink"), (os, "utime"), (os, "fsync")):
            patch.setattr(owner, name, dying(getattr(owner, name)))
        try:
            of(tmp_path, path).reread(faulty)
        except KeyboardInterrupt:
            held = b"".join(sorted(visible(tmp_path).values()))
            assert b"one" in held
            assert b"three" in held
    if path.stat().st_size > len(READ):  # the fault is still there, so the command is run again
        path.write_bytes(path.read_bytes() + b"four\n")
        of(tmp_path, path).reread(Faulty(str(path), Fault.GREW, path.stat().st_size, 0, len(READ)))
    lines = [line for content in visible(tmp_path).values() for line in content.split()]
    assert sorted(set(lines)) == sorted(lines)
    assert {b"one", b"two", b"three"} <= set(lines)


def test_a_file_that_is_still_written_to_is_not_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.log"
    faulty = grown(path, READ + b"three\n")
    added = resolve._added

    def written_to(*arguments: Any) -> Path:
        made: Path = added(*arguments)
        with path.open("ab") as file:
            file.write(b"four\n")
        return made

    with monkeypatch.context() as patch:
        patch.setattr(resolve, "_added", written_to)
        with pytest.raises(StateError, match="still being written to"):
            of(tmp_path, path).reread(faulty)
    assert path.read_bytes() == READ + b"three\nfour\n"
    of(tmp_path, path).reread(Faulty(str(path), Fault.GREW, path.stat().st_size, 0, len(READ)))
    assert visible(tmp_path) == {"a.log": READ, "a.added-8-14.log": b"three\n", "a.added-14-19.log": b"four\n"}


def test_a_file_that_grows_again_after_its_split_is_split_again(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    of(tmp_path, path).reread(grown(path, READ + b"three\n"))
    for content in (b"four and\nmore\n", b"SIXES\n", b"7\n"):
        of(tmp_path, path).reread(grown(path, READ + content))
    assert visible(tmp_path) == {
        "a.log": READ,
        "a.added-8-14.log": b"three\n",
        "a.added-2-8-22.log": b"four and\nmore\n",
        "a.added-3-8-14.log": b"SIXES\n",
        "a.added-4-8-10.log": b"7\n",
    }
    assert (tmp_path / ".a.log.whole-8").read_bytes() == READ + b"three\n", "what was kept aside stays"


def test_files_of_an_earlier_split_are_not_taken_for_this_one_when_its_whole_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    of(tmp_path, path).reread(grown(path, READ + b"three\n"))
    (tmp_path / ".a.log.whole-8").unlink()
    of(tmp_path, path).reread(grown(path, READ + b"SIXES\n"))
    assert visible(tmp_path)["a.added-2-8-14.log"] == b"SIXES\n"


def test_what_a_process_writes_to_the_whole_after_the_split_is_a_fault_until_it_is_reread(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    path = logs / "a.log"
    with path.open("ab") as writer:
        writer.write(READ + b"three\n")
        writer.flush()
        of(logs, path).reread(Faulty(str(path), Fault.GREW, 14, 0, len(READ)))
        assert faults(logs) == []
        writer.write(b"four\nfi")
        writer.flush()
        (faulty,) = faults(logs)
        assert (faulty.fault, Path(faulty.path).name, faulty.was) == (Fault.DIVERTED, ".a.log.whole-8", 14)
        of(logs, path).reread(faulty)
        assert visible(logs) == {"a.log": READ, "a.added-8-14.log": b"three\n", "a.added-14-19.log": b"four\n"}
        (faulty,) = faults(logs)
        with pytest.raises(StateError, match="ends within a line"):
            of(logs, path).reread(faulty)
        writer.write(b"ve\n")
    of(logs, path).reread(*faults(logs))
    assert visible(logs)["a.added-19-24.log"] == b"five\n"
    assert faults(logs) == []


def test_a_last_line_is_found_however_long_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "_CHUNK", 3)
    path = tmp_path / "a.log"
    path.write_bytes(b"read\n1234567\n89")
    assert [resolve._last_line_end(path, start) for start in (0, 5, 12, 13)] == [13, 13, 13, 13]
    assert resolve._last_line_end(path, 14) == 14


def faults(logs: Path) -> list[Faulty]:
    """Account for a directory of which bronze has read the first bytes of `a.log`."""
    known = Known({}, 0, 0, {str(logs / "a.log"): Recorded(len(READ), MADE)}, may_start=True, may_read=lambda _: True)
    return take(listing(str(logs)), known).faults


def test_a_directory_that_takes_no_second_name_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    path = tmp_path / "a.log"
    with pytest.raises(StateError, match=r"cannot be split: it gets no second name, \.a\.log\.whole-8 \(Operation not"):
        of(tmp_path, path).reread(grown(path, READ + b"x\n"))
    assert visible(tmp_path) == {"a.log": READ + b"x\n"}


def test_a_name_below_a_pattern_is_spelled_anew(tmp_path: Path) -> None:
    (tmp_path / "app-1").mkdir()
    bad = tmp_path / "app-1" / "x:y.log"
    bad.write_bytes(b"x\n")
    pattern = Reads(cast(Any, None), cast(Any, None), f"{tmp_path}/app-*", Held(cast(Any, object()), [], None))
    pattern.reread(Faulty(str(bad), Fault.COLON, 2, 0))
    assert (tmp_path / "app-1" / "x-y.log").read_bytes() == b"x\n"


def test_a_file_that_is_cut_while_it_is_copied_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"12345")
    with pytest.raises(StateError, match="was cut short while it was copied"):
        resolve._copy(tmp_path / "a.log", tmp_path / "b.log", 0, 9)
    assert not (tmp_path / "b.log").exists()


def test_a_compressed_file_that_grew_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.log.gz"
    with pytest.raises(StateError, match="is compressed"):
        of(tmp_path, path).reread(grown(path, READ + b"x"))
    assert visible(tmp_path) == {"a.log.gz": READ + b"x"}


def test_a_file_that_was_replaced_gets_a_name_that_nothing_has(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    (tmp_path / "a.reread-1.log").write_bytes(b"other\n")
    found = of(tmp_path, path)
    Reads.starts = False
    try:
        said = found.reread(grown(path, READ + b"x\n"))
    finally:
        Reads.starts = True
    assert said.endswith("a.reread-2.log")
    assert visible(tmp_path) == {"a.reread-1.log": b"other\n", "a.reread-2.log": READ + b"x\n"}


def test_names_that_cannot_be_read_are_spelled_anew_at_the_first_part_that_cannot(tmp_path: Path) -> None:
    bad = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"d\xff:x")))  # noqa: PTH118
    bad.mkdir()
    (bad / "a.log").write_bytes(b"x\n")
    of(tmp_path, bad).reread(Faulty(str(bad / "a.log"), Fault.NAME, 2, 0))
    assert (tmp_path / "d%FF-x" / "a.log").read_bytes() == b"x\n"
    bad.mkdir()
    of(tmp_path, bad).reread(Faulty(str(bad / "a.log"), Fault.NAME, 2, 0))
    assert (tmp_path / "d%FF-x.reread-2").is_dir()
    gone = Faulty(str(tmp_path / "gone.log"), Fault.NEVER_READ, 2, 0)
    with pytest.raises(StateError, match=r"gone\.log cannot be renamed"):
        of(tmp_path, bad).reread(gone)


def test_each_fault_has_only_the_commands_that_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(READ)
    found = of(tmp_path, path)
    for fault in Fault:
        faulty = Faulty(str(path), fault)
        for allowed, work in (
            (resolve.ACCEPTED, lambda each: found.accept([each])),
            (resolve.EXCLUDED, found.exclude),
            (resolve.REREAD, found.reread),
        ):
            if fault not in allowed:
                with pytest.raises(StateError, match="cannot be"):
                    work(faulty)
    assert {Fault.GREW, Fault.SHRANK, Fault.CHANGED} & resolve.EXCLUDED == set()
    assert {Fault.GONE, Fault.BLOCKED, Fault.PLAN_CHANGED, Fault.SOURCE_AWAY, Fault.LOOP} & resolve.ACCEPTED == set()
    assert visible(tmp_path) == {"a.log": READ}


def test_files_of_another_store_are_not_renamed(tmp_path: Path) -> None:
    found = of(tmp_path, tmp_path / "a.log")
    elsewhere = Reads(found.survey, found.spark, "s3a://bucket/logs", found.held)
    faulty = Faulty("s3a://bucket/logs/a.log", Fault.NEVER_READ)
    for work in (elsewhere.exclude, elsewhere.reread):
        with pytest.raises(StateError, match="is not on this machine"):
            work(faulty)


def test_a_file_without_a_fault_is_not_touched(tmp_path: Path) -> None:
    faults = [Faulty(f"{tmp_path}/caf\udce9.log", Fault.NAME)]
    assert chosen([f"{tmp_path}/caf\\udce9.log"], faults) == chosen([f"{tmp_path}/caf\udce9.log"], faults) == faults
    with pytest.raises(StateError, match=r"other\.log has no fault"):
        chosen([f"{tmp_path}/other.log"], faults)
