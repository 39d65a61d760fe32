"""Masked data is stored nowhere, whatever happens to a batch; and everything that is counted still adds up."""

import gzip
import os
import shutil
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import StageError
from oncelake.common.spark.jvm import jvm
from tests.support import masking
from tests.support.crashing import crashed
from tests.support.house import House
from tests.support.writers import each_writer

pytestmark = pytest.mark.spark

CANARY = b"canary.d41d"
MAIL = CANARY + b"@mask.example"
MARK = b"marker-9f2c"
KEY, OLD_KEY = "new-canary-key-of-mask-0123456789", "old-canary-key-of-mask-0123456789"
LINES = (
    b"2017-07-30 14:09:08 ERROR " + MARK + b" from " + MAIL,
    b"2017-07-30 14:09:59 INFO \xff\xfe twice " + MAIL + b" " + MAIL,
    b"",
    b"refused, of " + MAIL,
    b"2017-07-30 14:10:00 ERROR nothing here",
)
BEGINS = r"record={starts: '^\d{4}-'}"


def mask(variable: str, *more: str) -> str:
    rules = ["{find: email, action: hash}", *more]
    return f"source.mask={{key_variable: {variable}, rules: [{', '.join(rules)}]}}"


def pseudonym(key: str) -> bytes:
    return masking.pseudonym(key, MAIL)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEW_KEY", KEY)
    monkeypatch.setenv("OLD_KEY", OLD_KEY)


def blocks(spark: SparkSession) -> set[Path]:
    """Return the temporary files of Spark's blocks."""
    places = jvm(spark).org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirs()
    return {path for place in places for path in Path(place.getPath()).rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def earlier(spark: SparkSession) -> set[Path]:
    """Return the temporary files of earlier tests: some read lines of a source without rules."""
    return blocks(spark)


def found(spark: SparkSession, house: House, earlier: set[Path], *said: str) -> list[str]:
    """Return where the masked text or a key is stored or was printed, but for the source itself."""
    files = [*(path for path in house.root.rglob("*") if path.is_file()), *(blocks(spark) - earlier)]
    stored = [str(path) for path in files if house.logs not in path.parents and _holds(path.read_bytes())]
    rows = [name for name in house.tables if house.table(name).exists() and _holds(repr(house.rows(name)).encode())]
    return [*stored, *rows, *(text for text in (*said, *house.said, repr(house.reports)) if _holds(text.encode()))]


def _holds(content: bytes) -> bool:
    return any(word in content for word in (CANARY, KEY.encode(), OLD_KEY.encode()))


def deep(spark: SparkSession, house: House) -> list[str]:
    """Prove the lake and read the source again; return what is said of bronze's rows, with the notes."""
    links = house.lakehouse(spark).prove(full=True, deep=True).links
    assert [link for link in links if not link.holds] == []
    return [text for link in links for text in (link.said, *link.notes) if "compared" in text or "read again" in text]


# the crash matrix of a whole run has both writers
@each_writer
def test_masked_data_is_nowhere_after_crashes_replays_and_every_command(
    house: House, spark: SparkSession, earlier: set[Path], small_batch: str
) -> None:
    house.sets += [f"run.small_batch={small_batch}", mask("NEW_KEY")]
    house.write("a.log", *LINES)
    (house.logs / "b.log.gz").write_bytes(gzip.compress(b"\n".join(LINES)))
    for before in (True, False):
        step = f"bronze/access_log/_delta_log/{1:020}.json"
        with crashed(spark, step, before=before), pytest.raises((StageError, Py4JJavaError)):
            house.run(spark)
    house.run(spark)
    house.must_be([*LINES, *LINES])
    rows = house.rows("bronze/access_log")
    assert {row["value"] for row in rows} == {line.replace(MAIL, pseudonym(KEY)) for line in LINES}
    assert {(row["value"], row["value_bytes"]) for row in rows} == {
        (line.replace(MAIL, pseudonym(KEY)), len(line)) for line in LINES
    }
    assert sum(count for row in rows for _, count in row["masked"] or ()) == 8
    assert deep(spark, house) == ["10 rows of 2 files, 2 read again and equal line by line"]
    assert found(spark, house, earlier) == []
    if small_batch != "32MiB":  # what the commands read is the same
        return
    page = house.root / "page.html"
    raw = f"a.log:{LINES[0].decode()}"
    said = [
        house.tell(spark, "trace", raw),
        house.tell(spark, "trace", raw.replace(MAIL.decode(), pseudonym(KEY).decode()), "--json"),
        house.told(spark, "trace", f"{raw} not there")[1],
        house.told(spark, "trace", f"nofile.log:{LINES[0].decode()}")[1],
        house.tell(spark, "report", "--no-proof", "-o", str(page)),
        house.tell(spark, "suggest", "bronze.access_log"),
        house.tell(spark, "quarantine"),
        house.tell(spark, "census"),
        house.tell(spark, "history", "--rules"),
        house.tell(spark, "status", "--json"),
        house.tell(spark, "doctor"),
        house.tell(spark, "format", "try", str(house.logs / "a.log")),
    ]
    assert found(spark, house, earlier, *said) == []
    assert [text for text in said[:2] if pseudonym(KEY).decode() not in text] == []
    assert "Masked before bronze: email 8" in page.read_text()
    stored = [path for path in house.lake.rglob("*.parquet") if MARK in path.read_bytes()]
    assert stored, "the search sees into the tables"


def test_lines_are_compared_under_the_rules_and_the_key_that_they_were_read_with(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.write("before.log", *LINES)
    house.run(spark)
    house.sets += [mask("OLD_KEY")]
    house.write("old.log", *LINES)
    house.run(spark)
    house.sets[-1] = mask("NEW_KEY", "{name: word, pattern: nothing, action: replace, text: something longer}")
    house.write("new.log", *LINES)
    reports = house.run(spark)
    assert [report.masked for report in reports if report.stage == "bronze"] == [{"email": 4, "word": 1}]
    assert deep(spark, house) == ["15 rows of 3 files, 3 read again and equal line by line"]
    history = [span for span in house.lakehouse(spark).history("bronze.access_log") if span.fingerprint]
    assert [span.rows for span in history] == [5, 5]
    assert all(span.rules for span in history)
    monkeypatch.delenv("OLD_KEY")
    lost = house.told(spark, "rebuild", "bronze")[1]
    assert "OLD_KEY with the key is not set" in lost
    assert "Nothing was changed" in lost
    log = house.logs / "new.log"
    then = log.stat()
    with log.open("r+b") as file:
        file.write(b"2018")
    os.utime(log, ns=(then.st_atime_ns, then.st_mtime_ns))  # the same size and time: only a deep proof sees it
    *_, link = house.lakehouse(spark).prove(full=True, deep=True).links
    assert not link.holds
    assert (
        link.said == "new.log was changed after it was read: bronze has 5 lines of it, it now has 5, with other content"
    )
    assert link.notes[0].startswith("old.log cannot be compared: masked with rules ")
    assert link.notes[0].endswith("and the environment variable OLD_KEY with the key is not set")


def test_a_recovery_after_a_lost_checkpoint_keeps_what_bronze_holds(house: House, spark: SparkSession) -> None:
    house.sets += [mask("OLD_KEY")]
    house.write("old.log", *LINES)
    house.run(spark)
    before = house.rows("bronze/access_log")
    shutil.rmtree(house.checkpoint("bronze"))
    house.sets[-1] = mask("NEW_KEY")
    house.recover(spark, "bronze")
    house.write("new.log", *LINES)
    house.run(spark)
    after = house.rows("bronze/access_log")
    assert [row for row in after if row["file"].endswith("old.log")] == before
    assert {row["value"] for row in after} == {
        line.replace(MAIL, pseudonym(key)) for line in LINES for key in (KEY, OLD_KEY)
    }


def test_a_run_without_its_key_starts_nothing(
    house: House, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.sets += [mask("NEW_KEY")]
    house.write("a.log", *LINES)
    monkeypatch.delenv("NEW_KEY")
    said = house.tell(spark, "run", "--once", expect=2)
    assert "source.mask.key_variable: the environment variable with the key is not set" in said.replace("\n", " ")
    assert not (house.lake / "bronze").exists()
    assert "key_variable: the environment variable with the key is not set" in house.tell(spark, "doctor", expect=1)
    monkeypatch.setenv("NEW_KEY", KEY)
    house.tell(spark, "doctor")


def test_records_of_growing_files_are_masked_as_a_whole_and_compared(
    house: House, spark: SparkSession, earlier: set[Path]
) -> None:
    form = house.conf.parent / "formats" / "records.yaml"
    form.parent.mkdir()
    shipped = (Path(__file__).parents[2] / "conf/formats/default.yaml").read_text()
    form.write_text(f"{shipped}\nrecord: {{starts: '^\\d{{4}}-'}}\n")
    over_lines = "{name: block, pattern: '(?s)BEGIN.*?END', action: replace, text: cut}"
    house.sets += ["source.kind=tail", f"source.format={form}", mask("NEW_KEY", over_lines)]
    log = house.logs / "app.log"
    log.write_bytes(b"\xef\xbb\xbf2017-07-30 14:09:08 ERROR one\nBEGIN " + MAIL + b"\nEND\n" + LINES[0] + b"\n")
    house.run(spark)
    with log.open("ab") as file:
        file.write(b"2017-07-30 14:11:00 INFO two " + MAIL + b"\n")
    house.run(spark)
    values = [row["value"] for row in house.rows("bronze/access_log")]
    assert b"2017-07-30 14:09:08 ERROR one\ncut" in values
    assert len(values) == 3
    (said,) = deep(spark, house)
    assert said.endswith("each byte once, 1 file read again and equal line by line")
    house.rebuild(spark, "bronze")
    assert found(spark, house, earlier) == []


@pytest.mark.parametrize("kind", ["files", "tail"])
def test_cut_lines_are_masked_as_joined_and_compared(
    house: House, spark: SparkSession, earlier: set[Path], kind: str
) -> None:
    house.sets += [f"source.kind={kind}", "source.format=kubernetes", mask("NEW_KEY")]
    place = b"2026-07-25T10:00:01Z stdout "
    house.write("pod.log", place + b"P from " + MAIL[:15], place + b"F " + MAIL[15:] + b" now")
    house.run(spark)
    assert [row["message"] for row in house.rows("silver/access_log")] == [f"from {pseudonym(KEY).decode()} now"]
    (said,) = deep(spark, house)
    assert said.endswith("1 read again and equal line by line" if kind == "files" else "equal line by line")
    os.utime(house.logs / "pod.log", (1_577_836_800, 1_577_836_800))
    assert deep(spark, house) == [said], "a file whose time alone has changed is unchanged"
    assert found(spark, house, earlier) == []
