"""The lines of one of several sources are made again alone: the rows of the others stay, and the counts are right."""

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError, StageError, StateError, StoppedError
from tests.support.crashing import crashed, died
from tests.support.several import Several

pytestmark = pytest.mark.spark

TIME = "\ntime: yyyy-MM-dd HH:mm:ss\nzone: UTC\n"
# The minutes of each source's lines; some have lines of one source alone.
MINUTES = {"access_log": (9, 19), "app": (19, 29), "web": (9, 39)}
GOLD: dict[str, Any] = {
    "error_log": {"every": "1 minute", "where": "level = 'ERROR'", "measures": {"log_count": "count"}},
    "by_source": {
        "every": "1 hour",
        "by": {"source": "source"},
        "measures": {"lines": "count", "first": "min(log_time)", "sketch": "approx_distinct(message)"},
    },
    "of_web": {"every": "1 minute", "where": "source = 'web'", "measures": {"lines": "count"}},
}


def line(name: str, minute: int, number: int) -> bytes:
    return b"2017-07-30 14:%02d:08 ERROR %s line %d" % (minute, name.encode(), number)


def fill(lake: Several, part: str = "0") -> None:
    for name, minutes in MINUTES.items():
        lines = [line(name, minute, number) for minute in minutes for number in range(2)]
        lake.write(f"{name}/{part}.log", *lines, b"broken")


def declare(lake: Several, *names: str, **more: Any) -> None:
    """Declare the sources with all gold tables, and further settings of `app` or of the lake."""
    lake.declare(*names)
    conf = yaml.safe_load(lake.conf.read_text()) | {"gold": GOLD}
    if app := more.pop("app", None):
        conf["sources"]["app"] |= app
    lake.conf.write_text(yaml.safe_dump(conf | more, sort_keys=False))


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Several:
    """Make a lake of three sources that was filled by two runs; the format of `app` cuts its messages."""
    lake = Several.at(tmp_path, *MINUTES)
    cut = tmp_path / "conf" / "formats" / "cut.yaml"
    cut.parent.mkdir()
    cut.write_text(r"pattern: '^(?<time>\d+-\d+-\d+ \d+:\d+:\d+) (?<level>[A-Z]+) (?<message>\w+) .*'" + TIME)
    declare(lake, *MINUTES, app={"format": "cut"})
    for part in "01":
        fill(lake, part)
        lake.run(spark)
    return lake


def fix(lake: Several) -> None:
    """Repair the format of `app`."""
    (lake.root / "conf" / "formats" / "cut.yaml").write_text(
        r"pattern: '^(?<time>\d+-\d+-\d+ \d+:\d+:\d+) (?<level>[A-Z]+) (?<message>\w+ line (?<n>\d+))$'"
        f"{TIME}columns: {{number: {{type: long, from: n}}}}\n"
    )


def of_others(lake: Several, table: str = "silver/access_log") -> Counter[str]:
    return Counter(str({**row, "number": None}) for row in lake.rows(table) if row["source"] != "app")


def must_be(lake: Several, spark: SparkSession, parts: int = 2) -> None:
    """Compare the tables with what the files hold, and prove the lake."""
    assert lake.counts() == dict.fromkeys(MINUTES, 4 * parts)
    assert lake.counts("silver/quarantine") == dict.fromkeys(MINUTES, parts)
    messages = Counter(row["message"] for row in lake.rows("silver/access_log") if row["source"] == "app")
    assert messages == {"app line 0": 2 * parts, "app line 1": 2 * parts}
    minutes = Counter(minute for minutes in MINUTES.values() for minute in minutes)
    counted = {row["log_time"].minute: row["log_count"] for row in lake.rows("gold/error_log")}
    assert counted == {minute: 2 * parts * count for minute, count in minutes.items()}
    rows = {row["source"]: (row["lines"], row["first"].minute) for row in lake.rows("gold/by_source")}
    assert rows == {name: (4 * parts, min(minutes)) for name, minutes in MINUTES.items()}
    assert sum(row["lines"] for row in lake.rows("gold/of_web")) == 4 * parts
    links = lake.lakehouse(spark).prove(full=True, deep=True).links
    assert [f"{link.name}: {link.said}" for link in links if not link.holds] == []


def test_a_source_is_read_again_and_the_rows_of_the_others_stay(lake: Several, spark: SparkSession) -> None:
    fix(lake)
    fill(lake, "2")
    lake.run(spark)
    kept = of_others(lake), of_others(lake, "silver/quarantine")
    said = lake.rebuild(spark, "bronze.app")
    assert said[0].startswith("take the lines of app out of silver.access_log, silver.quarantine, gold.error_log")
    assert (of_others(lake), of_others(lake, "silver/quarantine")) == kept
    must_be(lake, spark, parts=3)
    assert {row["number"] for row in lake.rows("silver/access_log") if row["source"] == "app"} == {0, 1}
    assert lake.run(spark) == []
    fill(lake, "3")
    lake.run(spark)
    must_be(lake, spark, parts=4)
    history = lake.tell(spark, "history", "silver.access_log", "--rules")
    assert "kept_rows_of" in history
    assert "no change" not in lake.tell(spark, "plan")
    traced = lake.tell(spark, "trace", f"web/0.log:{line('web', 9, 1).decode()}")
    assert "MISSING" not in traced


def test_lines_are_made_again_from_bronze_when_the_files_are_gone(lake: Several, spark: SparkSession) -> None:
    kept, ids = of_others(lake), lake.table_id("bronze/app")
    (lake.logs / "app" / "0.log").unlink()
    fix(lake)
    with pytest.raises(StateError, match=r"bronze\.app is not rebuilt: .*no longer exists"):
        lake.rebuild(spark, "bronze.app")
    lake.lakehouse(spark).rebuild("silver", source="app")
    assert of_others(lake) == kept
    assert lake.table_id("bronze/app") == ids
    must_be(lake, spark)


def test_a_new_table_over_a_column_that_old_lines_lack_says_so(lake: Several, spark: SparkSession) -> None:
    fix(lake)
    by_number = {"every": "1 hour", "by": {"number": "number"}, "measures": {"lines": "count"}}
    declare(lake, *MINUTES, app={"format": "cut"}, gold={**GOLD, "by_number": by_number})
    command = "oncelake rebuild silver --source app"
    offered = [each.what for each in lake.lakehouse().plan().commands if each.command == command]
    assert offered[0] == "makes the rows of app in silver and what follows it again"
    assert offered[1].startswith("gives 8 rows of app the column number, which gold.by_number reads")
    lake.run(spark)
    (said,) = (text for text in lake.said if "by_number" in text)
    assert said.startswith(
        "gold.by_number reads number, which 8 rows of app in silver.access_log lack: those from before"
    )
    assert said.endswith(command)
    lake.lakehouse(spark).rebuild("silver", source="app")
    assert {row["number"]: row["lines"] for row in lake.rows("gold/by_number")} == {None: 16, 0: 4, 1: 4}
    must_be(lake, spark)
    lake.said.clear()
    lake.run(spark)
    assert not any("by_number" in text for text in lake.said)
    assert command not in [each.command for each in lake.lakehouse().plan().commands]


def test_a_half_written_batch_is_finished_first(lake: Several, spark: SparkSession) -> None:
    fill(lake, "2")
    quarantine = (lake.versions()["silver/quarantine"] or 0) + 1
    with (
        crashed(spark, f"silver/quarantine/_delta_log/{quarantine:020d}.json", before=True),
        pytest.raises(StageError),
    ):
        lake.run(spark)
    declared = lake.root / "conf" / "formats" / "cut.yaml"
    before = declared.read_text()
    fix(lake)
    with pytest.raises(StoppedError, match="silver's last batch is not finished"):
        lake.rebuild(spark, "bronze.app")
    declared.write_text(before)  # with which the batch began
    lake.run(spark)
    fix(lake)
    lake.rebuild(spark, "bronze.app")
    must_be(lake, spark, parts=3)


def test_a_bad_line_of_the_source_does_not_stop_its_rebuild(lake: Several, spark: SparkSession) -> None:
    spark.sql(f"ALTER TABLE delta.`{lake.table('gold/error_log')}` ADD COLUMN own STRING").collect()
    lake.write("app/bad.log", *[b"nonsense"] * 50)
    gate = {"quality": {"gate": {"quarantined": {"fail": 0.5}}}}
    declare(lake, *MINUTES, app={"format": "cut"}, **gate)
    with pytest.raises(StageError):
        lake.run(spark)
    (lake.logs / "app" / "bad.log").unlink()
    fix(lake)
    said = lake.rebuild(spark, "bronze.app", accept_loss=True)
    assert any(text.startswith("not all lines could be read before") for text in said)
    must_be(lake, spark)


def test_what_cannot_be_made_again_alone_is_named(lake: Several, spark: SparkSession) -> None:
    fix(lake)
    build = lake.lakehouse(spark).rebuild
    with pytest.raises(ConfigError, match=r"there is no source 'ap'.*did you mean app"):
        build("silver", source="ap")
    with pytest.raises(ConfigError, match=r"goes with the stage silver, not with gold.*oncelake rebuild bronze\.app"):
        build("gold.error_log", source="app")
    declare(lake, *MINUTES, app={"format": "cut"}, silver={"deduplicate": {"key": ["hash:record"], "within": "1 hour"}})
    with pytest.raises(ConfigError, match=r"cannot be rebuilt alone: silver drops repeats.*oncelake rebuild silver"):
        lake.lakehouse(spark).rebuild("silver", source="app")
    assert "the lines of all sources are made again: silver drops repeats" in "\n".join(
        lake.rebuild(spark, "bronze.app")
    )
    assert lake.doubts(spark) == []
    assert lake.size("silver/access_log") + lake.size("silver/duplicates") == 24


@pytest.mark.parametrize("mode", ["idempotent", "transactional"])
def test_served_tables_follow(lake: Several, spark: SparkSession, mode: str) -> None:
    lake.sets = [f"serving.url=sqlite:///{lake.root}/served.db", "serving.tables=[error_log]", f"serving.mode={mode}"]
    lake.tell(spark, "serving", "init")
    lake.run(spark)
    fix(lake)
    lake.rebuild(spark, "bronze.app")
    must_be(lake, spark)
    with sqlite3.connect(lake.root / "served.db") as connection:
        ((lines,),) = connection.execute("SELECT sum(log_count) FROM error_log").fetchall()
    assert lines == 24


# The durable steps of a rebuild in their order: what Spark writes, and what the process writes, moves or removes.
BY_SPARK = [
    "silver/access_log/_delta_log/{silver}.json",
    "silver/quarantine/_delta_log/{quarantine}.json",
    "gold/error_log/_delta_log/{error_log}.json",
]
OWN = [
    r"_checkpoints/silver\.new-[^/]*/metadata$",
    r"_checkpoints/silver$",
    r"_checkpoints/gold/by_source\.new-[^/]*/commits/0$",
    r"_checkpoints/gold/of_web$",
    r"_checkpoints/bronze\.app$",
    r"/bronze/app$",
    r"/_emptied\.json$",
]


@pytest.mark.timeout(1500)
def test_a_crash_at_any_durable_step_ends_right(lake: Several, spark: SparkSession) -> None:
    fix(lake)
    with died(r"/_rebuild\.json$", before=True):
        lake.rebuild(spark, "bronze.app")
    versions = lake.versions()
    named = {name.split("/")[1]: f"{version + 1:020d}" for name, version in versions.items() if version is not None}
    named["silver"] = f"{(versions['silver/access_log'] or 0) + 2:020d}"  # after the one that allows it
    for step in BY_SPARK:
        for before in (True, False):
            with crashed(spark, step.format_map(named), before=before), pytest.raises(Py4JJavaError):
                lake.rebuild(spark, "bronze.app")
            with pytest.raises(
                StateError, match=r"a rebuild of bronze\.app, silver, .* is unfinished.*rebuild bronze\.app"
            ):
                lake.run(spark)
    for step in OWN:
        for before in (True, False):
            with died(step, before=before):
                lake.rebuild(spark, "bronze.app")
    lake.rebuild(spark, "bronze.app")
    must_be(lake, spark)
    assert lake.run(spark) == []
