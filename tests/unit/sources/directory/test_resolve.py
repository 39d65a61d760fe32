"""Resolving a fault loses no line and counts none twice."""

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from errno import EROFS
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelake.common.errors import StateError
from oncelake.exactly_once.files import LocalFiles
from oncelake.sources.directory import resolve
from oncelake.sources.directory.accepted import read_accepted
from oncelake.sources.directory.bronze_files import BronzeFiles, ReadFile
from oncelake.sources.directory.census import CensusInputs, Fault, Faulty, take
from oncelake.sources.directory.listing import listing
from oncelake.sources.directory.resolve import Chosen, Resolve, chosen

READ = b"one\ntwo\n"
MADE = 1_400_000_000_000


class Reads(Resolve):
    """Assumes whether a file holds the lines that bronze has of it, because without Spark nothing can check it."""

    holds = False

    def _holds_lines_read(self, faulty: Faulty) -> bool:
        del faulty
        return self.holds


def of(root: Path | str, *read: Path, listed: Collection[str] = ()) -> Resolve:
    files = [ReadFile(f"file://{path}", 2, len(READ), 0, 0, len(READ), MADE, steady=True) for path in read]
    bronze = SimpleNamespace(log=SimpleNamespace(table_id=lambda: "now"), spark=None, stage="bronze")
    held = BronzeFiles(cast(Any, object()), files, None, cast(Any, None))
    return Reads(cast(Any, bronze), str(root), held, listed, "now")


def holding(resolve: Resolve) -> Resolve:
    """Assume that the files hold the lines that bronze has of them."""
    object.__setattr__(resolve, "holds", True)
    return resolve


def grown(path: Path, content: bytes) -> Faulty:
    path.write_bytes(content)
    return Faulty(str(path), Fault.GREW, *state(path), len(READ))


def state(path: Path) -> tuple[int, int]:
    at = path.stat()
    return at.st_size, at.st_mtime_ns // 1_000_000


def visible(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in root.iterdir() if not path.name.startswith(".")}


@pytest.mark.parametrize("name", ["a.log", "a.log.gz"])
def test_a_file_that_grew_is_not_read_again(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(StateError, match="it holds the lines that bronze has of it, and they would count twice"):
        holding(of(tmp_path, path)).reread(grown(path, READ + b"x"))
    assert visible(tmp_path) == {name: READ + b"x"}


def test_a_file_is_renamed_only_to_a_name_in_the_source(tmp_path: Path) -> None:
    path = tmp_path / "app-1.log"
    path.write_bytes(READ)
    for root in (path, f"{tmp_path}/app-[0-9].log", f"{tmp_path}/{{app-1,b}}.log"):
        with pytest.raises(StateError, match=r"source\.path .* does not match .*app-1\.reread-1\.log"):
            of(root, path).reread(Faulty(str(path), Fault.CHANGED, *state(path)))
        assert visible(tmp_path) == {"app-1.log": READ}
    of(f"{tmp_path}/app-*", path).reread(Faulty(str(path), Fault.CHANGED, *state(path)))
    assert visible(tmp_path) == {"app-1.reread-1.log": READ}


def test_an_unreadable_name_below_a_pattern_is_renamed(tmp_path: Path) -> None:
    (tmp_path / "app-1").mkdir()
    bad = tmp_path / "app-1" / "x:y.log"
    bad.write_bytes(b"x\n")
    of(f"{tmp_path}/app-*").reread(Faulty(str(bad), Fault.COLON, *state(bad)))
    assert (tmp_path / "app-1" / "x-y.log").read_bytes() == b"x\n"


def test_a_colon_beside_a_pattern_is_resolved_by_each_command(tmp_path: Path) -> None:
    (tmp_path / "app-1").mkdir()
    for name, command in (("x:y", "exclude"), (".h:y", "exclude"), ("app:2", "reread")):
        (tmp_path / name).mkdir()
        (faulty,) = faults(f"{tmp_path}/app-*")
        getattr(of(f"{tmp_path}/app-*"), command)(faulty)
        assert faults(f"{tmp_path}/app-*") == []


def test_a_replaced_file_gets_a_name_that_was_never_used(tmp_path: Path) -> None:
    """Spark reads no file with a name that it has listed, and a file with that name was one that bronze has read."""
    path = tmp_path / "a.log"
    (tmp_path / "a.reread-1.log").write_bytes(b"other\n")
    found = of(tmp_path, path, tmp_path / "a.reread-2.log", listed=[str(tmp_path / "a.reread-3.log")])
    said = found.reread(grown(path, READ + b"x\n"))
    assert said.endswith("a.reread-4.log")
    assert visible(tmp_path) == {"a.reread-1.log": b"other\n", "a.reread-4.log": READ + b"x\n"}


def test_a_path_is_renamed_at_its_first_unreadable_part(tmp_path: Path) -> None:
    bad = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"d\xff:x")))  # noqa: PTH118
    bad.mkdir()
    (bad / "a.log").write_bytes(b"x\n")
    of(tmp_path, bad).reread(Faulty(str(bad / "a.log"), Fault.NAME, *state(bad / "a.log")))
    assert (tmp_path / "d%FF-x" / "a.log").read_bytes() == b"x\n"
    bad.mkdir()
    (bad / "a.log").write_bytes(b"x\n")
    of(tmp_path, bad).reread(Faulty(str(bad / "a.log"), Fault.NAME, *state(bad / "a.log")))
    assert (tmp_path / "d%FF-x.reread-2").is_dir()
    gone = Faulty(str(tmp_path / "gone.log"), Fault.NEVER_READ, 2, 0)
    with pytest.raises(StateError, match=r"gone\.log cannot be renamed"):
        of(tmp_path, bad).reread(gone)


def test_a_directory_with_files_in_bronze_is_not_renamed(tmp_path: Path) -> None:
    bad = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"d\xff")))  # noqa: PTH118
    bad.mkdir()
    (bad / "b.log").write_bytes(b"x\n")
    with pytest.raises(StateError, match="has files that bronze has read"):
        of(tmp_path, bad / "a.log").reread(Faulty(str(bad / "b.log"), Fault.NAME, *state(bad / "b.log")))
    (tmp_path / "é.log").write_bytes(b"x\n")
    with pytest.raises(StateError, match="reads names in another encoding"):
        of(tmp_path).reread(Faulty(str(tmp_path / "é.log"), Fault.NAME, *state(tmp_path / "é.log")))


def test_files_of_one_directory_are_renamed_with_it(tmp_path: Path) -> None:
    bad = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"d\xff")))  # noqa: PTH118
    bad.mkdir()
    for name in "ab":
        (bad / name).write_bytes(b"x\n")
    first, second = faults(str(tmp_path))
    of(tmp_path).reread(first)
    assert "because its directory was renamed" in of(tmp_path).reread(second)
    assert faults(str(tmp_path)) == []


def test_a_file_that_changed_after_the_census_is_not_renamed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x\n")
    faulty = Faulty(str(path), Fault.CHANGED, *state(path))
    found = of(tmp_path, path)
    with pytest.raises(StateError, match="has changed since the census"):
        replace(found, table_id="before a rebuild").reread(faulty)
    path.write_bytes(b"x\ny\n")
    with pytest.raises(StateError, match="has changed since the census"):
        found.reread(faulty)
    assert visible(tmp_path) == {"a.log": b"x\ny\n"}


def test_an_incomplete_file_is_not_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "broken_of", lambda _, paths: paths)
    path = tmp_path / "a.log.gz"
    path.write_bytes(b"x\n")
    with pytest.raises(StateError, match="cannot be read to its end"):
        of(tmp_path, path).reread(Faulty(str(path), Fault.SHRANK, *state(path)))
    assert visible(tmp_path) == {"a.log.gz": b"x\n"}


def test_a_file_is_not_excluded_by_a_hidden_name_that_the_pattern_matches(tmp_path: Path) -> None:
    (tmp_path / "x:y").mkdir()
    (faulty,) = faults(f"{tmp_path}/*")
    with pytest.raises(StateError, match=r"matches \S+/\.x-y too, so it would be read"):
        of(f"{tmp_path}/*").exclude(faulty)
    (tmp_path / "x:y").rename(tmp_path / ".x:y")
    with pytest.raises(StateError, match="would be ignored, as its name starts"):
        of(f"{tmp_path}/*").reread(*faults(f"{tmp_path}/*"))


def test_a_file_with_lines_in_bronze_is_not_excluded(tmp_path: Path) -> None:
    for path in (tmp_path / "sub" / "a.log", tmp_path / "sub"):
        with pytest.raises(StateError, match="has lines in bronze"):
            of(tmp_path, tmp_path / "sub" / "a.log").exclude(Faulty(str(path), Fault.RIGHTS))


def test_only_the_link_of_a_loop_is_renamed(tmp_path: Path) -> None:
    """The source's path leads through a link, so the repeated directory is below the link's target."""
    (tmp_path / "real" / "dir" / "logs" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "dir")
    logs = tmp_path / "link" / "logs"
    (logs / "deep" / "up").symlink_to(tmp_path / "real")
    (faulty,) = faults(str(logs))
    assert (faulty.fault, faulty.path) == (Fault.LOOP, str(logs / "deep" / "up"))
    with pytest.raises(StateError, match="is no longer a link"):
        of(logs).exclude(Faulty(str(logs / "deep"), Fault.LOOP))
    of(logs).exclude(faulty)
    assert faults(str(logs)) == []
    assert (logs / "deep" / ".up").is_symlink()


def test_each_fault_has_only_the_commands_that_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(READ)
    found = of(tmp_path, path)
    for fault in Fault:
        faulty = Faulty(str(path), fault)
        for allowed, work in (
            (resolve.ACCEPTED, lambda each: resolve.accept([(found, each)])),
            (resolve.EXCLUDED, found.exclude),
            (resolve.REREAD, found.reread),
        ):
            if fault not in allowed:
                with pytest.raises(StateError, match="cannot be"):
                    work(faulty)
    assert {Fault.GREW, Fault.SHRANK, Fault.CHANGED} & resolve.EXCLUDED == set()
    assert {Fault.GONE, Fault.BLOCKED, Fault.PLAN_CHANGED, Fault.SOURCE_AWAY, Fault.LOOP} & resolve.ACCEPTED == set()
    assert visible(tmp_path) == {"a.log": READ}


@pytest.mark.parametrize("command", [resolve.exclude, resolve.reread])
def test_files_of_all_sources_are_checked_before_the_first_is_renamed(
    tmp_path: Path, command: Callable[[Chosen], Iterator[str]]
) -> None:
    first, second = never_read(tmp_path / "one"), never_read(tmp_path / "two")
    wrong = replace(second[1], fault=Fault.BLOCKED)
    with pytest.raises(StateError, match=r"two/a\.log \(not read\) cannot be"):
        list(command([first, (second[0], wrong)]))
    assert visible(tmp_path / "one") == visible(tmp_path / "two") == {"a.log": READ}


@pytest.mark.parametrize("command", [resolve.exclude, resolve.reread])
def test_no_file_is_renamed_if_another_is_gone_since_the_census(
    tmp_path: Path, command: Callable[[Chosen], Iterator[str]]
) -> None:
    first, second = never_read(tmp_path / "one"), never_read(tmp_path / "two")
    Path(second[1].path).unlink()
    with pytest.raises(StateError, match=r"two/a\.log no longer exists; no file was renamed"):
        list(command([first, second]))
    assert visible(tmp_path / "one") == {"a.log": READ}


def test_a_file_of_a_source_that_could_not_be_checked_is_named_with_the_reason() -> None:
    with pytest.raises(StateError, match=r"/logs/a\.log is not at fault; the directory cannot be listed\. To list"):
        resolve.chosen(["/logs/a.log"], [], ["the directory cannot be listed"])


@pytest.mark.parametrize(
    ("command", "before"), [(resolve.exclude, resolve.excluded_before), (resolve.reread, resolve.reread_before)]
)
def test_a_rename_that_fails_after_others_names_them_and_the_command_can_be_given_again(
    tmp_path: Path,
    command: Callable[[Chosen], Iterator[str]],
    before: Callable[[str], str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [never_read(tmp_path / name) for name in ("one", "two")]
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if path.parent.name == "two":
            raise OSError(EROFS, os.strerror(EROFS))
        return rename(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail)
        done = command(found)
        line = next(done)
        with pytest.raises(StateError, match=r"two/a\.log cannot be renamed .* Before it: .*one/a\.log is") as failed:
            next(done)
    assert line in str(failed.value)
    assert visible(tmp_path / "two") == {"a.log": READ}
    said, other = (before(str(tmp_path / name / "a.log")) for name in ("one", "two"))
    assert other is None
    assert said == line.replace(": ", " already: ", 1)
    assert before(str(tmp_path / "one" / "b.log")) is None
    assert list(command(found[1:]))


def test_a_directory_that_may_not_be_written_is_known_before_the_first_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [never_read(tmp_path / name) for name in ("one", "two")]
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "two")
    with pytest.raises(StateError, match=r"two/a\.log cannot be renamed .*Permission denied"):
        list(resolve.exclude(found))
    assert visible(tmp_path / "one") == {"a.log": READ}


def test_the_loss_of_files_of_several_sources_is_accepted_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    files, lake = LocalFiles(), str(tmp_path / "lake")
    found = [never_read(tmp_path / name) for name in ("one", "two")]
    for source, _ in found:
        source.ingestion.__dict__.update(files=files, root=lake)
    with pytest.raises(StateError, match="cannot be accepted"):
        resolve.accept([found[0], (found[1][0], replace(found[1][1], fault=Fault.BLOCKED))])
    assert read_accepted(files, lake) == frozenset()
    assert len(resolve.accept(found)) == 2
    assert read_accepted(files, lake) == {faulty.key for _, faulty in found}
    assert len(files.names(f"{lake}/_census")) == 1  # so a crash cannot part them


def never_read(root: Path) -> tuple[Resolve, Faulty]:
    """Make a source with one file that no run reads."""
    root.mkdir()
    path = root / "a.log"
    path.write_bytes(READ)
    return of(root), Faulty(str(path), Fault.NEVER_READ, *state(path))


def faults(root: str) -> list[Faulty]:
    """Account for a source of which bronze has read nothing."""
    return take(listing(root), CensusInputs({}, 0, 0, {}, may_start=True, may_read=lambda _: True)).faults


def test_files_of_another_store_are_not_renamed() -> None:
    elsewhere = of("s3a://bucket/logs")
    faulty = Faulty("s3a://bucket/logs/a.log", Fault.NEVER_READ)
    for work in (elsewhere.exclude, elsewhere.reread):
        with pytest.raises(StateError, match="is not on this machine"):
            work(faulty)


def test_a_file_without_a_fault_is_not_touched(tmp_path: Path) -> None:
    at_fault = [Faulty(f"{tmp_path}/caf\udce9.log", Fault.NAME)]
    names = [f"{tmp_path}/caf\\udce9.log", f"{tmp_path}/caf\udce9.log"]
    assert chosen(names, at_fault) == at_fault
    with pytest.raises(StateError, match=r"other\.log is not at fault"):
        chosen([f"{tmp_path}/other.log"], at_fault)
