"""While the proof holds, no file's lines are missing; each fault has a command, after which the proof holds again."""

import gzip
import os
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelake.common.errors import StageError
from oncelake.common.table_rows import TableRows
from oncelake.engine.chain import Chain
from oncelake.engine.rebuild import Rebuild
from oncelake.engine.runner import Run
from oncelake.exactly_once.batch import Batch
from oncelake.observe.progress import Progress
from oncelake.proof.prove import Proof
from oncelake.sources.files.kind import ANY_AGE
from tests.support.house import House, Recorder
from tests.support.packed import damaged_bz2

pytestmark = pytest.mark.spark

LINE = b"2017-07-30 14:09:08 ERROR "


def line(name: str) -> bytes:
    return LINE + name.encode()


def read(house: House, spark: SparkSession, work: object = None) -> None:
    """Run bronze alone; call `work` first in each batch, if given."""
    chain = house.chain(spark)
    bronze = chain.stages[0]
    if work is not None:
        write = bronze.write

        def disturbed(lines: DataFrame, batch: Batch) -> None:
            work(batch.batch_id)  # type: ignore[operator]
            write(lines, batch)

        bronze = replace(bronze, write=disturbed)
    part = replace(chain, stages=(bronze,))
    Run(part, spark, Progress(part, Recorder(house.reports)), threading.Event()).once()


def rebuilt(house: House, spark: SparkSession) -> None:
    """Rebuild bronze alone."""
    chain = house.chain(spark)
    part = replace(chain, stages=chain.stages[:1])

    def replay(chain: Chain) -> None:
        Run(chain, spark, Progress(chain, Recorder(house.reports)), threading.Event()).once()

    Rebuild(part, spark, part.stages, replay, house.said.append).go(accept_loss=False)


def fault_of(house: House, spark: SparkSession) -> list[str]:
    chain = house.chain(spark)
    part = replace(chain, stages=chain.stages[:2])  # a proof reads silver, which does not exist yet
    return [link.said for link in Proof(part, TableRows(lambda: spark)).links() if not link.holds]


def notes_of(house: House, spark: SparkSession) -> str:
    chain = house.chain(spark)
    part = replace(chain, stages=chain.stages[:2])
    links = list(Proof(part, TableRows(lambda: spark, with_spark=True), deep=True).links())
    assert all(link.holds for link in links), [link.said for link in links]
    return " ".join(metadata for link in links for metadata in link.notes)


def held(house: House) -> Counter[bytes]:
    return Counter(row["value"] for row in house.rows("bronze/access_log"))


def must_hold(house: House, spark: SparkSession, lines: Iterable[bytes]) -> None:
    read(house, spark)
    assert fault_of(house, spark) == []
    assert held(house) == Counter(lines)


def test_a_planned_file_that_was_away_is_read_when_it_is_back(house: House, spark: SparkSession) -> None:
    house.sets.append("source.max_bytes_per_batch=1")
    names = [f"{number}.log" for number in range(4)]
    for number, name in enumerate(names):
        house.write(name, line(name))
        os.utime(house.logs / name, (1_500_000_000 + number, 1_500_000_000 + number))

    def take_away(batch: int) -> None:
        if batch == 1:
            (house.logs / "3.log").rename(house.root / "away.log")

    with pytest.raises(StageError, match=r"3\.log: planned for this batch, and missing when Spark listed it again"):
        read(house, spark, take_away)
    said = fault_of(house, spark)
    assert "3.log: it was planned for a batch and disappeared before it was read" in said[0]
    (house.root / "away.log").rename(house.logs / "3.log")
    must_hold(house, spark, map(line, names))


def test_a_file_that_changes_while_it_is_read_stops_the_stage(house: House, spark: SparkSession) -> None:
    """Spark reads the line that begins where the file ended when it was listed."""
    house.sets.append("run.small_batch=0")
    house.write("a.log", line("a"))
    house.write("b.log", line("b"))

    def grow(_: int) -> None:
        with (house.logs / "a.log").open("ab") as file:
            file.write(line("more") + b"\n")

    chain = house.chain(spark)
    write = chain.stages[0].write
    bronze = replace(chain.stages[0], write=lambda lines, batch: write(lines, Late(batch, grow)))  # type: ignore[arg-type]
    part = replace(chain, stages=(bronze,))
    chain_run = Run(part, spark, Progress(part, Recorder(house.reports)), threading.Event())
    with pytest.raises(StageError, match=r"a file changed while it was read, probably \S+a\.log\. The batch is in"):
        chain_run.once()
    assert fault_of(house, spark) != []
    rebuilt(house, spark)
    assert fault_of(house, spark) == []
    assert held(house) == Counter([line("a"), line("more"), line("b")])


def test_a_small_batch_with_a_file_that_changes_while_it_is_read_writes_nothing(
    house: House, spark: SparkSession
) -> None:
    house.write("a.log", line("a"))
    house.write("b.log", line("b"))

    def grow(_: int) -> None:
        with (house.logs / "a.log").open("ab") as file:
            file.write(line("more") + b"\n")

    with pytest.raises(StageError, match=r"probably \S+a\.log\. Nothing of the batch was written"):
        read(house, spark, grow)
    assert house.size("bronze/access_log") == 0
    house.run(spark)
    assert fault_of(house, spark) == []
    assert held(house) == Counter([line("a"), line("more"), line("b")])


class Late:
    """A batch that calls something after the check of the plan, right before the table is written."""

    def __init__(self, batch: Batch, work: object) -> None:
        self._batch, self._work = batch, work

    def __getattr__(self, name: str) -> object:
        return getattr(self._batch, name)

    def collect(self, *arguments: object) -> object:
        self._work(self._batch.batch_id)  # type: ignore[operator]
        return self._batch.collect(*arguments)  # type: ignore[arg-type]

    def append(self, *arguments: object) -> object:
        if self._batch.small_batches is None:
            self._work(self._batch.batch_id)  # type: ignore[operator]
        return self._batch.append(*arguments)  # type: ignore[arg-type]


def test_a_file_that_was_empty_when_listed_is_named_and_read_after_a_rename(house: House, spark: SparkSession) -> None:
    house.write("a.log", line("a"))
    (house.logs / "later.log").touch()
    (house.logs / "nothing.log.gz").write_bytes(gzip.compress(b""))
    must_hold(house, spark, [line("a")])
    with (house.logs / "later.log").open("wb") as file:
        file.write(line("later") + b"\n")
    read(house, spark)
    (said,) = fault_of(house, spark)
    assert "later.log: bronze has no line of it" in said
    assert "changed after being read" in house.tell(spark, "status")
    said = house.tell(spark, "census", "reread", str(house.logs / "later.log"))
    assert "later.log is now" in said
    assert fault_of(house, spark) == []
    must_hold(house, spark, [line("a"), line("later")])


def renamed_from_a(house: House, spark: SparkSession, *more: str) -> Path:
    """Read a.log and others, and let a run recognize b.log as the new name of a.log."""
    for name in ("a", *more):
        house.write(f"{name}.log", line(name), line(f"{name} again"))
    read(house, spark)
    moved = (house.logs / "a.log").rename(house.logs / "b.log")
    must_hold(house, spark, [each for name in ("a", *more) for each in (line(name), line(f"{name} again"))])
    return moved


def test_a_renamed_file_with_another_time_is_the_same_file(house: House, spark: SparkSession) -> None:
    moved = renamed_from_a(house, spark)
    os.utime(moved)
    assert fault_of(house, spark) == []
    assert "is not at fault" in house.tell(spark, "census", "reread", str(moved), expect=1)
    moved.write_bytes(moved.read_bytes()[:-1])
    assert fault_of(house, spark) == []
    rebuilt(house, spark)
    must_hold(house, spark, [line("a"), line("a again")])


def test_a_renamed_file_that_grew_is_named_and_never_counted_twice(house: House, spark: SparkSession) -> None:
    moved = renamed_from_a(house, spark)
    with moved.open("ab") as file:
        file.write(line("added") + b"\n")
    (said,) = fault_of(house, spark)
    assert "b.log holds the lines of " in said
    assert "a.log, which was read and is gone, and more, which are not in bronze; give it that name again" in said
    assert "would count twice" in house.tell(spark, "census", "reread", str(moved), expect=1)
    house.tell(spark, "census", "accept", str(moved))
    assert fault_of(house, spark) == []
    assert "count under both names" not in notes_of(house, spark)
    rebuilt(house, spark)
    must_hold(house, spark, [line("a"), line("a again"), line("added")])


def test_a_renamed_file_with_other_lines_is_a_changed_one(house: House, spark: SparkSession) -> None:
    moved = renamed_from_a(house, spark)
    house.write("b.log", line("other"))
    assert "b.log: its lines changed after they were read" in fault_of(house, spark)[0]
    house.tell(spark, "census", "reread", str(moved))
    must_hold(house, spark, [line("a"), line("a again"), line("other")])


def test_a_file_that_took_the_place_of_an_empty_one_is_compared_with_those_that_are_gone(
    house: House, spark: SparkSession
) -> None:
    """Of two files with the lines of one that is gone, one is its other name: the second one is read."""
    (house.logs / "copy.log").touch()
    (house.logs / "place.log").touch()
    moved = renamed_from_a(house, spark, "c")
    (house.logs / "copy.log").write_bytes(moved.read_bytes())
    place = (house.logs / "c.log").rename(house.logs / "place.log")
    os.utime(place)
    (said,) = fault_of(house, spark)
    assert "copy.log: bronze has no line of it" in said
    assert "place.log holds the lines of " in said
    assert "c.log, which was read and is gone: they count once, under that name" in said
    assert "would count twice" in house.tell(spark, "census", "reread", str(place), expect=1)
    house.tell(spark, "census", "reread", str(house.logs / "copy.log"))
    house.tell(spark, "census", "accept", str(place))
    lines = [line(name) for name in ("a", "a again", "c", "c again")]
    must_hold(house, spark, [*lines, *lines[:2]])


def test_a_file_that_still_holds_every_line_is_not_read_again(house: House, spark: SparkSession) -> None:
    lines = [line(f"{number}") for number in range(50)]
    for name in ("cut.log", "marked.log"):
        house.write(name, *lines)
    (house.logs / "packed.log.gz").write_bytes(gzip.compress(b"\n".join(lines), compresslevel=0))
    must_hold(house, spark, lines * 3)
    (house.logs / "cut.log").write_bytes((house.logs / "cut.log").read_bytes()[:-1])
    (house.logs / "marked.log").write_bytes(b"\xef\xbb\xbf" + (house.logs / "marked.log").read_bytes())
    (house.logs / "packed.log.gz").write_bytes(gzip.compress(b"\n".join(lines), compresslevel=9))
    (said,) = fault_of(house, spark)
    for name in ("cut.log shrank", "marked.log grew", "packed.log.gz shrank"):
        assert name in said
        path = str(house.logs / name.split()[0])
        assert "would count twice" in house.tell(spark, "census", "reread", path, expect=1)


def test_a_file_dated_far_ahead_hides_no_other(house: House, spark: SparkSession) -> None:
    assert ANY_AGE.removesuffix("ms") == str(2**63 - 1)
    house.write("ahead.log", line("ahead"))
    os.utime(house.logs / "ahead.log", (7_258_118_400, 7_258_118_400))
    must_hold(house, spark, [line("ahead")])
    house.write("now.log", line("now"))
    must_hold(house, spark, [line("ahead"), line("now")])


def test_links_patterns_and_special_names_are_read_and_counted(house: House, spark: SparkSession) -> None:
    """Spark enters a directory named `_metadata…`; a file moved out of it has another name, and is not read again."""
    house.write("a.log", line("a"))
    house.write("_metadata_of/b.log", line("b"))
    (house.root / "elsewhere").mkdir()
    (house.root / "elsewhere" / "c.log").write_bytes(line("c") + b"\n")
    (house.logs / "link").symlink_to(house.root / "elsewhere")
    (house.logs / "_spark_metadata").mkdir()  # the files that another stream leaves in its output directory
    must_hold(house, spark, map(line, "abc"))
    with (house.root / "elsewhere" / "c.log").open("ab") as file:
        file.write(b"more\n")
    (said,) = fault_of(house, spark)
    assert "link/c.log grew" in said
    other = House(house.root / "other")
    other.sets.append(f"source.path={house.logs.parent}/l*s")
    must_hold(other, spark, [*map(line, "abc"), b"more"])
    (house.logs / "_metadata_of" / "b.log").rename(house.logs / "b.log")
    must_hold(other, spark, [*map(line, "abc"), b"more"])
    assert "1 file is the new name of one that was read, and is not read again: b.log" in notes_of(other, spark)


def test_a_name_that_spark_cannot_read_is_reported_and_can_be_renamed_or_excluded(
    house: House, spark: SparkSession
) -> None:
    house.write("a.log", line("a"))
    odd = os.path.join(os.fsencode(house.logs), b"caf\xe9.log")  # noqa: PTH118
    Path(os.fsdecode(odd)).write_bytes(line("odd") + b"\n")
    (house.logs / "nowhere.log").symlink_to("gone")
    read(house, spark)
    (said,) = fault_of(house, spark)
    assert "its name is not UTF-8" in said
    assert "it is a broken link" in said
    assert "is not UTF-8" in house.tell(spark, "status")
    house.tell(spark, "census", expect=1)
    house.tell(spark, "census", "reread", os.fsdecode(odd))
    assert (house.logs / "caf%E9.log").exists()
    house.tell(spark, "census", "exclude", str(house.logs / "nowhere.log"))
    must_hold(house, spark, [line("a"), line("odd")])
    assert "2 read whole, 0 waiting, 1 hidden" in house.tell(spark, "census")


def test_appended_lines_are_read_by_a_rebuild_and_never_counted_twice(house: House, spark: SparkSession) -> None:
    house.write("a.log", line("a"))
    must_hold(house, spark, [line("a")])
    with (house.logs / "a.log").open("ab") as file:
        file.write(line("added") + b"\n")
    path = str(house.logs / "a.log")
    assert "a.log grew" in fault_of(house, spark)[0]
    house.tell(spark, "census", "exclude", path, expect=1)
    assert "would count twice" in house.tell(spark, "census", "reread", path, expect=1)
    rebuilt(house, spark)
    must_hold(house, spark, [line("a"), line("added")])


def test_a_replaced_file_is_read_after_a_rename_or_accepted(house: House, spark: SparkSession) -> None:
    for name in ("a.log", "b.log", "c.log"):
        house.write(name, line(name))
    must_hold(house, spark, map(line, ("a.log", "b.log", "c.log")))
    for name in ("a", "b"):
        house.write(f"{name}.log", line("others"), line("more"))
    house.write("c.log", line("C.log"))  # the same size, another time
    (said,) = fault_of(house, spark)
    assert "a.log grew" in said
    assert "c.log: its lines changed after they were read" in said
    house.tell(spark, "census", "reread", str(house.logs / "a.log"))
    house.tell(spark, "census", "accept", str(house.logs / "b.log"), str(house.logs / "c.log"))
    must_hold(house, spark, [*map(line, ("a.log", "b.log", "c.log")), line("others"), line("more")])
    assert "2 faults were accepted" in notes_of(house, spark)
    house.write("b.log", line("again"))
    assert "b.log" in fault_of(house, spark)[0]


def test_an_empty_or_missing_source_is_a_fault(house: House, spark: SparkSession) -> None:
    house.write("a.log", line("a"))
    must_hold(house, spark, [line("a")])
    (house.logs / "a.log").unlink()
    (said,) = fault_of(house, spark)
    assert "none of the files that bronze has read are left here" in said
    house.tell(spark, "census", "accept", str(house.logs))
    assert fault_of(house, spark) == []
    house.logs.rmdir()
    (said,) = fault_of(house, spark)
    assert "cannot be listed" in said
    house.tell(spark, "census", "accept", str(house.logs), expect=1)


def test_a_truncated_compressed_file_does_not_count_as_waiting(house: House, spark: SparkSession) -> None:
    whole = gzip.compress(line("packed") * 100 + b"\n")
    (house.logs / "a.log.gz").write_bytes(whole[:-20])
    house.write("b.log", line("b"))
    (house.logs / "c.log.gz").write_bytes(whole)
    (house.logs / "d.log.bz2").write_bytes(damaged_bz2())
    (said,) = fault_of(house, spark)
    assert "d.log.bz2: it is compressed or has a .crc checksum file, and cannot be read to its end" in said
    (house.logs / "d.log.bz2").unlink()
    assert "a.log.gz: its gzip data ends too early; it may still be written: it is set aside" in said
    assert "c.log.gz" not in said
    (house.logs / "a.log.gz").write_bytes(gzip.compress(line("a") + b"\n"))
    must_hold(house, spark, [line("a"), line("b"), line("packed") * 100])


def test_no_file_counts_as_waiting_if_bronze_would_not_start(house: House, spark: SparkSession) -> None:
    house.write("a.log", line("a"))
    must_hold(house, spark, [line("a")])
    house.write("b.log", line("b"))
    assert fault_of(house, spark) == []
    (house.checkpoint("bronze") / "metadata").unlink()
    (said,) = fault_of(house, spark)
    assert "b.log: it is not in bronze, and bronze cannot start" in said


def test_a_link_loop_is_refused_before_spark_follows_it(house: House, spark: SparkSession) -> None:
    house.write("sub/a.log", line("a"))
    (house.logs / "sub" / "loop").symlink_to("..")
    said = house.tell(spark, "run", "--once", expect=1)
    assert "loop: it is a link to a directory above it" in said
    house.tell(spark, "census", "exclude", str(house.logs / "sub" / "loop"))
    must_hold(house, spark, [line("a")])


def test_a_link_loop_is_refused_before_a_rebuild_removes_a_row(house: House, spark: SparkSession) -> None:
    house.write("sub/a.log", line("a"))
    must_hold(house, spark, [line("a")])
    (house.logs / "sub" / "loop").symlink_to("..")
    output = house.tell(spark, "rebuild", "bronze", expect=1)
    assert "loop: it is a link to a directory above it" in output
    assert house.size("bronze/access_log") == 1


def test_link_loops_that_a_run_meets_fail_its_listing_and_plan_no_batch(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.write("sub/a.log", line("a"))
    (house.logs / "sub" / "loop").symlink_to("..")
    (house.logs / "again").symlink_to("sub")  # with two of them, Spark's listing has no end
    monkeypatch.setattr("oncelake.sources.files.kind.loops", lambda _: [])  # they are made after the start
    output = house.tell(spark, "run", "--once", expect=1)
    assert "sub/loop: it is a link to a directory above it" in output
    assert output.splitlines()[-1].endswith(f"remove the link, or run: oncelake census exclude {house.logs}/again/loop")
    (house.logs / "sub" / "loop").unlink()
    (house.logs / "again").unlink()
    must_hold(house, spark, [line("a")])


def test_files_below_a_directory_with_a_colon_are_read(house: House, spark: SparkSession) -> None:
    house.write("2026-11-23T10:00/a.log", line("a"))
    must_hold(house, spark, [line("a")])
    house.write("2026-11-23T10:00/b.log", line("b"))
    must_hold(house, spark, map(line, "ab"))


def test_a_file_damaged_after_its_ingest_is_named_and_the_others_are_compared(
    house: House, spark: SparkSession
) -> None:
    whole = gzip.compress(line("packed") + b"\n")
    (house.logs / "a.log.gz").write_bytes(whole)
    house.write("b.log", line("b"))
    must_hold(house, spark, [line("packed"), line("b")])
    (house.logs / "a.log.gz").write_bytes(whole[:-6] + bytes([whole[-6] ^ 255]) + whole[-5:])
    house.write("b.log", line("B"))
    for path in house.logs.iterdir():
        os.utime(path, (1_000_000_000, 1_000_000_000))
    (said,) = fault_of(house, spark)
    assert "a.log.gz: its lines changed after they were read" in said
    assert "b.log: its lines changed after they were read" in said
    said = house.tell(spark, "census", "reread", str(house.logs / "a.log.gz"), expect=1)
    assert "cannot be read to its end, and would stop the run" in said
    house.tell(spark, "census", "accept", str(house.logs / "a.log.gz"), str(house.logs / "b.log"))
    assert fault_of(house, spark) == []
    house.tell(spark, "census", "reread", str(house.logs / "b.log"))  # accepted files are still readable
    must_hold(house, spark, map(line, ("packed", "b", "B")))


def test_a_deep_proof_names_a_file_with_corrupted_bytes(house: House, spark: SparkSession) -> None:
    whole = gzip.compress(line("packed") + b"\n")
    path = house.logs / "a.log.gz"
    path.write_bytes(whole)
    os.utime(path, (1_500_000_000, 1_500_000_000))
    house.write("b.log", line("b"))
    must_hold(house, spark, [line("packed"), line("b")])
    path.write_bytes(whole[:-6] + bytes([whole[-6] ^ 255]) + whole[-5:])
    os.utime(path, (1_500_000_000, 1_500_000_000))
    assert fault_of(house, spark) == []
    chain = house.chain(spark)
    links = Proof(replace(chain, stages=chain.stages[:2]), TableRows(lambda: spark), deep=True).links()
    (said,) = [link.said for link in links if not link.holds]
    assert "a.log.gz was changed after it was read: it can no longer be read to its end" in said


def test_a_pattern_whose_files_were_all_moved_is_a_fault_until_accepted(house: House, spark: SparkSession) -> None:
    house.sets.append(f"source.path={house.logs}/*.log")
    for name in "ab":
        house.write(f"{name}.log", line(name))
    must_hold(house, spark, map(line, "ab"))
    for path in house.logs.iterdir():
        path.unlink()
    (said,) = fault_of(house, spark)
    assert "none of the files that bronze has read are left here" in said
    house.tell(spark, "census", "accept", f"{house.logs}/*.log")
    assert fault_of(house, spark) == []
    house.write("c.log", line("c"))
    must_hold(house, spark, map(line, "abc"))
    (house.logs / "c.log").unlink()
    assert fault_of(house, spark) == []


def test_the_replacement_of_a_file_with_a_byte_order_mark_can_be_accepted(house: House, spark: SparkSession) -> None:
    (house.logs / "a.log").write_bytes(b"\xef\xbb\xbf" + line("a") + b"\n")
    must_hold(house, spark, [line("a")])
    house.write("a.log", line("others"))
    house.tell(spark, "census", "accept", str(house.logs / "a.log"))
    assert "1 fault was accepted" in notes_of(house, spark)


def test_a_path_with_dots_is_resolved_to_its_directory(house: House, spark: SparkSession) -> None:
    house.sets.append(f"source.path={house.root}/work/../{house.logs.name}")
    house.write("a.log", line("a"))
    must_hold(house, spark, [line("a")])
    with (house.logs / "a.log").open("ab") as file:
        file.write(b"more\n")
    (said,) = fault_of(house, spark)
    assert "a.log grew" in said


def test_a_compressed_file_that_grows_while_it_is_read_stops_the_stage(house: House, spark: SparkSession) -> None:
    house.sets.append("run.small_batch=0")
    lines = [line(str(number)) for number in range(3_000)]
    packed = gzip.compress(b"".join(text + b"\n" for text in lines))
    (house.logs / "a.log.gz").write_bytes(packed)

    def grow(_: int) -> None:
        (house.logs / "a.log.gz").write_bytes(packed + packed)

    with pytest.raises(StageError, match=r"a\.log\.gz: compressed, and its size changed after Spark listed it"):
        read(house, spark, grow)
    (said,) = fault_of(house, spark)
    assert "read all files again: oncelake rebuild bronze" in said
    rebuilt(house, spark)
    assert fault_of(house, spark) == []
    assert held(house) == Counter(lines * 2)


def test_a_file_with_wrong_checksums_does_not_count_as_waiting(house: House, spark: SparkSession) -> None:
    house.write("a.log", line("a"))
    must_hold(house, spark, [line("a")])
    house.write("b.log", line("b"))
    (house.logs / ".b.log.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"none")
    (said,) = fault_of(house, spark)
    assert "b.log: it is compressed or has a .crc checksum file, and cannot be read to its end" in said
    (house.logs / ".b.log.crc").unlink()
    must_hold(house, spark, map(line, "ab"))


def test_a_line_is_complete_whatever_maximum_length_hadoop_has(house: House, spark: SparkSession) -> None:
    long = line("a line of 60,000 letters" + "x" * 60_000)
    spark.conf.set("mapreduce.input.linerecordreader.line.maxlength", "50000")
    try:
        (house.logs / "a.log.gz").write_bytes(gzip.compress(long + b"\n"))
        must_hold(house, spark, [long])
    finally:
        spark.conf.unset("mapreduce.input.linerecordreader.line.maxlength")
