"""Several topics in one source: they join, leave and come back, and no offset is read twice or left out."""

import json
from collections.abc import Mapping

import pytest

from oncelake.common.errors import SourceError
from oncelake.exactly_once.checkpoint import read_checkpoint
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.diagnosis import diagnose
from oncelake.exactly_once.recovery import Case, Recovery, done_texts, is_half_moved, plan_loss, plan_move
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.sources.kafka.proof import account
from oncelake.sources.kafka.source import KafkaSource, Topic, TopicIds, TopicLeftBehind
from tests.support.memory import QUERY, MemoryFiles, commit, metadata, offsets, table

ONE = {"kind": "kafka", "topic": "web", "topic_id": "id-web"}
TWO = TopicIds({"web": "id-web", "app": "id-app"}).to_source()
ALL = ("web", "app", "late")


def topic(name: str, earliest: int = 0, latest: int = 99) -> Topic:
    return Topic(f"id-{name}", {"0": earliest}, {"0": latest})


def lake(position: Mapping[str, object], source: Mapping[str, str]) -> MemoryFiles:
    """Make a bronze whose batch 0 ended at a position."""
    files = MemoryFiles()
    table(files, "table", 0)
    files.texts["ckpt/metadata"] = json.dumps({"id": QUERY})
    files.texts["ckpt/offsets/0"] = offsets(position)
    files.texts["ckpt/commits/0"] = "v1\n{}"
    files.texts["ckpt/sources/0/0"] = f"\0v1\n{json.dumps({name: {'0': 0} for name in position})}"
    commit(files, "table", 1, metadata(0, after=files.texts["ckpt/offsets/0"], source=source))
    return files


def reading(files: MemoryFiles, *names: str, **changed: Topic | None) -> KafkaSource:
    """Return a source that chooses these topics; Kafka has all of them but those that are None."""
    now = {name: changed.get(name, topic(name)) for name in names}
    there = {name: each for name, each in now.items() if each is not None}
    last = DeltaLog(files, "table")
    source = KafkaSource(", ".join(names), lambda: there, files, "ckpt", chooses=lambda each: each in names)
    return source.after(lambda: last.state().metadata)


def found(files: MemoryFiles, source: KafkaSource) -> Diagnosis:
    return diagnose(read_checkpoint(files, "ckpt"), {"table": DeltaLog(files, "table").state()}, source)


def case(files: MemoryFiles, source: KafkaSource) -> Case:
    logs = {"table": DeltaLog(files, "table")}
    return Case("bronze", found(files, source), read_checkpoint(files, "ckpt"), logs, source, "run 2")


def changed(files: MemoryFiles, source: KafkaSource, *, version: int) -> CommitMetadata:
    """Carry out a change of the topics, and return its commit."""
    change = plan_move(case(files, source))
    assert change is not None
    (moved,) = change.commits
    commit(files, "table", version, moved)
    for name, text in change.texts.items():
        files.write(f"ckpt/{name}", text)
    return moved


def test_one_topic_has_the_form_of_all_commits_before() -> None:
    files = lake({"web": {"0": 5}}, ONE)
    source = KafkaSource("web", lambda: {"web": topic("web")}, files, "ckpt")
    assert source.identity() == ONE
    assert source.moved('{"web":{"0":5}}') is None
    left = TopicIds({"web": "id-web"}, {"app": TopicLeftBehind("id-app", {"0": 7})})
    assert TopicIds.of(left.to_source()) == left
    assert TopicIds.of({"kind": "delta"}) is None


def test_a_topic_joins_at_its_oldest_record_and_one_that_lost_none_needs_no_change() -> None:
    files = lake({"web": {"0": 5}}, ONE)
    both = reading(files, "web", "app")
    assert both.moved('{"web":{"0":5}}') is None, "Spark itself begins at offset 0"
    assert found(files, both).state is State.ALIGNED
    assert both.backlog('{"web":{"0":5}}').count == 94 + 99
    late = reading(files, "web", "late", late=topic("late", 40))
    assert found(files, late).state is State.ALIGNED
    assert late.backlog('{"web":{"0":5}}').count == 94 + 59
    moved = changed(files, late, version=2)
    assert (moved.event, moved.batch_id, json.loads(moved.end or "")) == (
        CommitKind.TOPICS,
        1,
        {"web": {"0": 5}, "late": {"0": 40}},
    )
    assert found(files, reading(files, "web", "late", late=topic("late", 40))).state is State.ALIGNED


def test_a_topic_leaves_the_position_and_comes_back_at_its_place() -> None:
    files = lake({"web": {"0": 5}, "app": {"0": 7}}, TWO)
    moved = changed(files, reading(files, "web"), version=2)
    assert moved.end == '{"web":{"0":5}}'
    assert TopicIds.of(moved.source) == TopicIds({"web": "id-web"}, {"app": TopicLeftBehind("id-app", {"0": 7})})
    alone = reading(files, "web")
    assert plan_move(case(files, alone)) is None
    assert alone.identity() == moved.source, "each later commit keeps the place"
    back = changed(files, reading(files, "web", "app"), version=3)
    assert json.loads(back.end or "") == {"web": {"0": 5}, "app": {"0": 7}}
    assert TopicIds.of(back.source) == TopicIds.of(TWO)


def test_a_topic_whose_records_expired_while_it_was_left_is_trimmed() -> None:
    files = lake({"web": {"0": 5}, "app": {"0": 7}}, TWO)
    changed(files, reading(files, "web"), version=2)
    source = reading(files, "web", "app", app=topic("app", 20))
    diagnosis = found(files, source)
    assert (diagnosis.state, diagnosis.seen) == (State.SOURCE_TRIMMED, "offsets app/0/7 to 19 are gone")
    loss = plan_loss(case(files, source))
    assert json.loads(loss.at or "") == {"web": {"0": 5}, "app": {"0": 20}}


def test_a_topic_that_was_recreated_while_it_was_left_is_refused() -> None:
    files = lake({"web": {"0": 5}, "app": {"0": 7}}, TWO)
    changed(files, reading(files, "web"), version=2)
    again = Topic("id-new", {"0": 0}, {"0": 99})
    diagnosis = found(files, reading(files, "web", "app", app=again))
    assert (diagnosis.state, diagnosis.seen) == (
        State.SOURCE_REPLACED,
        "topic app has ID id-new, lines were read from id-app",
    )


def test_a_topic_that_is_gone_is_named_and_its_loss_accepted() -> None:
    files = lake({"web": {"0": 5}, "app": {"0": 7}}, TWO)
    source = reading(files, "web", "app", app=None)
    diagnosis = found(files, source)
    said = "topic app is gone, which was read up to app/0/7"
    assert (diagnosis.state, diagnosis.seen) == (State.SOURCE_TRIMMED, said)
    link = account(source, DeltaLog(files, "table").state().metadata, diagnosis)
    assert not link.holds
    assert said in link.said
    loss = plan_loss(case(files, source))
    (lost,) = loss.commits
    assert (lost.lost, lost.end) == (("what topic app held after app/0/7",), '{"web":{"0":5}}')
    assert TopicIds.of(lost.source) == TopicIds({"web": "id-web"}, {"app": TopicLeftBehind("id-app", {"0": 7})})


def test_topics_that_all_change_are_another_source() -> None:
    files = lake({"web": {"0": 5}}, ONE)
    diagnosis = found(files, reading(files, "app", "late"))
    assert (diagnosis.state, diagnosis.seen) == (
        State.SOURCE_REPLACED,
        "positions are of topic web, the source is app, late",
    )


def test_a_batch_with_a_new_topic_records_its_id_or_is_refused() -> None:
    files = lake({"web": {"0": 5}}, ONE)
    known = TopicIds({"web": "id-web"}, {"app": TopicLeftBehind("id-app", {"0": 7})}).to_source()
    there = {name: topic(name) for name in ALL}
    source = KafkaSource(
        ".*",
        lambda: there,
        files,
        "ckpt",
        chooses=lambda _: True,
        find=lambda names: {name: there[name] for name in names if name in there},
        other_reader=lambda name: "sources.b" if name == "of_b" else None,
    )
    assert source.identity_at('{"web":{"0":9}}', known) == known
    with_late = source.identity_at('{"web":{"0":9},"late":{"0":1}}', known)
    assert TopicIds.of(with_late) == TopicIds(
        {"web": "id-web", "late": "id-late"}, {"app": TopicLeftBehind("id-app", {"0": 7})}
    )
    for name, said in (("app", "is there again"), ("of_b", r"sources\.b chooses topic of_b"), ("none", "is gone")):
        with pytest.raises(SourceError, match=said):
            source.identity_at(json.dumps({"web": {"0": 9}, name: {"0": 1}}), known)


def planned(files: MemoryFiles, source: KafkaSource) -> Recovery:
    change = plan_move(case(files, source))
    assert change is not None
    return change


@pytest.mark.parametrize("is_open", [False, True])
def test_a_change_is_one_commit_and_two_files_and_is_finished_after_a_kill(is_open: bool) -> None:
    files = lake({"web": {"0": 5}, "app": {"0": 7}}, TWO)
    if is_open:  # a batch that was planned with the old topics, and is not in the table
        files.texts["ckpt/offsets/1"] = offsets({"web": {"0": 9}, "app": {"0": 9}})
    source = reading(files, "web")
    change = planned(files, source)
    (moved,) = change.commits
    assert [*change.texts] == ["offsets/1", "commits/1"]
    commit(files, "table", 2, moved)
    for name, text in [("", ""), *change.texts.items()]:
        if name:
            files.write(f"ckpt/{name}", text)
        state = DeltaLog(files, "table").state()
        half = is_half_moved(read_checkpoint(files, "ckpt"), state.metadata)
        assert half == (name != "commits/1")
        assert found(files, source).may_start == (name == "commits/1"), "no start within a change"
        assert done_texts(moved) == change.texts
    assert found(files, source).state is State.ALIGNED
