"""Several sources in one lake: each line counts once, whatever is added, removed, renamed, or fails."""

import bz2
import json
import re
import shutil
import threading
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.common.errors import SourceError, StageError, StateError
from oncelake.engine.runner import Run
from oncelake.exactly_once.batch import Event, Notice
from oncelake.lakehouse import Lakehouse
from oncelake.sources.directory.census import Census
from oncelake.sources.directory.resolve import Resolve
from tests.support.crashing import crashed
from tests.support.house import until
from tests.support.packed import damaged_bz2
from tests.support.several import Several

pytestmark = pytest.mark.spark

ERROR = b"2017-07-30 14:09:08 ERROR "
JSON = {"format": "json"}


@pytest.fixture
def lake(tmp_path: Path) -> Several:
    return Several.at(tmp_path, "access_log", "app")


def fill(lake: Several, *names: str, lines: int = 3, part: str = "0") -> None:
    for name in names:
        good = [ERROR + f"{name} {number} {part}".encode() for number in range(lines)]
        lake.write(f"{name}/{part}.log", *good, b"broken")


def test_lines_that_were_cut_are_whole_in_files_and_growing_files(lake: Several, spark: SparkSession) -> None:
    stamp = b"2017-07-30T14:09:08.5Z "
    lines = [
        stamp + b"stdout F whole",
        stamp + b"stderr P first, ",
        stamp + b"stderr P next, ",
        stamp + b"stderr F last",
    ]
    pods, grown = {"path": str(lake.logs / "app"), "format": "kubernetes"}, str(lake.logs / "tail")
    lake.declare("access_log", app=pods, tail={"kind": "tail", "path": grown, "format": "kubernetes"})
    lake.write("app/0.log", *lines)
    lake.write("tail/0.log", *lines)
    lake.write("access_log/0.log", ERROR + b"one")
    lake.run(spark)
    assert lake.counts() == {"access_log": 1, "app": 2, "tail": 2}
    messages = {(row["source"], row["level"], row["message"]) for row in lake.rows("silver/access_log")}
    cut = {(name, "ERROR", "first, next, last") for name in ("app", "tail")}
    assert messages >= cut
    for source in ("app", "tail"):
        assert lake.rows(f"bronze/{source}")[1]["value"] == b"\n".join(lines[1:])
    links = lake.lakehouse(spark).prove(full=True, deep=True).links
    assert [link.said for link in links if not link.holds] == []


def test_each_source_has_its_bronze_and_silver_tells_them_apart(lake: Several, spark: SparkSession) -> None:
    fill(lake, "access_log", lines=2)
    fill(lake, "app", lines=3)
    lake.run(spark)
    assert lake.size("bronze/access_log") == 3
    assert lake.size("bronze/app") == 4
    assert lake.counts() == {"access_log": 2, "app": 3}
    assert lake.counts("silver/quarantine") == {"access_log": 1, "app": 1}
    assert lake.errors().total() == 5
    assert lake.doubts(spark) == []


def test_a_source_is_added_and_removed_and_comes_back(lake: Several, spark: SparkSession) -> None:
    lake.declare("access_log")
    fill(lake, "access_log")
    lake.run(spark)
    lake.declare("access_log", "app", "web")
    fill(lake, "app", "web")
    lake.run(spark)
    assert lake.counts() == {"access_log": 3, "app": 3, "web": 3}
    assert lake.doubts(spark) == []
    lake.declare("web", "access_log")
    fill(lake, "web", part="1")
    lake.run(spark)
    assert lake.counts() == {"access_log": 3, "app": 3, "web": 6}
    proven = lake.lakehouse(spark).prove()
    assert proven.holds
    assert str(proven.claim) == "16 lines, every one exactly once"  # an earlier proof has compared all lines of app
    assert str(lake.lakehouse(spark).prove(full=True).claim) == (
        "12 of 16 lines, each exactly once; not compared: 4 lines of bronze.app, whose source is not in the settings "
        "(positions of bronze.app)"
    )
    lake.declare("app", "web")
    fill(lake, "app", part="1")
    lake.run(spark)
    assert lake.counts() == {"access_log": 3, "app": 6, "web": 6}
    assert lake.doubts(spark) == []


def test_a_lake_with_one_source_gets_a_second_one(tmp_path: Path, spark: SparkSession) -> None:
    lake = Several.at(tmp_path, "access_log")
    lake.declare_one("access_log")
    fill(lake, "access_log")
    lake.run(spark)
    lake.declare(
        "app", access_log={"path": str(lake.logs / "access_log")}, json={"path": str(lake.logs / "json"), **JSON}
    )
    lake.write("json/0.log", b'{"time": "2017-07-30T14:09:08Z", "level": "error", "message": "json"}', b"broken")
    fill(lake, "app")
    lake.run(spark)
    assert lake.counts() == {None: 3, "app": 3, "json": 1}
    assert lake.counts("silver/quarantine") == {None: 1, "app": 1, "json": 1}
    assert lake.errors().total() == 7
    assert lake.doubts(spark) == []
    assert lake.checkpoint("bronze").is_dir()
    assert (lake.checkpoint("silver") / "offsets" / "0").read_text().endswith("}\n-\n-")
    lake.declare_one("access_log")
    assert "the settings have source, but silver has read" in lake.tell(spark, "run", "--once", expect=1)
    assert "the settings have source, but silver has read" in lake.tell(spark, "doctor", expect=1)


def test_a_renamed_or_half_read_source_is_refused_with_the_way_out(lake: Several, spark: SparkSession) -> None:
    fill(lake, "access_log", "app")
    lake.run(spark)
    lake.declare("access_log", web={"path": str(lake.logs / "app")})
    with pytest.raises(StateError, match=r"sources\.web reads .*bronze\.app reads or has read.* name it app"):
        lake.run(spark)
    assert not lake.table("bronze/web").exists()
    lake.declare("access_log", "app")
    fill(lake, "app", part="1")
    bronze_only(lake, spark)
    lake.declare("access_log")
    with pytest.raises(StateError, match=r"bronze\.app has lines that silver has not read.* Put it back"):
        lake.run(spark)
    assert "bronze.app has lines that silver has not read" in lake.tell(spark, "prove", expect=1)
    lake.declare("access_log", "app")
    lake.run(spark)
    lake.declare("access_log")
    lake.run(spark)
    assert lake.counts() == {"access_log": 3, "app": 6}
    assert lake.doubts(spark) == []


def bronze_only(lake: Several, spark: SparkSession) -> None:
    """Run the bronze stages alone, as a run that is killed after them."""
    chain = lake.chain(spark)
    stages = tuple(stage for stage in chain.stages if not stage.reads)
    Run(replace(chain, stages=stages), spark, Silent(), threading.Event()).once()


class Silent:
    """Receives events and shows nothing."""

    def __call__(self, event: object) -> None:
        del event

    def show(self) -> None:
        pass


def test_a_failed_source_stops_alone(lake: Several, spark: SparkSession) -> None:
    fill(lake, "access_log", "app")
    (lake.logs / "app" / "broken.bz2").write_bytes(damaged_bz2())
    with pytest.raises(StageError, match=r"bronze\.app stopped"):
        lake.run(spark)
    assert lake.counts() == {"access_log": 3}
    assert lake.errors().total() == 3
    assert any("bronze.app" in said and "the other sources go on" in said for said in lake.said)
    (lake.logs / "app").rename(lake.logs / "away")
    fill(lake, "access_log", part="1")
    said = lake.tell(spark, "run", "--once", expect=1)
    assert "bronze.app stopped: sources.app.path" in said
    assert lake.counts() == {"access_log": 6}
    assert lake.doubts(spark) != []
    (lake.logs / "away").rename(lake.logs / "app")
    (lake.logs / "app" / "broken.bz2").write_bytes(bz2.compress(ERROR + b"late\n"))
    lake.run(spark)
    assert lake.counts() == {"access_log": 6, "app": 4}
    assert lake.doubts(spark) == []


def test_a_source_that_fails_in_a_continuous_run_stops_alone(lake: Several, spark: SparkSession) -> None:
    stopping, ended, said = threading.Event(), list[BaseException](), list[Event]()

    def go() -> None:
        try:
            lake.lakehouse(spark).run(stopping=stopping, sink=said.append)
        except StageError as error:
            ended.append(error)

    fill(lake, "access_log", "app")
    thread = threading.Thread(target=go)
    thread.start()
    until(lambda: lake.table("silver/access_log").exists() and lake.counts() == {"access_log": 3, "app": 3}, 120)
    (lake.logs / "app" / "broken.bz2").write_bytes(damaged_bz2())
    fill(lake, "app", part="1")
    until(lambda: any(isinstance(event, Notice) and "go on" in event.text for event in said), 120)
    fill(lake, "access_log", part="1")
    until(lambda: lake.counts() == {"access_log": 6, "app": 3}, 120)
    stopping.set()
    thread.join()
    assert lake.counts() == {"access_log": 6, "app": 3}
    (error,) = ended
    assert str(error).startswith("bronze.app stopped")


def test_lost_checkpoints_are_recovered_and_stages_rebuilt(lake: Several, spark: SparkSession) -> None:
    fill(lake, "access_log", "app")
    lake.run(spark)
    fill(lake, "app", part="1")
    lake.run(spark)
    shutil.rmtree(lake.lake / "_checkpoints")
    recovered = lake.recover(spark)
    assert {name: result.refused for name, result in recovered.items()} == dict.fromkeys(lake.stages)
    assert (lake.lake / "_checkpoints" / "bronze.app" / "offsets").is_dir()
    fill(lake, "access_log", part="1")
    lake.run(spark)
    expected = {"access_log": 6, "app": 6}
    assert lake.counts() == expected
    assert lake.doubts(spark) == []
    for stage in ("bronze.app", "bronze", "silver"):
        lake.rebuild(spark, stage)
        assert lake.counts() == expected
        assert lake.doubts(spark) == []
    lake.declare("access_log")
    with pytest.raises(StateError, match=r"silver is not rebuilt: silver\.access_log may hold lines of bronze\.app"):
        lake.rebuild(spark, "silver")


@pytest.mark.parametrize("others", [("app",), ()], ids=["of several", "the only one"])
def test_a_source_that_silver_has_never_read_is_not_removed(
    lake: Several, spark: SparkSession, others: tuple[str, ...]
) -> None:
    fill(lake, "access_log", "app")
    with crashed(spark, f"silver/access_log/_delta_log/{1:020}.json", before=True), pytest.raises(StageError):
        lake.run(spark)
    assert lake.size("bronze/app") == 4
    lake.declare(*others or ["web"])
    removed = "access_log" if others else "(access_log|app)"
    refusal = rf"bronze\.{removed} has lines that silver has not read, and sources\.{removed} is not in the settings"
    with pytest.raises(StateError, match=refusal):
        lake.run(spark)
    with pytest.raises(StateError, match=refusal):
        lake.lakehouse(spark).prove()
    lake.declare("access_log", "app")
    lake.run(spark)
    lake.declare("app")
    fill(lake, "app", part="1")
    lake.run(spark)
    assert lake.counts() == {"access_log": 3, "app": 6}
    assert lake.doubts(spark) == []


def test_commands_name_the_source(lake: Several, spark: SparkSession) -> None:
    lake.declare("access_log", "app", json={"path": str(lake.logs / "json"), **JSON})
    (lake.logs / "json").mkdir()
    fill(lake, "access_log", "app")
    lake.write("json/0.log", ERROR + b"no json")
    lake.run(spark)
    assert lake.counts("silver/quarantine") == {"access_log": 1, "app": 1, "json": 1}
    lake.declare("access_log", "app", json={"path": str(lake.logs / "json")})
    lake.tell(spark, "quarantine", "replay")
    assert lake.counts() == {"access_log": 3, "app": 3, "json": 1}
    assert lake.doubts(spark) == []
    status = json.loads(lake.tell(spark, "status", "--json"))
    assert [stage["stage"] for stage in status["stages"]] == [
        "bronze",
        "bronze.app",
        "bronze.json",
        "silver",
        "gold.error_log",
    ]
    traced = lake.tell(spark, "trace", f"app/0.log:{ERROR.decode()}app 1 0")
    assert traced.startswith("bronze.app")
    assert "source       app" in traced
    said = lake.tell(spark, "trace", "none.log:x", expect=1)
    assert said.count("no file path in bronze ends with the text before a colon in 'none.log:x'") == 1
    assert "bronze has 0.log; put the file before the line, as in '0.log:LINE'" in said
    assert lake.tell(spark, "trace", "app/0.log:none", expect=1).startswith("oncelake: no line of file:")
    said = lake.tell(spark, "census")
    assert [f"files of {name}: 1 read whole" in said for name in ("access_log", "app", "json")] == [True] * 3
    counted = json.loads(lake.tell(spark, "census", "--json"))
    assert [*counted["sources"]] == ["access_log", "app", "json"]
    assert "1 read whole" in lake.tell(spark, "census", "--source", "app")
    assert "a crash test needs one source" in lake.tell(spark, "crash-test", "--kills", "1", expect=2)
    proof = lake.tell(spark, "prove", "--deep", "--full")
    assert "bronze.access_log + bronze.app + bronze.json → silver.access_log + silver.quarantine" in proof
    lake.tell(spark, "maintain")
    lake.tell(spark, "report", "--output", str(lake.root / "report.html"))
    assert "bronze.json" in (lake.root / "report.html").read_text()
    with (lake.logs / "app" / "0.log").open("ab") as file:
        file.write(ERROR + b"app 1 1\n")
    assert "files of app: 0 read whole, 0 waiting, 0 hidden, 0 empty, 1 at fault" in lake.tell(
        spark, "census", expect=1
    )
    at_fault = str(lake.logs / "app" / "0.log")
    lake.tell(spark, "census", "accept", at_fault, str(lake.logs / "json" / "0.log"), expect=1)
    assert not json.loads(lake.tell(spark, "census", "--json", expect=1))["sources"]["app"]["holds"]
    lake.tell(spark, "census", "accept", at_fault)
    assert json.loads(lake.tell(spark, "census", "--json"))["sources"]["app"]["holds"]
    assert "is not at fault" in lake.tell(spark, "census", "accept", str(lake.logs / "json" / "0.log"), expect=1)


def test_a_census_goes_on_when_a_source_cannot_be_listed(
    lake: Several, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.declare("access_log", "app")
    fill(lake, "access_log", "app")
    lake.run(spark)
    taken = Lakehouse.census

    def census(lakehouse: Lakehouse, source: str | None = None) -> AbstractContextManager[tuple[Census, Resolve]]:
        if source == "access_log":
            raise SourceError("the directory cannot be listed")
        return taken(lakehouse, source)

    monkeypatch.setattr(Lakehouse, "census", census)
    said = lake.tell(spark, "census", expect=1)
    assert "files of access_log: not checked: the directory cannot be listed" in said
    assert "files of app: 1 read whole" in said
    assert "error" in json.loads(lake.tell(spark, "census", "--json", expect=1))["sources"]["access_log"]
    (lake.logs / "app" / "0.log").write_bytes(b"another")
    lake.tell(spark, "census", "accept", str(lake.logs / "app" / "0.log"))
    assert "cannot be listed" in lake.tell(spark, "census", "--source", "access_log", expect=1)


def test_a_crash_at_any_step_of_the_first_run_with_a_new_source_loses_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    lake = Several.at(tmp_path, "access_log")
    lake.declare_one("access_log")
    fill(lake, "access_log")
    lake.run(spark)
    lake.declare("app", access_log={"path": str(lake.logs / "access_log")})
    fill(lake, "access_log", "app", part="1")
    crashes = 0
    for step in new_steps(lake, spark):
        for before in (True, False):
            if (lake.lake / step).exists():  # the stage of the other source went on
                continue
            crashes += 1
            with crashed(spark, step, before=before), pytest.raises((StageError, Py4JJavaError)):
                lake.run(spark)
    lake.run(spark)
    assert crashes > 20
    assert lake.counts() == {None: 3, "access_log": 3, "app": 3}
    assert lake.errors().total() == 9
    assert lake.doubts(spark) == []


def new_steps(lake: Several, spark: SparkSession) -> list[str]:
    """Return the durable files that the next run writes, in order; a copy of the lake writes them."""
    copy = replace(lake, root=lake.root / "copy")
    shutil.copytree(lake.lake, copy.lake)
    old = durable(copy.lake)
    copy.run(spark)
    return sorted(durable(copy.lake) - old, key=lambda name: (copy.lake / name).stat().st_mtime_ns)


def durable(lake: Path) -> set[str]:
    files = {str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file()}
    return {
        name for name in files if re.search(r"(_delta_log/\d+\.json|/(offsets|commits|sources/0)/\d+|/metadata)$", name)
    }
