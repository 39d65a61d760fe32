"""Every offset of a topic is read, waits for the next run, or is reported as lost."""

import json
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest

from oncelake.common.lake import BRONZE
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.link import Link, Uncompared
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.sources.kafka import proof as module
from oncelake.sources.kafka.proof import account, kafka_offsets
from oncelake.sources.kafka.source import KafkaSource, LastRecords, PartitionCensus, Topic, census
from oncelake.sources.proof import StageView
from tests.support.memory import MemoryFiles, metadata, offsets

ALIGNED = Diagnosis(State.ALIGNED, "at batch 0")


def at(**parts: int) -> str:
    return json.dumps({"alog": {name.removeprefix("p"): offset for name, offset in parts.items()}})


def topic(earliest: dict[str, int], latest: dict[str, int], topic_id: str = "id") -> Topic:
    return Topic(topic_id, earliest, latest)


def source(now: Topic, first: str | None = None) -> KafkaSource:
    texts = {"ckpt/sources/0/0": f"\0v1\n{first}"} if first else {}
    return KafkaSource("alog", lambda: {"alog": now}, MemoryFiles(texts), "ckpt")


def batch(position: str, **changed: object) -> CommitMetadata:
    said = {"kind": "kafka", "topic": "alog", "topic_id": "id"}
    return replace(metadata(0, "bronze.access_log", source=said, after=offsets(json.loads(position))), **changed)  # type: ignore[arg-type]


def told(now: Topic, position: str | None, diagnosis: Diagnosis = ALIGNED, first: str | None = None) -> Link:
    return account(source(now, first), batch(position) if position else None, diagnosis)


def test_each_offset_of_a_partition_is_read_lost_or_waiting() -> None:
    for read, oldest, size in product([*range(12), None], range(12), range(4)):
        end = oldest + size
        (found,) = census("alog", None if read is None else at(p0=read), topic({"0": oldest}, {"0": end}))
        below = range(found.first if read is None else found.read)
        assert [*below, *found.lost, *found.waiting] == [*range(max(end, found.read))], "none left out, none twice"
        assert all(offset >= oldest for offset in found.waiting), "only what Kafka holds can be read"
        assert all(offset < oldest for offset in found.lost)
        assert len(found.beyond) == max(0, (read or 0) - end)
        assert read is not None or not found.lost


def test_a_partition_missing_in_the_position_is_read_from_its_first_offset() -> None:
    now = topic({"0": 0, "1": 0, "10": 7}, {"0": 5, "1": 3, "10": 9})
    assert census("alog", at(p0=5), now, at(p0=2)) == [
        PartitionCensus("0", read=5, oldest=0, end=5, first=2),
        PartitionCensus("1", read=0, oldest=0, end=3),
        PartitionCensus("10", read=0, oldest=7, end=9),
    ]


def test_a_topic_that_is_read_to_its_end_holds() -> None:
    link = told(topic({"0": 3, "1": 0}, {"0": 9, "1": 0}), at(p0=9, p1=0))
    assert (link.holds, link.said) == (True, "2 partitions of alog read up to the end")
    assert link.name == "alog → bronze.access_log: offsets"


def test_waiting_records_hold_and_are_counted() -> None:
    link = told(topic({"0": 0, "1": 0}, {"0": 12, "1": 1}), at(p0=9))
    assert link.holds
    assert link.said == "2 partitions of alog, 4 offsets wait for the next run: alog/0/9 to 11, alog/1/0"


def test_records_behind_an_open_transaction_wait_and_are_not_read_to_the_end() -> None:
    now = Topic("id", {"0": 0, "1": 0}, {"0": 9, "1": 4}, {"0": 17, "1": 4})
    link = told(now, at(p0=9, p1=3))
    assert link.holds
    assert link.said == (
        "2 partitions of alog, 1 offset waits for the next run: alog/1/3; "
        "8 offsets wait for an open transaction: alog/0/9 to 16"
    )
    lost = told(now, at(p0=9, p1=4), Diagnosis(State.CHECKPOINT_LOST, "there is no checkpoint"))
    assert lost.said.startswith("8 offsets wait and no run reads them")
    topic_source = source(now)
    backlog = topic_source.backlog(at(p0=9, p1=4))
    assert (backlog.count, backlog.behind) == (8, 8)
    assert not topic_source.exhausted(at(p0=9, p1=4))
    assert topic_source.exhausted(at(p0=17, p1=4))
    assert topic_source.ends() == {"alog/0": 17, "alog/1": 4}
    assert topic_source.trouble(at(p0=10, p1=4), None, {}) is not None, "bronze never reads into a transaction"


def test_a_last_record_that_is_another_one_does_not_hold_and_what_is_not_compared_is_counted() -> None:
    found = LastRecords(uncompared={"was removed by compaction": 2})
    same = replace(source(topic({"0": 0}, {"0": 9})), compare_last=lambda *_: found).after(lambda: batch(at(p0=9)))
    link = account(same, batch(at(p0=9)), ALIGNED)
    assert link.holds
    assert link.uncompared == (Uncompared(2, "the last record of 2 partitions was removed by compaction"),)
    other = replace(same, compare_last=lambda *_: LastRecords(("alog/0/8 is another record",)))
    link = account(other, batch(at(p0=9)), ALIGNED)
    assert not link.holds
    assert link.said.startswith("alog/0/8 is another record: the topic lost the end of its log")


def test_records_that_wait_for_a_refused_stage_do_not_hold() -> None:
    lost = Diagnosis(State.CHECKPOINT_LOST, "there is no checkpoint")
    link = told(topic({"0": 0}, {"0": 12}), at(p0=9), lost)
    assert not link.holds
    assert link.said == "3 offsets wait and no run reads them, as bronze would not start: checkpoint lost"
    assert told(topic({"0": 0}, {"0": 9}), at(p0=9), lost).holds, "nothing waits, so nothing is missing"


def test_the_first_run_reads_all_records_and_expired_ones_are_a_note() -> None:
    link = told(topic({"0": 4, "1": 0}, {"0": 6, "1": 2}), None)
    assert link.holds
    assert "4 offsets wait for the next run" in link.said
    assert link.notes == ("alog/0/0 to 3 expired before the first run and were never read",)
    later = told(topic({"0": 8}, {"0": 9}), at(p0=9), first=at(p0=4))
    assert later.holds
    assert later.notes == link.notes


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (topic({"0": 11}, {"0": 12}), "alog/0/9 to 10 are gone and bronze has not read them"),
        (topic({"0": 0, "1": 2}, {"0": 9, "1": 2}), "alog/1/0 to 1 are gone and bronze has not read them"),
        (topic({"0": 0}, {"0": 8}), "alog/0 ends at 8, but bronze has read up to 9"),
        (topic({"1": 0}, {"1": 99}), "alog/0 ends at 0, but bronze has read up to 9"),
        (topic({"0": 0}, {"0": 99}, "other"), "topic alog has ID other, bronze has read id"),
    ],
)
def test_lost_records_or_another_topic_do_not_hold(now: Topic, said: str) -> None:
    link = told(now, at(p0=9))
    assert not link.holds
    assert said in link.said


def test_a_batch_planned_from_expired_offsets_is_lost() -> None:
    link = told(topic({"0": 6}, {"0": 9}), None, first=at(p0=4))
    assert not link.holds
    assert "alog/0/4 to 5 are gone" in link.said


def test_a_run_during_the_proof_is_no_fault_but_a_lasting_loss_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.0)
    now = source(topic({"0": 6}, {"0": 9}))
    looks = iter([StageView(now, batch(at(p0=4)), ALIGNED), StageView(now, batch(at(p0=9)), ALIGNED)])
    assert kafka_offsets(lambda: next(looks)).holds
    asked: list[int] = []

    def look() -> StageView:
        asked.append(1)
        return StageView(now, batch(at(p0=4)), ALIGNED)

    assert (kafka_offsets(look).holds, len(asked)) == (False, module.LOOKS)


def test_no_row_is_compared_with_another_topic_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    now, unused = topic({"0": 0}, {"0": 9}, topic_id="new"), cast(Any, None)
    view = StageView(source(now), batch(at(p0=5)), Diagnosis(State.SOURCE_REPLACED, "another topic"))
    span = SimpleNamespace(commits=("a batch",), rows_in_all=5)
    ingestion = SimpleNamespace(span=span, look=lambda: view, table=BRONZE, spark=None, deep=False)
    monkeypatch.setattr(module, "kafka_rows", lambda *_: pytest.fail("the rows are compared"))
    monkeypatch.setattr(module, "PAUSE", 0)
    (link,) = module.links(source(now), cast(Any, ingestion), unused)
    assert not link.holds
    assert "has ID new, bronze has read id" in link.said
