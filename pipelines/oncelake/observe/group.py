"""This is where Kafka's lag tools are told up to where bronze has committed, under the name of a consumer group.

The group is told and never asked: what the chain goes on from is in the tables. So whatever becomes of the group, no
line is lost or counted twice, and the next position sets it right.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from oncelake.bronze.sources.kafka import kafka_client
from oncelake.bronze.sources.kafka_admin import tell_group
from oncelake.common.errors import reason
from oncelake.common.lake import BRONZE
from oncelake.engine.chain import Chain
from oncelake.exactly_once.batch import BatchReport, Event, EventSink, Notice
from oncelake.exactly_once.positions import offsets_of
from oncelake.observe.measure import ignore

# No more often than Kafka's own consumers commit, unless told otherwise, in seconds.
EVERY = 5.0
# After a failure, in seconds.
LATER = 30.0
# A run that ends waits no longer for Kafka's answer; what orders the end may kill it after ten seconds.
_BRIEFLY = {"default.api.timeout.ms": "5000", "request.timeout.ms": "5000"}


@contextmanager
def publishing(chain: Chain, spark: SparkSession, say: EventSink) -> Iterator[EventSink]:
    """Publish bronze's positions during a run: the recorded one at once, then the newest, and at the end the last.

    Gives what takes the run's events.
    """
    source = chain.settings.source
    if source.group_id is None or all(stage.reads is not None for stage in chain.stages):
        yield ignore
        return
    group, client = source.group_id, {**_BRIEFLY, **kafka_client(source)}

    def recorded() -> str | None:
        return chain.commit_log(BRONZE, at_one_moment=True).state().end

    def publish(at: str) -> None:
        tell_group(spark, client, source.topic, group, offsets_of(at, source.topic))

    def warn(why: str) -> None:
        said = f"consumer group {group} is not told of positions, which changes no count: {why}"
        say(Notice("bronze", said, "warning"))

    with ConsumerGroup(recorded, publish, warn).going_on() as sink:
        yield sink


@dataclass
class ConsumerGroup:
    """A thread beside the run that publishes.

    Attributes:
        recorded: gives the position that bronze's table records.
        publish: tells the group of a position; an error is warned of once, until it works again.
    """

    recorded: Callable[[], str | None]
    publish: Callable[[str], None]
    warn: Callable[[str], None]
    every: float = EVERY
    later: float = LATER
    told: str | None = None
    failed: bool = False

    def __post_init__(self) -> None:
        self._moved, self._ended = threading.Event(), threading.Event()

    @contextmanager
    def going_on(self) -> Iterator[EventSink]:
        """Publish until the run ends."""
        self._moved.set()
        thread = threading.Thread(target=self._go, name="group", daemon=True)
        thread.start()
        try:
            yield self._take
        finally:
            self._ended.set()
            self._moved.set()
            thread.join()

    def tell(self) -> None:
        """Publish the recorded position, unless the group was told of it."""
        try:
            at = self.recorded()
            if at is not None and at != self.told:
                self.publish(at)
                self.told = at
            self.failed = False
        except Exception as error:  # whatever it is, nothing but a lag tool depends on it
            if not self.failed:
                self.warn(reason(error))
            self.failed = True

    def _take(self, said: Event) -> None:
        if isinstance(said, BatchReport) and said.stage == "bronze":
            self._moved.set()

    def _go(self) -> None:
        while True:
            self._moved.wait()
            ended = self._ended.is_set()
            self._moved.clear()
            self.tell()
            if ended:
                return
            self._ended.wait(self.later if self.failed else self.every)
            if self.failed or self._ended.is_set():
                self._moved.set()
