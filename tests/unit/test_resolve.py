"""What resolves a fault of a source refuses what it cannot do, and changes nothing then; no Spark is needed."""

import os
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipelines.errors import StateError
from pipelines.exactly_once.census import Fault, Faulty
from pipelines.proof.census import Held
from pipelines.proof.read_files import ReadFile
from pipelines.resolve import Resolve, chosen
from tests.house import House

NO_SPARK = cast(SparkSession, None)


@pytest.fixture
def house(tmp_path: Path) -> House:
    """A source of a file that bronze has read two bytes of."""
    house = House(tmp_path)
    (house.logs / "a.log").write_text("x\nmore\n")
    return house


def resolve(house: House, root: str = "") -> Resolve:
    read = ReadFile(f"file://{house.logs / 'a.log'}", 1, 2, 1, 1, 2, 1, steady=True)
    held = Held(cast(DataFrame, object()), [read], '{"logOffset":0}')
    return Resolve(house.survey(), NO_SPARK, root or str(house.logs), held)


def faulty(house: House, fault: Fault, name: str = "a.log", was: int = 2) -> Faulty:
    return Faulty(str(house.logs / name), fault, 7, 1, was)


def names(house: House) -> list[str]:
    return sorted(path.name for path in house.logs.iterdir())


@pytest.mark.parametrize("fault", [Fault.LOOP, Fault.GONE, Fault.BLOCKED, Fault.RIGHTS, Fault.SOURCE_AWAY, Fault.COLON])
def test_what_no_acceptance_resolves_is_not_accepted(house: House, fault: Fault) -> None:
    with pytest.raises(StateError, match=rf"\({fault}\) cannot be accepted; that is for: "):
        resolve(house).accept([faulty(house, Fault.GREW), faulty(house, fault)])
    assert not house.lake.exists()


@pytest.mark.parametrize("fault", [Fault.GREW, Fault.SHRANK, Fault.CHANGED])
def test_a_file_whose_lines_bronze_holds_is_not_excluded(house: House, fault: Fault) -> None:
    with pytest.raises(StateError, match="cannot be excluded"):
        resolve(house).exclude(faulty(house, fault))
    assert names(house) == ["a.log"]


def test_files_on_another_store_are_not_renamed(house: House) -> None:
    for does in (resolve(house, "s3a://logs").exclude, resolve(house, "s3a://logs").reread):
        with pytest.raises(StateError, match="s3a://logs is not on this machine"):
            does(faulty(house, Fault.NEVER_READ))
    assert names(house) == ["a.log"]


def test_what_was_added_to_a_compressed_file_is_not_guessed(house: House) -> None:
    with pytest.raises(StateError, match=r"a\.log\.gz is compressed.*oncelake census accept"):
        resolve(house).reread(faulty(house, Fault.GREW, "a.log.gz"))


def test_a_name_without_a_fault_is_refused(house: House) -> None:
    fault = faulty(house, Fault.GREW)
    assert chosen([fault.path], [fault]) == [fault]
    with pytest.raises(StateError, match=r"b\.log has no fault; those that have are listed by: oncelake census"):
        chosen([fault.path, "b.log"], [fault])


def test_a_file_is_not_renamed_over_another_one(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    (house.logs / ".a.log").write_text("there\n")
    with pytest.raises(StateError, match=r"a\.log is not renamed: .*/\.a\.log is there already"):
        resolve(house).exclude(faulty(house, Fault.NEVER_READ))
    assert (house.logs / ".a.log").read_text() == "there\n"
    monkeypatch.setattr(os.path, "lexists", lambda _: True)
    with pytest.raises(StateError, match="all names of its kind are there already"):
        resolve(house).reread(faulty(house, Fault.NEVER_READ))


def test_a_file_that_cannot_be_renamed_is_one_line(house: House) -> None:
    with pytest.raises(StateError, match=r"gone\.log cannot be renamed to .* \(No such file or directory\)"):
        resolve(house).exclude(faulty(house, Fault.NEVER_READ, "gone.log"))


def test_a_file_that_changes_while_it_is_split_is_left_as_it_is(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StateError, match=r"a\.log was cut short while it was copied; nothing was changed"):
        resolve(house).reread(faulty(house, Fault.GREW, was=100))
    assert names(house) == ["a.log"]
    monkeypatch.setattr("pipelines.resolve.same_lines_as", lambda *_: [("a", "b")])
    (house.logs / "a.added-2-100.log").write_text("what an earlier command has put there\n")
    with pytest.raises(StateError, match=r"a\.log is still being written to; end its writer, then run this again"):
        resolve(house).reread(faulty(house, Fault.GREW))
    assert (house.logs / "a.log").read_text() == "x\nmore\n"
