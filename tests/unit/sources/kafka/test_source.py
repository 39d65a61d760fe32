"""A Kafka checkpoint without the start of its first batch, or of another topic, starts nothing."""

import json

import pytest

from oncelake.exactly_once.checkpoint import read_checkpoint
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.diagnosis import diagnose
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.sources.kafka.source import KafkaSource, Topic
from tests.support.memory import QUERY, MemoryFiles, commit, metadata, offsets, table


@pytest.fixture
def files() -> MemoryFiles:
    """Make a first batch that was planned up to offset 10, and is in no table."""
    files = MemoryFiles()
    table(files, "table", 0)
    files.texts["ckpt/metadata"] = json.dumps({"id": QUERY})
    files.texts["ckpt/offsets/0"] = offsets({"alog": {"0": 10}})
    files.texts["ckpt/sources/0/0"] = '\0v1\n{"alog":{"0":4}}'
    return files


def found(files: MemoryFiles, topic: str = "alog") -> Diagnosis:
    source = KafkaSource(topic, lambda: {topic: Topic("id", {"0": 0}, {"0": 99})}, files, "ckpt")
    return diagnose(read_checkpoint(files, "ckpt"), {"table": DeltaLog(files, "table").state()}, source)


@pytest.mark.parametrize("text", [None, "", '\0v1\n{"alog":{"0"'])
def test_a_first_batch_without_the_offsets_that_it_starts_from_is_lost(files: MemoryFiles, text: str | None) -> None:
    assert found(files).state is State.ALIGNED
    files.texts.pop("ckpt/sources/0/0")
    if text is not None:
        files.texts["ckpt/sources/0/0"] = text
    diagnosis = found(files)
    assert diagnosis.state is State.CHECKPOINT_LOST
    assert diagnosis.seen == "sources/0/0, which holds the start of batch 0, is missing"


def test_a_first_batch_that_is_done_no_longer_needs_its_start(files: MemoryFiles) -> None:
    files.texts.pop("ckpt/sources/0/0")
    files.texts["ckpt/commits/0"] = "v1\n{}"
    read = {"kind": "kafka", "topic": "alog", "topic_id": "id"}
    commit(files, "table", 1, metadata(0, after=files.texts["ckpt/offsets/0"], source=read))
    assert found(files).state is State.ALIGNED


def test_positions_of_another_topic_are_not_applied_to_this_one(files: MemoryFiles) -> None:
    diagnosis = found(files, "blog")
    assert diagnosis.state is State.SOURCE_REPLACED
    assert diagnosis.seen == "positions are of topic alog, the source is blog"
