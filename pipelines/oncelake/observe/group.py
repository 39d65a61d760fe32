"""Publish bronze's committed offsets to a Kafka consumer group, for lag tools.

The group is written and never read: the chain resumes from its tables. So no matter what happens to the group, no line
is lost or counted twice, and the next published position corrects the group.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import inf

from pyspark.sql import SparkSession

from oncelake.common.background import Background, Pause
from oncelake.common.errors import reason
from oncelake.engine.chain import Chain
from oncelake.engine.graph import Stage
from oncelake.exactly_once.batch import CommittedBatch, Event, EventSink, Notice
from oncelake.observe.measure import ignore
from oncelake.sources.kind import Publisher

# Seconds between two publications: Kafka's own default interval for automatic commits.
EVERY = 5.0
# Seconds until the next attempt after a failure.
LATER = 30.0


@contextmanager
def publishing(chain: Chain, spark: SparkSession, say: EventSink) -> Iterator[EventSink]:
    """Publish bronze's positions during a run: the recorded one at the start, then the newest, at the end the last.

    Yields the sink for the run's events. Without `group_id`, or without bronze in the chain, nothing happens.
    """
    of_sources = ((stage, chain.kind(stage).publisher(spark)) for stage in chain.stages if not stage.reads)
    publishers = [(stage, publisher) for stage, publisher in of_sources if publisher is not None]
    if not publishers:
        yield ignore
        return
    with ExitStack() as stack:
        sinks = [stack.enter_context(_publishing(chain, stage, publisher, say)) for stage, publisher in publishers]

        def take(event: Event) -> None:
            for sink in sinks:
                sink(event)

        yield take


@contextmanager
def _publishing(chain: Chain, stage: Stage, publisher: Publisher, say: EventSink) -> Iterator[EventSink]:
    """Publish the positions of one source."""

    def recorded() -> str | None:
        return chain.commit_log(stage.tables[0], at_one_moment=True).state().end

    def warn(why: str) -> None:
        text = f"{publisher.name}: offsets could not be published, which does not affect the tables: {why}"
        say(Notice(stage.name, text, "warning"))

    with ConsumerGroup(recorded, publisher.publish, warn, stage=stage.name).going_on() as sink:
        yield sink


@dataclass
class ConsumerGroup:
    """A thread that publishes bronze's position to a Kafka consumer group during a run.

    Attributes:
        recorded: returns the position that bronze's table records.
        publish: writes a position to the group.
        warn: called with the reason when `publish` fails, but only for the first failure after a success.
        every: seconds between two publications.
        later: seconds until the next attempt after a failure.
        last_published: the position that was published last.
        failed: True if the last attempt failed.
        stage: the stage whose batches move the position.
    """

    recorded: Callable[[], str | None]
    publish: Callable[[str], None]
    warn: Callable[[str], None]
    every: float = EVERY
    later: float = LATER
    last_published: str | None = None
    failed: bool = False
    stage: str = "bronze"

    @contextmanager
    def going_on(self) -> Iterator[EventSink]:
        """Publish until the run ends, and yield the sink for its events."""
        thread = Background("group", self._round)

        def take(event: Event) -> None:
            if isinstance(event, CommittedBatch) and event.stage == self.stage:
                thread.wake()

        thread.start()
        try:
            yield take
        finally:
            thread.end()
            thread.join()

    def tell(self) -> None:
        """Publish the recorded position, unless it was published already."""
        try:
            at = self.recorded()
            if at is not None and at != self.last_published:
                self.publish(at)
                self.last_published = at
            self.failed = False
        except Exception as error:  # any error: only lag tools depend on the group
            if not self.failed:
                self.warn(reason(error))
            self.failed = True

    def _round(self) -> Pause:
        self.tell()
        return (self.later, self.later) if self.failed else (self.every, inf)
