"""Which sources a lake may have next, and what one failed source stops; without Spark."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from oncelake.common.errors import ConfigError, SourceError, StageError, StateError
from oncelake.engine.configuration import load
from oncelake.engine.markers import EMPTIED, MARKER
from oncelake.engine.rebuild import Rebuild, stages_from
from oncelake.engine.source_rebuild import whole_reason
from oncelake.engine.sources import bronze_tables, refused_change, try_sources
from oncelake.engine.start_gate import refuse_other_rebuild, refuse_unless_startable, startable
from oncelake.proof.prove import Proof
from oncelake.sources.kafka import kind as kafka
from oncelake.sources.kafka.source import Topic, TopicIds, TopicLeftBehind
from tests.support.memory import MemoryFiles, at, commit, metadata, offsets
from tests.support.several import Several

ADDS = '\n{"add":{"path":"x","dataChange":true}}'


@pytest.fixture
def lake(tmp_path: Path) -> Several:
    """Make a lake whose silver has read two sources: of `app`, version 2 is not read if `unread` was written."""
    lake, files = Several.at(tmp_path, "access_log", "app"), MemoryFiles()
    for name in ("access_log", "app"):
        commit(files, f"bronze/{name}", 0, operation="CREATE TABLE")
        source = {"kind": "files", "path": str(lake.logs / name)}
        for batch in range(2):
            write(files, f"bronze/{name}", batch, source)
    after = f"{offsets(at(3, 'bronze/access_log-id'))}\n{offsets(at(2, 'bronze/app-id')).splitlines()[2]}"
    recorded = {"kind": "delta", "bronze.access_log": "bronze/access_log-id", "bronze.app": "bronze/app-id"}
    commit(files, "silver/access_log", 0, operation="CREATE TABLE")
    commit(files, "silver/access_log", 1, metadata(0, after=after, source=recorded))
    put(lake, files)
    return lake


def write(files: MemoryFiles, table: str, batch: int, source: dict[str, str]) -> None:
    note = metadata(batch, table.replace("/", "."), stage="bronze", source=source)
    commit(files, table, batch + 1, note)
    files.texts[f"{table}/_delta_log/{batch + 1:020d}.json"] += ADDS


def put(lake: Several, files: MemoryFiles) -> None:
    for name, text in files.texts.items():
        path = lake.lake / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def all_read(lake: Several) -> None:
    (lake.table("bronze/app") / "_delta_log" / f"{2:020d}.json").unlink()


def test_the_sources_that_silver_has_read_are_accepted(lake: Several) -> None:
    assert refused_change(lake.chain()) is None
    lake.declare("web", "app", "access_log")
    assert refused_change(lake.chain()) is None
    all_read(lake)
    lake.declare("access_log")
    assert refused_change(lake.chain()) is None
    assert [str(table) for table in bronze_tables(lake.chain())] == ["bronze.access_log", "bronze.app"]


def test_sources_whose_links_lead_into_each_other_are_refused(lake: Several) -> None:
    for name in ("access_log", "app"):
        (lake.logs / name).mkdir(parents=True, exist_ok=True)
    (lake.logs / "app" / "more").symlink_to(lake.logs / "access_log")
    said = refused_change(lake.chain())
    assert said is not None
    assert "sources.access_log and sources.app both read the directory" in said
    with pytest.raises(StateError, match="both read the directory"):
        refuse_unless_startable(lake.chain())


def test_a_source_is_not_read_again_under_another_name_and_a_link(lake: Several) -> None:
    all_read(lake)
    (lake.logs / "app").mkdir(parents=True, exist_ok=True)
    (lake.logs / "web").symlink_to("app")
    lake.declare("access_log", "web")
    assert "sources.web reads" in str(refused_change(lake.chain()))


def test_a_source_is_not_removed_before_silver_has_read_it(lake: Several) -> None:
    lake.declare("access_log")
    said = "bronze.app has lines that silver has not read, and sources.app is not in the settings. Put it back, run"
    assert str(refused_change(lake.chain())).startswith(said)
    with pytest.raises(StateError, match="Put it back"):
        refuse_unless_startable(lake.chain())


def test_a_source_that_silver_has_never_read_is_not_removed(lake: Several) -> None:
    files = MemoryFiles()
    commit(files, "bronze/web", 0, operation="CREATE TABLE")
    put(lake, files)
    lake.checkpoint("bronze.web").mkdir(parents=True)
    lake.checkpoint("bronze.web.aside-20261129T160357Z").mkdir()
    assert refused_change(lake.chain()) is None
    write(files, "bronze/web", 0, {"kind": "files", "path": str(lake.logs / "web")})
    put(lake, files)
    lake.declare("access_log", "app", "web")
    assert refused_change(lake.chain()) is None
    lake.declare("access_log", "app")
    said = "bronze.web has lines that silver has not read, and sources.web is not in the settings. Put it back, run"
    assert str(refused_change(lake.chain())).startswith(said)


def test_a_source_that_another_host_has_read_is_not_removed(lake: Several) -> None:
    """On S3, the checkpoint of the source is on the host that has read it."""
    files = MemoryFiles()
    commit(files, "bronze/web", 0, operation="CREATE TABLE")
    write(files, "bronze/web", 0, {"kind": "files", "path": str(lake.logs / "web")})
    put(lake, files)
    chain = lake.chain()
    assert refused_change(chain) is None
    moved = replace(chain, lake=replace(chain.lake, per_host=True))
    said = "bronze.web has lines that silver has not read, and sources.web is not in the settings. Put it back, run"
    assert str(refused_change(moved)).startswith(said)


def test_a_source_whose_loss_was_accepted_stays_removed(lake: Several) -> None:
    files = MemoryFiles()
    commit(files, "bronze/web", 0, operation="CREATE TABLE")
    write(files, "bronze/web", 0, {"kind": "files", "path": str(lake.logs / "web")})
    put(lake, files)
    lake.checkpoint("bronze.web").mkdir(parents=True)
    assert refused_change(lake.chain()) is not None
    newest = lake.table("bronze/web") / "_delta_log" / f"{1:020d}.json"
    newest.write_text(newest.read_text().replace('"timestamp":1001', '"timestamp":900'))  # silver was made after it
    assert refused_change(lake.chain()) is None
    shutil.rmtree(lake.table("silver/access_log"))
    assert refused_change(lake.chain()) is not None
    (lake.lake / EMPTIED).write_text(json.dumps({"stages": ["silver"]}))  # a rebuild has accepted it, and fills silver
    assert refused_change(lake.chain()) is None


def test_a_rebuild_over_one_of_a_single_source_is_checked_for_losses(lake: Several) -> None:
    all_read(lake)
    lake.declare("access_log")
    (lake.lake / MARKER).write_text(json.dumps({"stages": ["silver", "gold.error_log"], "only": {"source": "app"}}))
    chain, no_spark = lake.chain(), cast(Any, None)
    work = Rebuild(chain, no_spark, stages_from(chain.stages, "silver"), lambda _: None, lambda _: None)
    with pytest.raises(StateError, match=r"silver is not rebuilt: silver\.access_log may hold lines of bronze\.app"):
        work.go(accept_loss=False)


def test_the_rebuild_of_a_source_that_was_removed_meanwhile_is_finished_by_that_of_all(lake: Several) -> None:
    all_read(lake)
    marked = {"stages": ["bronze.app", "silver", "gold.error_log"], "only": {"source": "app"}}
    (lake.lake / MARKER).write_text(json.dumps(marked))
    with pytest.raises(StateError, match=r"Finish it: oncelake rebuild bronze\.app$"):
        refuse_other_rebuild(lake.chain())
    lake.declare("access_log")
    with pytest.raises(StateError, match=r"Finish it: oncelake rebuild silver$"):
        refuse_other_rebuild(lake.chain())


def test_one_source_waits_for_another_unfinished_rebuild(lake: Several) -> None:
    assert whole_reason(lake.chain(), "app") == "silver.access_log does not name the source of a line"
    (lake.lake / MARKER).write_text(json.dumps({"stages": ["silver"], "only": {"source": "access_log"}}))
    assert whole_reason(lake.chain(), "app") == "a rebuild of silver is unfinished"
    said = r"a rebuild of silver is unfinished\. .*oncelake rebuild silver --source access_log"
    with pytest.raises(StateError, match=said):
        refuse_other_rebuild(lake.chain())
    assert whole_reason(lake.chain(), "access_log") is None


def test_a_proof_does_not_pass_over_a_source_that_was_removed_too_early(lake: Several) -> None:
    lake.declare("access_log")
    no_spark: Any = None
    with pytest.raises(StateError, match="Put it back"):
        list(Proof(lake.chain(), no_spark).links())


@pytest.mark.parametrize("stage", ["bronze", "silver"])
def test_no_rebuild_empties_silver_while_a_source_is_removed(lake: Several, stage: str) -> None:
    all_read(lake)
    lake.declare("access_log")
    chain = lake.chain()
    no_spark: Any = None
    work = Rebuild(chain, no_spark, stages_from(chain.stages, stage), lambda _: None, lambda _: None)
    with pytest.raises(StateError) as caught:
        work.go(accept_loss=False)
    assert str(caught.value).startswith("silver is not rebuilt: silver.access_log may hold lines of bronze.app")
    assert lake.table("silver/access_log").exists()


@pytest.mark.parametrize("path", ["app", "app/inside", "."])
def test_a_renamed_source_is_refused(lake: Several, path: str) -> None:
    all_read(lake)
    (lake.logs / path).mkdir(exist_ok=True)
    shutil.rmtree(lake.logs / "access_log")
    lake.declare(web={"path": str(lake.logs / path)})
    said = str(refused_change(lake.chain()))
    assert said.startswith(f"sources.web reads files in {lake.logs / path}, which bronze.")
    assert "reads or has read: every line would count twice. A source keeps its name: name it " in said


def test_a_topic_that_another_source_reads_or_has_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = {name: Topic(f"id-{name}", {"0": 0}, {"0": 9}) for name in ("web", "app", "old")}
    monkeypatch.setattr(kafka, "describe", lambda _spark, _client, topics: {name: there[name] for name in topics})
    lake, files = Several.at(tmp_path, "unused"), MemoryFiles()
    reads = {
        "one": TopicIds({"web": "id-web"}, {"old": TopicLeftBehind("id-old", {"0": 9})}),
        "two": TopicIds({"app": "id-app"}),
    }
    for name, topics in reads.items():
        commit(files, f"bronze/{name}", 0, operation="CREATE TABLE")
        write(files, f"bronze/{name}", 0, dict(topics.to_source()))
    after = f"{offsets(at(2, 'bronze/one-id'))}\n{offsets(at(2, 'bronze/two-id')).splitlines()[2]}"
    recorded = {"kind": "delta", "bronze.one": "bronze/one-id", "bronze.two": "bronze/two-id"}
    commit(files, "silver/access_log", 0, operation="CREATE TABLE")
    commit(files, "silver/access_log", 1, metadata(0, after=after, source=recorded))
    put(lake, files)
    no_spark: Any = object()

    def refused(one: list[str], two: list[str]) -> str | None:
        common = {"kind": "kafka", "bootstrap_servers": "broker:9092"}
        lake.declare(one={**common, "topic": one}, two={**common, "topic": two})
        return refused_change(lake.chain(no_spark))

    assert refused(["web"], ["app"]) is None
    assert refused(["web", "old"], ["app"]) is None
    said = "sources.one and sources.two both read topic old, or have read it: its lines would count twice"
    assert str(refused(["web"], ["app", "old"])).startswith(said)


def test_a_lake_with_several_sources_does_not_go_back_to_one(lake: Several) -> None:
    lake.declare_one("access_log")
    said = str(refused_change(lake.chain()))
    assert said.endswith("Write sources instead, with access_log and app as names")


def test_one_source_that_fails_is_left_out(lake: Several) -> None:
    chain, failed = lake.chain(), dict[str, str]()

    def check(stage: Any) -> None:
        if stage.name == "bronze.app":
            raise SourceError("bronze.app: it does not answer")

    assert "bronze.app" not in [stage.name for stage in try_sources(chain, check, failed).stages]
    assert failed == {"bronze.app": "it does not answer"}
    with pytest.raises(StageError, match="it does not answer\nbronze stopped: not here"):
        try_sources(chain, away, failed)


def away(stage: object) -> None:
    del stage
    raise SourceError("not here")


def test_the_only_source_that_fails_stops_the_run(tmp_path: Path) -> None:
    lake = Several.at(tmp_path, "app")
    with pytest.raises(SourceError, match="not here"):
        try_sources(lake.chain(), away, {})


def test_a_source_that_may_not_start_is_left_out(lake: Several) -> None:
    files, failed = MemoryFiles(), dict[str, str]()
    for stage in ("bronze", "bronze.app"):
        files.texts[f"_checkpoints/{stage}/metadata"] = '{"id":"other"}'
    put(lake, files)
    lake.declare("access_log", "app", "web")
    left = [stage.name for stage in startable(lake.chain(), failed).stages]
    assert left == ["bronze.web", "silver", "gold.error_log"]
    assert [*failed] == ["bronze", "bronze.app"]
    assert failed["bronze.app"].startswith("checkpoint lost")


def test_only_a_source_with_files_has_a_path_here(tmp_path: Path) -> None:
    conf = tmp_path / "conf.yaml"
    topic = "{kind: kafka, bootstrap_servers: 'h:1', path: /logs}"
    conf.write_text(f"sources: {{a: {topic}, b: {{path: /logs}}}}\nlake: {{root: /lake}}\n")
    assert load(conf).local_paths == {"sources.b": "/logs"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("source: {path: /a}\nsources: {b: {path: /b}}", "source and sources are both set"),
        ("gold: {}", "source: is required"),
        ("sources: {B: {path: /b}}", "'B' is not a valid name"),
        ("sources: {a: {path: /b}, b: {path: /b/c}}", "sources.a and sources.b both read files in /b/c"),
        (
            "sources: {a: {kind: kafka, bootstrap_servers: 'h:1'}, b: {kind: kafka, bootstrap_servers: 'h:1'}}",
            "sources.a and sources.b both read topic alog of Kafka at h:1",
        ),
        ("sources: {a: {path: /lake/x/..}}", "lake.root /lake is inside sources.a.path"),
        ("sources: {a: {kind: kafka}}", "sources.a: source.bootstrap_servers is required"),
        ("sources: {a: {path: /b, kafka: {password: [s3cret]}}}", "sources.a.kafka.password: Input should be"),
    ],
)
def test_wrong_sources_are_a_one_line_error(tmp_path: Path, text: str, expected: str) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text(f"{text}\nlake: {{root: /lake}}\n")
    with pytest.raises(ConfigError) as caught:
        load(conf)
    assert expected in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "\n" not in str(caught.value)
