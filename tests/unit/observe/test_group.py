"""A consumer group gets the newest recorded position, rarely, and without delaying the run."""

import threading
from dataclasses import dataclass, field

import pytest

from oncelake.common.errors import SourceError
from oncelake.common.lake import BRONZE, SILVER
from oncelake.exactly_once.batch import CommittedBatch, Notice
from oncelake.observe.group import ConsumerGroup
from tests.support.house import until


@dataclass
class Kafka:
    """A broker that records the offsets of a group, or refuses."""

    recorded: str | None = "1"
    refuses: bool = False
    told: list[str] = field(default_factory=list)
    tried: int = 0
    warned: list[str] = field(default_factory=list)

    def publish(self, at: str) -> None:
        self.tried += 1
        if self.refuses:
            raise SourceError("the group has active members")
        self.told.append(at)

    def group(self, every: float = 0.01) -> ConsumerGroup:
        return ConsumerGroup(lambda: self.recorded, self.publish, self.warned.append, every, every)


def batch(stage: str = "bronze", *, replayed: bool = False) -> CommittedBatch:
    return CommittedBatch(stage, 0, {str(BRONZE if stage == "bronze" else SILVER): 1}, 0.1, replayed)


def test_the_recorded_position_is_published_at_the_start_of_a_run() -> None:
    kafka = Kafka()
    with kafka.group(every=60).going_on():
        until(lambda: bool(kafka.told), 5)
    assert kafka.told == ["1"]


def test_the_last_position_is_published_before_the_run_ends() -> None:
    kafka = Kafka()
    with kafka.group(every=60).going_on() as tap:
        until(lambda: bool(kafka.told), 5)
        for number in range(2, 100):
            kafka.recorded = str(number)
            tap(batch())
    assert kafka.told == ["1", "99"]


def test_a_lake_without_a_batch_has_no_position_to_publish() -> None:
    kafka = Kafka(recorded=None)
    with kafka.group().going_on() as tap:
        tap(batch("silver"))
        tap(Notice("bronze", "waits"))
    assert kafka.tried == 0


def test_a_replayed_batch_publishes_what_the_table_records() -> None:
    kafka = Kafka()
    with kafka.group().going_on() as tap:
        until(lambda: bool(kafka.told), 5)
        kafka.recorded = "2"
        tap(batch(replayed=True))
        until(lambda: len(kafka.told) == 2, 5)
        assert kafka.told == ["1", "2"]


def test_a_group_that_refuses_is_a_single_warning_and_retried() -> None:
    kafka = Kafka(refuses=True)
    with kafka.group().going_on():
        until(lambda: kafka.tried >= 3, 5)
        assert kafka.warned == ["the group has active members"]
        kafka.refuses = False
        until(lambda: bool(kafka.told), 5)
        assert kafka.told == ["1"]
    assert kafka.warned == ["the group has active members"]


def test_a_batch_never_waits_for_kafka() -> None:
    asked, answer = threading.Event(), threading.Event()

    def publish(_: str) -> None:
        asked.set()
        assert answer.wait(10)

    with ConsumerGroup(lambda: "1", publish, pytest.fail).going_on() as tap:
        assert asked.wait(5)
        tap(batch())  # Kafka has not answered, and this returns
        answer.set()


def test_a_position_that_moves_during_a_publish_is_published_before_the_end() -> None:
    kafka, asked, answer = Kafka(), threading.Event(), threading.Event()

    def publish(at: str) -> None:
        asked.set()
        assert answer.wait(10)
        kafka.publish(at)

    with ConsumerGroup(lambda: kafka.recorded, publish, pytest.fail, every=60).going_on() as tap:
        assert asked.wait(5)
        kafka.recorded = "2"
        tap(batch())
        threading.Timer(0.1, answer.set).start()
    assert kafka.told == ["1", "2"]
