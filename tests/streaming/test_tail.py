"""Growing files: each line counts once, while they are rotated or cut, and after a deletion; the rest is named."""

import bz2
import gzip
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError, StateError
from oncelake.observe.trace.lineage import At
from oncelake.sources.tail.plan import TailFiles
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.lakes import BATCHES, LINES
from tests.support.tailing import pack

pytestmark = pytest.mark.spark

MORE = b"2017-07-30 14:12:59 ERROR six"
TEXT = [b"2017-07-30 14:09:08 ERROR " + b"%d" % number * 40 for number in range(400)]


@pytest.fixture
def house(house: House) -> House:
    house.sets = ["source.kind=tail"]
    return house


def append(house: House, *lines: bytes, name: str = "app.log") -> Path:
    """Append lines to a log, as the program does that writes it."""
    path = house.logs / name
    with path.open("ab") as file:
        file.write(b"".join(line + b"\n" for line in lines))
    return path


def test_lines_are_counted_as_a_log_grows_and_is_rotated(house: House, spark: SparkSession) -> None:
    log = append(house, *BATCHES[0])
    with log.open("ab") as file:
        file.write(MORE[:9])
    assert house.lakehouse(spark).run(once=True).without_end == [str(log)]
    assert "bronze: 1 file ends within a line, which waits for its end: app.log\n" in house.tell(spark, "status")
    house.must_be(BATCHES[0])
    with log.open("ab") as file:
        file.write(MORE[9:] + b"\n")
    log.rename(house.logs / "app.log.1")
    append(house, *BATCHES[1])
    house.run(spark)
    house.must_be([*BATCHES[0], MORE, *BATCHES[1]])
    pack(house.logs / "app.log.1")
    shutil.copyfile(log, house.logs / "app.log.2")
    log.write_bytes(b"")
    append(house, *BATCHES[2], MORE)
    reports = house.run(spark)
    house.must_be([*LINES, MORE, MORE])
    assert [report.rows for report in reports if report.stage == "bronze" and report.batch_id > 2] == []
    assert house.run(spark) == []
    links = house.lakehouse(spark).prove(full=True, deep=True).links
    assert [link.said for link in links if not link.holds] == []
    rows = house.rows("bronze/access_log")
    assert len({(row["file_id"], row["file_offset"]) for row in rows}) == len(rows)


@pytest.mark.parametrize("kind", ["files", "tail"])
def test_a_time_without_a_year_is_near_the_time_of_its_file(house: House, spark: SparkSession, kind: str) -> None:
    house.sets = [f"source.kind={kind}", "source.format=syslog"]
    stamp = datetime(2020, 3, 6, tzinfo=UTC).timestamp()
    os.utime(append(house, b"Mar  5 10:00:00 h a: x"), (stamp, stamp))
    house.run(spark)
    assert [row["log_time"] for row in house.rows("silver/access_log")] == [datetime(2020, 3, 5, 10, tzinfo=UTC)]


def test_a_big_log_of_records_is_split_between_tasks(house: House, spark: SparkSession) -> None:
    (house.root / "records.yaml").write_text(
        "pattern: '^(?<time>\\S+ \\S+) (?<level>\\S+) (?<message>.*)$'\ntime: yyyy-MM-dd HH:mm:ss\n"
        "record: {starts: '^\\d{4}-'}\n"
    )
    house.sets += [f"source.format={house.root / 'records.yaml'}", "source.max_bytes_per_batch=6MiB"]
    record = b"2017-07-30 14:09:08 ERROR %05d\n\tat " + b"x" * 300 + b"\n\n"
    (house.logs / "app.log").write_bytes(b"".join(record % number for number in range(60_000)))
    began = time.monotonic()
    house.run(spark)
    assert house.size("silver/access_log") == 60_000
    assert {row["message"][5:12] for row in house.rows("silver/access_log")} == {"\n\tat xx"}
    assert house.doubts(spark) == []
    assert time.monotonic() - began < 500


def test_a_file_that_is_cut_while_a_batch_reads_it_is_read_from_its_copy(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = append(house, *TEXT)
    planned: Callable[..., list[str]] = TailFiles.slices

    def cut(*args: object) -> list[str]:
        """Cut the file after the slices of the batch are told to Spark."""
        slices = planned(*args)
        if not (house.logs / "app.log.1").exists():
            shutil.copyfile(log, house.logs / "app.log.1")
            log.write_bytes(b"2017-07-30 14:09:08 ERROR another one\n" * 900)
        return slices

    monkeypatch.setattr(TailFiles, "slices", cut)
    house.run(spark)
    house.must_be([*TEXT, *[b"2017-07-30 14:09:08 ERROR another one"] * 900])
    assert house.doubts(spark) == []


def test_bytes_of_a_planned_batch_that_are_gone_stop_the_next_run_and_are_a_loss(
    house: House, spark: SparkSession
) -> None:
    log, other = append(house, *TEXT), append(house, MORE, name="other.log")
    commit = "bronze/access_log/_delta_log/00000000000000000001.json"
    with crashed(spark, commit, before=True), pytest.raises((StageError, Py4JJavaError)):
        house.run(spark)
    log.unlink()
    with pytest.raises(StateError, match=r"source trimmed: the planned batch needs bytes 0 to .* of file 0, which are"):
        house.run(spark)
    house.recover(spark, accept_loss=True)
    append(house, *BATCHES[0], name=other.name)
    house.run(spark)
    house.must_be([MORE, *BATCHES[0]])
    assert house.doubts(spark) == []
    notes = [note for link in house.lakehouse(spark).prove(full=True).links for note in link.notes]
    assert [note for note in notes if "accepts a loss: bytes 0 to" in note]


def test_what_is_not_read_is_named(house: House, spark: SparkSession) -> None:
    append(house, *BATCHES[0])
    house.run(spark)
    with (house.logs / "app.log").open("ab") as file:
        file.write(MORE)
    pack(house.logs / "app.log", keep=True)
    (house.logs / ".hidden").write_bytes(b"x\n")
    (house.logs / "written.gz").write_bytes(b"\x1f\x8b")
    (link,) = [link for link in house.lakehouse(spark).prove().links if link.name.startswith("files of")]
    assert link.holds
    assert link.said == f"0 files are read to the end, {len(MORE)} bytes in 1 file waiting for the next run"
    assert link.notes == (
        "1 file ends within a line, which waits for its end: app.log",
        "1 file is a copy and not read: app.log.gz of app.log",
        "1 file is ignored, as a name starts with _ or a dot: .hidden",
        "1 compressed file is not complete: written.gz",
    )
    (house.logs / "other.zst").write_bytes(b"x")
    (house.logs / "loop").symlink_to(house.logs)
    shutil.copyfile(house.logs / "app.log", house.logs / "app.log.1")
    (link,) = [link for link in house.lakehouse(spark).prove().links if link.name.startswith("files of")]
    assert not link.holds
    assert "loop: it is a link to a directory above it" in link.said
    assert "other.zst: its name ends in .zst, which is not unpacked; what is: .gz, .bz2: it is set aside" in link.said
    assert "app.log.1: its whole content is the beginning of app.log" in link.said
    house.run(spark)
    house.must_be(BATCHES[0])


def test_a_deep_proof_names_a_file_whose_beginning_was_changed(house: House, spark: SparkSession) -> None:
    log = append(house, *TEXT * 40)
    pack(append(house, *BATCHES[0], name="other.log"))
    append(house, *BATCHES[1], name="app.log-2026-11-28T10:00:00")
    house.run(spark)
    links = house.lakehouse(spark).prove(deep=True, full=True).links
    assert [link.said for link in links if not link.holds] == []
    (link,) = [link for link in links if link.uncompared]
    assert [part.said for part in link.uncompared] == [f"{len(BATCHES[1])} lines of files that were not read again"]
    assert link.notes[-1].endswith("Hadoop reads no name with a colon: app.log-2026-11-28T10:00:00")
    with log.open("r+b") as file:  # before the last megabyte, which each run compares
        file.seek(30)
        file.write(b"?")
    assert house.doubts(spark) == []
    (fault,) = [link.said for link in house.lakehouse(spark).prove(deep=True, full=True).links if not link.holds]
    assert fault == "no longer as they were read: app.log"


def test_names_with_the_characters_of_a_pattern_are_read_again_as_they_are(house: House, spark: SparkSession) -> None:
    names = ["a.log", "b.log", "br[a]{b,c}*.log", "q?.log", "d[1]/{e}.log", "back\\slash.log"]
    for name in names:
        house.write(name, *BATCHES[0], MORE)
    house.run(spark)
    links = house.lakehouse(spark).prove(deep=True, full=True).links
    assert [link.said for link in links if not link.holds] == []
    (well,) = [link.said for link in links if "→ bronze" in link.name]
    assert well.endswith("6 files read again and equal line by line")


def test_an_archive_with_zeros_behind_its_end_is_read_proven_and_rebuilt(house: House, spark: SparkSession) -> None:
    text = b"\n".join(BATCHES[0])  # the last line has no end, so the reader reads on to the end of the file
    for number, (name, data) in enumerate((("padded.gz", gzip.compress(text)), ("padded.bz2", bz2.compress(text)))):
        path = house.logs / str(number) / name
        path.parent.mkdir(parents=True)
        path.write_bytes(data + b"\0" * 10_240)
        os.utime(path, (1_500_000_000 + number, 1_500_000_000 + number))
    house.run(spark)
    house.must_be([*BATCHES[0], *BATCHES[0]])
    assert all(link.holds for link in house.lakehouse(spark).prove(full=True, deep=True).links)
    for name, data in (("gz", gzip.compress(b"%s\n" % MORE)), ("bz2", bz2.compress(b"%s\n" % MORE))):
        for what, behind in (("junk", b"junk"), ("half", data[: len(data) // 2])):
            path = house.logs / f"{what}.{name}"
            path.write_bytes(data + behind)
            os.utime(path, (1_500_000_000, 1_500_000_000))
    links = house.lakehouse(spark).prove(full=True, deep=True).links
    (fault,) = [link.said for link in links if not link.holds]
    assert [name for name in ("junk.gz", "half.gz", "junk.bz2", "half.bz2", "padded") if name in fault] == [
        *("junk.gz", "half.gz", "junk.bz2", "half.bz2")
    ]
    house.rebuild(spark, "bronze")
    house.must_be([*BATCHES[0], *BATCHES[0]])


def test_a_line_that_went_on_after_it_was_read_is_no_loss_of_a_rebuild(house: House, spark: SparkSession) -> None:
    packed, other = house.logs / "app.log.gz", append(house, MORE, name="other.log")
    packed.write_bytes(gzip.compress(b"\n".join(BATCHES[0])))
    os.utime(packed, (1_500_000_000, 1_500_000_000))  # its last line has no end, and is read as nothing is added
    house.run(spark)
    house.must_be([*BATCHES[0], MORE])
    with packed.open("ab") as file:
        file.write(gzip.compress(b" and more\n"))
    assert "oncelake rebuild bronze" in house.doubts(spark)[0]
    away = other.rename(house.root / other.name)
    with pytest.raises(StateError, match=r"1 line of bronze cannot be read again"):  # that of other.log alone
        house.rebuild(spark, "bronze")
    away.rename(other)
    house.rebuild(spark, "bronze")
    house.must_be([*BATCHES[0][:-1], BATCHES[0][-1] + b" and more", MORE])
    assert house.doubts(spark) == []


def test_a_log_and_an_archive_that_lost_their_ends_wait_for_nothing_and_go_on(
    house: House, spark: SparkSession
) -> None:
    members = [b"2017-07-30 14:10:0%d WARN of an archive" % number for number in range(6)]
    log, archive = append(house, *TEXT), house.logs / "other.log.gz"
    states = [b"".join(gzip.compress(line + b"\n") for line in members[:count]) for count in (4, 5)]
    for state in states:
        archive.write_bytes(state)
        house.run(spark)
    archive.write_bytes(states[0])
    os.truncate(log, sum(len(line) + 1 for line in TEXT[:-3]))
    assert house.run(spark) == []
    links = house.lakehouse(spark).prove().links
    (link,) = [link for link in links if link.name == f"files of {house.logs}"]
    assert (link.holds, link.uncompared) == (True, ())
    assert "2 files are read to the end" in link.said
    assert "wait" not in house.tell(spark, "status")
    append(house, MORE)
    archive.write_bytes(states[0] + gzip.compress(members[5] + b"\n"))
    house.run(spark)
    house.must_be([*TEXT, MORE, *members])
    links = house.lakehouse(spark).prove(full=True, deep=True).links
    assert [link.said for link in links if not link.holds] == []


def test_the_way_out_of_a_masked_log_that_was_cut_works(house: House, spark: SparkSession) -> None:
    house.sets.append("source.mask={rules: [{name: six, pattern: six, action: replace, text: seven}]}")
    log = append(house, *TEXT)
    house.run(spark)
    log.write_bytes(b"".join(line + b"\n" for line in TEXT[:-3]))
    append(house, MORE)
    house.run(spark)
    (fault,) = house.doubts(spark)
    assert (
        "oncelake rebuild bronze; if it finds lines of bronze in no file any more, --accept-loss goes on with" in fault
    )
    with pytest.raises(StateError, match=r"3 lines of bronze cannot be read again.*rebuild bronze --accept-loss"):
        house.rebuild(spark, "bronze")
    house.rebuild(spark, "bronze", accept_loss=True)
    assert house.size("bronze/access_log") == len(TEXT) - 2
    assert house.doubts(spark) == []


def test_a_deep_proof_leaves_out_an_archive_that_is_being_added_to(house: House, spark: SparkSession) -> None:
    append(house, *BATCHES[0])
    packed = pack(append(house, *BATCHES[1], name="other.log"))
    house.run(spark)
    with packed.open("ab") as file:
        file.write(gzip.compress(TEXT[0])[:-4])
    links = house.lakehouse(spark).prove(deep=True, full=True).links
    assert [link.said for link in links if not link.holds] == []
    (link,) = [link for link in links if link.notes and link.notes[-1].startswith("not read again")]
    assert [part.said for part in link.uncompared] == [f"{len(BATCHES[1])} lines of files that were not read again"]
    assert link.notes[-1] == "not read again, as it is compressed and not complete: other.log.gz"


def test_a_rebuild_asks_whether_a_file_is_a_copy_if_bronze_has_its_lines(house: House, spark: SparkSession) -> None:
    for name in ("one", "two"):
        (house.logs / name).mkdir()
        append(house, *BATCHES[0], name=f"{name}/app.log")
    house.run(spark)
    (house.logs / "one" / "app.log").rename(house.logs / "one" / "app.log.1")
    with pytest.raises(
        StateError, match=r"cannot be read again.*app\.log\.1: its whole content is the beginning of two"
    ):
        house.rebuild(spark, "bronze")
    house.sets = [*house.sets, "source.rotation=rename"]
    house.rebuild(spark, "bronze")
    house.must_be([*BATCHES[0], *BATCHES[0]])


def test_a_line_is_traced_by_the_name_that_its_file_had(house: House, spark: SparkSession) -> None:
    log, line = append(house, *BATCHES[0]), BATCHES[0][0]
    house.run(spark)
    append(house, line, line)  # it is no error that another batch has equal lines of the file
    house.run(spark)
    log.rename(house.logs / "app.log.1")
    steps = house.lakehouse(spark).trace("app.log:" + line.decode()).steps
    assert [step.at for step in steps] == [At.THERE, At.THERE, At.COUNTED]
    assert steps[0].row is not None
    assert (steps[0].row["file_id"], steps[0].row["file_offset"]) == (0, 0)
    assert "app.log (byte 0 of file 0)" in house.tell(spark, "trace", "app.log:" + line.decode())


def test_a_change_of_kind_is_another_source(house: House, spark: SparkSession) -> None:
    append(house, *BATCHES[0])
    house.run(spark)
    house.sets = []
    with pytest.raises(
        StateError,
        match=r"source replaced: lines were read from .*logs \(kind tail\), the source is now .*logs \(kind files\)",
    ):
        house.run(spark)


def test_a_directory_without_lines_is_no_batch(house: House, spark: SparkSession) -> None:
    (house.logs / "app.log").write_bytes(b"half")
    assert [report for report in house.run(spark) if report.stage == "bronze"] == []
    assert house.doubts(spark) == []


def test_a_remote_directory_is_refused(house: House, spark: SparkSession) -> None:
    house.sets += ["source.path=s3a://bucket/logs"]
    said = house.tell(spark, "run", "--once", expect=2)
    assert "source.path s3a://bucket/logs: kind tail follows files on this machine; give a local directory" in said


def test_the_census_lists_growing_files_and_a_file_that_is_set_aside_can_be_accepted(
    house: House, spark: SparkSession
) -> None:
    append(house, *BATCHES[0])
    house.run(spark)
    archive = house.logs / "app.tar.log"
    archive.write_bytes(b"PK\x03\x04" + b"x" * 50)
    assert "app.tar.log: it holds zip" in house.tell(spark, "census", "--list", expect=1)
    assert "app.tar.log: it holds zip" in " ".join(house.doubts(spark))
    house.tell(spark, "census", "accept", str(archive))
    proof = house.tell(spark, "prove")
    assert "not compared: 1 file that was set aside" in proof
    assert "every one" not in proof
    archive.write_bytes(b"PK\x03\x04" + b"y" * 60)
    assert "app.tar.log: it holds zip" in house.tell(spark, "prove", expect=1)
