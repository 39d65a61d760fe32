"""Files that hold no text, and files that were renamed after they were read, in the whole chain."""

import gzip
import lzma
import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from tests.support.house import House

pytestmark = pytest.mark.spark

LINE = b"2017-07-30 14:09:08 ERROR %s"


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.with_error_log(tmp_path)


def notes(house: House, spark: SparkSession) -> str:
    return "\n".join(note for link in house.lakehouse(spark).prove().links for note in link.notes)


def in_frames(lines: bytes) -> bytes:
    stream = pa.BufferOutputStream()
    with pa.CompressedOutputStream(stream, "lz4") as packed:
        packed.write(lines)
    return bytes(stream.getvalue())


def test_what_holds_no_text_is_set_aside_by_name_and_the_others_go_on(house: House, spark: SparkSession) -> None:
    many = LINE % b"many" + b"\n"
    whole = gzip.compress(many * 3)
    house.write("a.log", LINE % b"a")
    for name, held in (
        ("b.lz4", in_frames(many)),
        ("c.xz", lzma.compress(many)),
        ("d.log", gzip.compress(many)),
        ("e.gz", many),
        ("f.gz", whole + b"\0" * 512),
        ("g.gz", whole[:-9]),
        ("deep/h.log", many.decode().encode("utf-16")),
    ):
        path = house.logs / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(held)
    house.run(spark)
    house.must_be([LINE % b"a"])
    said = "\n".join(house.doubts(spark))
    for name in ("b.lz4: it holds lz4 frames", "c.xz: it holds xz", "d.log: it holds gzip", "e.gz: it holds no gzip"):
        assert name in said
    listed = house.tell(spark, "census", expect=1)
    for name in ("f.gz: behind the end of its gzip data are 512 zeros", "g.gz: its gzip data ends too early"):
        assert name in listed.replace("\n", " ")
    assert "7 at fault" in listed
    (house.logs / "g.gz").write_bytes(whole)
    (house.logs / "d.log").rename(house.logs / "d.log.gz")
    (house.logs / "f.gz").write_bytes(whole)
    house.run(spark)
    house.must_be([LINE % b"a", *[LINE % b"many"] * 7])
    rest = [str(house.logs / name) for name in ("b.lz4", "c.xz", "e.gz", "deep/h.log")]
    house.tell(spark, "census", "accept", *rest)
    assert house.doubts(spark) == []
    links = house.lakehouse(spark).prove().links
    assert [part.said for link in links for part in link.uncompared] == ["4 files that were set aside"]


def test_lines_behind_any_number_of_nuls_are_read(house: House, spark: SparkSession) -> None:
    """A program that does not append leaves a hole where its log was cut."""
    lines = [LINE % word for word in (b"a", b"b", b"c", b"d")]
    hole = b"\0" * 20_000
    (house.logs / "cut.log").write_bytes(hole + lines[0] + b"\n")
    (house.logs / "cut.log.gz").write_bytes(gzip.compress(hole + lines[1] + b"\n"))
    (house.logs / "marked.log").write_bytes(b"\xef\xbb\xbf" + b"\0" * 50 + lines[2] + b"\n" + hole + lines[3] + b"\n")
    house.run(spark)
    held = [row["value"] for row in house.rows("bronze/access_log")]
    assert sorted(value for value in held if value.strip(b"\0")) == lines
    assert len(held) == len(lines) * 2
    assert house.doubts(spark) == []


def test_a_file_that_changes_after_it_was_planned_is_refused_by_name(house: House, spark: SparkSession) -> None:
    house.write("a.log", LINE % b"a")
    chain = house.chain(spark)
    kind = next(iter(chain.kinds.values()))
    original = type(kind).write

    def changed(self: object, lines: object, batch: object, checkpoint: str) -> None:
        (house.logs / "a.log").write_bytes(gzip.compress(LINE % b"a"))
        original(self, lines, batch, checkpoint)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(kind), "write", changed)
        with pytest.raises(StageError, match=r"a\.log: it holds gzip, .*planned for this batch"):
            house.run(spark)
    house.write("a.log", LINE % b"a")
    house.run(spark)
    house.must_be([LINE % b"a"])


def test_a_renamed_file_is_not_read_again(house: House, spark: SparkSession) -> None:
    house.write("a.log", LINE % b"a", LINE % b"b")
    house.write("keep.log", LINE % b"kept")
    house.run(spark)
    (house.logs / "done").mkdir()
    moved = (house.logs / "a.log").rename(house.logs / "done" / "a+é %.log")
    house.write("new.log", LINE % b"new")
    house.run(spark)
    lines = [LINE % b"a", LINE % b"b", LINE % b"kept", LINE % b"new"]
    house.must_be(lines)
    assert house.doubts(spark) == []
    assert "is the new name of one that was read" in notes(house, spark)
    moved.rename(house.logs / "again.log")
    house.run(spark)
    house.must_be(lines)
    assert house.doubts(spark) == []
    house.rebuild(spark, "bronze")
    house.must_be(lines)
    assert house.doubts(spark) == []


def test_a_file_that_is_compressed_or_unpacked_is_not_read_again(house: House, spark: SparkSession) -> None:
    def gzip_of(*arguments: str) -> None:
        subprocess.run(["gzip", *arguments], cwd=house.logs, check=True)

    house.write("a.log", LINE % b"a", LINE % b"b")
    house.write("b.log", LINE % b"c")
    gzip_of("b.log")
    house.run(spark)
    gzip_of("a.log")
    gzip_of("-d", "b.log.gz")
    house.write("new.log", LINE % b"new")
    house.run(spark)
    lines = [LINE % word for word in (b"a", b"b", b"c", b"new")]
    house.must_be(lines)
    assert house.doubts(spark) == []
    assert "are the new names of some that were read, and are not read again" in notes(house, spark)
    gzip_of("-d", "a.log.gz")
    house.write("other.log", LINE % b"other")
    house.run(spark)
    house.must_be([*lines, LINE % b"other"])
    gzip_of("a.log")
    house.run(spark)
    house.rebuild(spark, "bronze")
    house.must_be([*lines, LINE % b"other"])
    assert house.doubts(spark) == []


def test_a_copy_and_a_file_with_other_lines_are_read(house: House, spark: SparkSession) -> None:
    house.write("a.log", LINE % b"a")
    at = (house.logs / "a.log").stat()
    house.run(spark)
    house.write("copy.log", LINE % b"a")
    os.utime(house.logs / "copy.log", ns=(at.st_atime_ns, at.st_mtime_ns))
    house.run(spark)
    house.must_be([LINE % b"a"] * 2)
    (house.logs / "a.log").unlink()
    house.write("other.log", LINE % b"b")
    house.write("second.log", LINE % b"a")
    house.write("third.log", LINE % b"a")
    for name in ("other.log", "second.log", "third.log"):
        os.utime(house.logs / name, ns=(at.st_atime_ns, at.st_mtime_ns))
    house.run(spark)
    house.must_be([LINE % b"a"] * 3 + [LINE % b"b"])
    assert house.doubts(spark) == []
    house.write("fourth.log", LINE % b"a")
    os.utime(house.logs / "fourth.log", ns=(at.st_atime_ns, at.st_mtime_ns))
    house.run(spark)
    house.must_be([LINE % b"a"] * 4 + [LINE % b"b"])


def test_a_renamed_file_is_read_again_if_the_settings_say_so(house: House, spark: SparkSession) -> None:
    house.sets = ["source.renamed=read"]
    house.write("a.log", LINE % b"a")
    house.run(spark)
    (house.logs / "a.log").rename(house.logs / "b.log")
    house.run(spark)
    house.must_be([LINE % b"a"] * 2)


def test_a_renamed_file_that_was_masked_by_other_rules_is_refused(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOG_MASK_KEY", "0123456789abcdef0123456789abcdef")
    rule = "{name: number, pattern: '[0-9]{7}', action: %s}"
    house.sets = [f"source.mask={{rules: [{rule % 'drop'}]}}"]
    house.write("a.log", LINE % b"1234567")
    house.run(spark)
    (house.logs / "a.log").rename(house.logs / "b.log")
    house.run(spark)
    assert house.size("bronze/access_log") == 1
    (house.logs / "b.log").rename(house.logs / "c.log")
    house.sets = [f"source.mask={{rules: [{rule % 'replace, text: x'}]}}"]
    with pytest.raises(StageError, match=r"c\.log has the size and time of .*a\.log, which was read and is gone"):
        house.run(spark)
    house.sets.append("source.renamed=read")
    house.run(spark)
    assert house.size("bronze/access_log") == 2
