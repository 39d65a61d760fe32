"""`oncelake format` shows how lines parse and finds the format that fits, without a lake."""

import gzip
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.lab.log_formats import MAX_LINES, sample_of
from tests.support.house import House

pytestmark = pytest.mark.spark

LINES = """\
2026-11-25 10:00:00,123 INFO  [main] c.e.App - started
2026-11-25 10:00:01,500 ERROR [http-1] c.e.Api - failed
java.io.IOException: \xff gone

\tat c.e.Api.get(Api.java:10)
2026-11-25 10:00:01,500 LOUD [http-1] c.e.Api - x
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "app.log.gz"
    path.write_bytes(gzip.compress(LINES.encode("latin-1")))
    return path


def said(*arguments: str, expect: int = 0, standard_input: bytes | None = None) -> str:
    result = CliRunner().invoke(app, ["format", *arguments], input=standard_input)
    assert result.exit_code == expect, result.output
    assert "Traceback" not in result.output
    return result.output


def test_a_trial_shows_how_lines_parse_and_why_others_do_not(spark: SparkSession, file: Path) -> None:
    del spark
    assert said("try", str(file), "java").split("\n") == [
        f"2 of 3 records of 6 lines of {file} parse as java",
        "  2026-11-25 10:00:00.123 UTC INFO  started",
        "    thread=main, logger=c.e.App",
        "  2026-11-25 10:00:01.500 UTC ERROR failed⏎java.io.IOException: � gone⏎⏎  at c.e.Api.get(Api.java:10)",
        "    thread=http-1, logger=c.e.Api",
        "1 do not; rules broken: level 1",
        "  2026-11-25 10:00:01,500 LOUD [http-1] c.e.Api - x",
        "    level: level is 'LOUD'",
        "",
    ]
    output = json.loads(said("try", str(file), "java", "--json"))
    assert (output["accepted"], output["share"], output["rules"]) == (2, 0.6667, {"level": 1})
    assert output["parsed"][1]["log_time"] == "2026-11-25T10:00:01.500000+00:00"


def test_a_trial_shows_the_typed_columns_and_counts_misfits(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    form = tmp_path / "typed.yaml"
    form.write_text(
        "pattern: '(?<time>\\S+) (?<status>\\S+) (?<ms>\\S+)(?<message>)'\ntime: iso8601\ndefault_level: INFO\n"
        "columns: {status: int, took: {type: double, from: ms, misfit: quarantine}}\n"
    )
    log = tmp_path / "a.log"
    log.write_text("2026-11-25T10:00:00 0200 1.50\n2026-11-25T10:00:00 OK 2\n2026-11-25T10:00:00 500 slow\n")
    shown = said("try", str(log), str(form)).split("\n")
    assert "    status=200, took=1.5" in shown
    assert "values that do not fit their column's type and become null: status 1" in shown
    assert "    column_took: took is 'slow'" in shown
    output = json.loads(said("try", str(log), str(form), "--json"))
    assert output["misfits"] == {"status": 1}
    assert [line["columns"] for line in output["parsed"]] == [{"status": "200", "took": "1.5"}, {"took": "2.0"}]


def test_without_a_format_the_configuration_decides(spark: SparkSession, house: House) -> None:
    log = b"2017-07-30 14:09:08 ERROR x\n"
    path = house.root / "a.log"
    path.write_bytes(log)
    assert "1 of 1 line of" in house.tell(spark, "format", "try", str(path))
    assert "1 of 1 line of - parse as default" in said("try", "-", "default", standard_input=log)


def test_the_format_that_fits_best_is_suggested(spark: SparkSession, file: Path, tmp_path: Path) -> None:
    del spark
    first, *_, last = said("suggest", str(file)).rstrip().split("\n")
    assert first.split() == ["java", "66.7%", "of", "3", "records", "of", "6", "lines"]
    assert last.endswith(f"oncelake format try {file} java")
    own = tmp_path / "formats"
    own.mkdir()
    (own / "ours.yaml").write_text("pattern: '(?<time>\\S+)#(?<message>.*)'\ntime: epoch_seconds\ndefault_level: INFO")
    (tmp_path / "b.log").write_text("1501423748#a\n1501423749#b\nno\n")
    told = json.loads(said("suggest", str(tmp_path / "b.log"), "-c", str(tmp_path / "local.yaml"), "--json"))
    assert (told["best"], told["formats"]["ours"], told["formats"]["default"]) == ("ours", 0.6667, 0.0)


def test_a_format_is_drafted_if_none_fits(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    path = tmp_path / "a.log"
    path.write_text("<25.11.2026 10:00:00,5> {Err} one\n  two\n<25.11.2026 10:00:01> {info} three\n")
    told = said("suggest", str(path))
    assert "A draft parses 100.0% of 2 records of 3 lines." in told
    (tmp_path / "mine.yaml").write_text(told.split("\n\n", 1)[1])
    output = json.loads(said("try", str(path), str(tmp_path / "mine.yaml"), "--json"))
    assert [(line["level"], line["message"]) for line in output["parsed"]] == [
        ("ERROR", "one\n  two"),
        ("INFO", "three"),
    ]
    assert json.loads(said("suggest", str(path), "--json"))["draft"] == told.split("\n\n", 1)[1]


def test_what_cannot_be_tried_is_refused_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    path = tmp_path / "a.log"
    path.write_text("nothing that any format knows\n")
    assert "no line of" in said("try", str(path), "java", expect=1)
    assert "no known format parses a line of" in said("suggest", str(path), expect=1)
    (tmp_path / "empty.log").touch()
    (tmp_path / "broken.gz").write_bytes(gzip.compress(b"x" * 99)[:-9])
    for name, why in {
        "none.log": "No such file or directory",
        "empty.log": "is empty",
        "broken.gz": "cannot be read",
        "a.zst": "unpack it first",
        ".": "Is a directory",
    }.items():
        assert why in said("try", str(tmp_path / name), "java", expect=2)
    assert "available: " in said("try", str(path), "jav", expect=2)


def test_a_sample_is_the_beginning_of_a_long_file(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"{number}\n" for number in range(2 * MAX_LINES)))
    with sample_of(str(path)).file() as copy:
        assert copy.read_text().split("\n")[-2:] == [str(MAX_LINES - 1), ""]
        assert int(copy.stat().st_mtime) == int(path.stat().st_mtime)
