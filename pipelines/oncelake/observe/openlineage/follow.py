"""Send OpenLineage events of a run: batches put them into a queue, and a separate thread sends them.

No event stops a batch. Each batch is sent after its commit, so an event never tells of a batch that is not there; after
a crash the batch is sent again, under the same run ID, if it is repeated, and never if it is not.
"""

import logging
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from pyspark.sql import SparkSession

from oncelake.common.background import UNTIL_WOKEN, Background, Pause
from oncelake.common.errors import ConfigError, StageError, reason
from oncelake.engine.chain import Chain, named
from oncelake.engine.runner import RUN_ID
from oncelake.engine.settings import OpenLineageSettings
from oncelake.exactly_once.batch import CommittedBatch, Event, EventSink, Notice
from oncelake.observe.measure import ignore
from oncelake.observe.openlineage.datasets import Datasets

# The stage of a warning about events.
OPENLINEAGE = "openlineage"
# Seconds until the next attempt after a failure.
LATER = 30.0
# At its end, a run waits at most this many seconds for the remaining events.
GRACE = 5.0
# A user and a password in a URL.
_PASSWORD = re.compile(r"//[^/@\s]*@")
# While nobody receives them, the oldest events beyond this number are dropped.
MOST = 10_000


def check_installed(settings: OpenLineageSettings) -> None:
    """Raise ConfigError if events are to be sent, and OpenLineage's library is missing."""
    if settings.enabled and find_spec("openlineage") is None:
        # guard: openlineage-is-installed
        raise ConfigError(
            "openlineage.enabled: this Python has no openlineage-python; install oncelake[openlineage], or set "
            "openlineage.enabled to false"
        )


@contextmanager
def lineage(chain: Chain, _: SparkSession, say: EventSink) -> Iterator[EventSink]:
    """Send the events of a run, and yield the sink for its batches; nothing happens unless `openlineage.enabled`."""
    if not chain.settings.openlineage.enabled:
        yield ignore
        return

    def warn(why: str) -> None:
        text = f"events could not be sent, which does not affect the tables: {why}"
        say(Notice(OPENLINEAGE, text, "warning"))

    with LineageSender(BatchEvents(chain), warn).going_on() as sender:
        try:
            yield sender.put
        except StageError as error:
            if "stage" in error.told:
                sender.put(Notice(error.told["stage"], str(error), "warning", failure=error.told))
            raise


@dataclass(frozen=True)
class BatchEvents:
    """Makes OpenLineage's events of a run's own events."""

    chain: Chain

    def __call__(self, event: Event) -> Sequence[Any]:
        """Return the events of a committed batch, or of a stage that stopped; none of anything else."""
        from oncelake.observe.openlineage.events import StageJob, committed, failed  # noqa: PLC0415 - an extra

        told = event.failure if isinstance(event, Notice) else None
        if isinstance(event, Notice) and told is None:
            return ()
        stage, datasets = named(self.chain.stages, event.stage), Datasets(self.chain)
        job = StageJob(
            self.chain.settings.openlineage.namespace,
            stage.name,
            datasets.inputs(stage, event.position),
            datasets.outputs(stage),
            frozenset(str(target.table) for target in stage.writes),
        )
        if isinstance(event, CommittedBatch):
            return committed(job, event)
        return failed(job, told or {}, event.text, RUN_ID, round(event.since * 1000))


def _client() -> Any:
    from openlineage.client import OpenLineageClient  # noqa: PLC0415 - an extra

    retries = logging.getLogger("urllib3.connectionpool")
    if retries.level == logging.NOTSET:  # it prints each further attempt; one warning is enough
        retries.setLevel(logging.ERROR)
    return OpenLineageClient()


@dataclass
class LineageSender:
    """A queue of a run's events, and the thread that sends them.

    Attributes:
        events: returns OpenLineage's events of one.
        warn: called with the reason when sending fails, but only for the first failure after a success; without a
            password in a URL.
        client: returns OpenLineage's client, as its own environment variables and file configure it.
        later: seconds until the next attempt after a failure.
        failed: True if the last attempt failed, so that the event waits.
    """

    events: Callable[[Event], Sequence[Any]]
    warn: Callable[[str], None]
    client: Callable[[], Any] = _client
    later: float = LATER
    failed: bool = False

    def __post_init__(self) -> None:
        self._waiting: deque[Event] = deque(maxlen=MOST)
        self._thread = Background("openlineage", self._round)
        self._opened: Any = None
        self._told = False

    def put(self, event: Event) -> None:
        """Enqueue a batch or a failure; called by batches."""
        if isinstance(event, CommittedBatch) or event.failure is not None:
            self._waiting.append(event)
            self._thread.wake()

    @contextmanager
    def going_on(self) -> Iterator["LineageSender"]:
        """Send events in a thread until the run ends; then send the remaining ones."""
        self._thread.start()
        try:
            yield self
        finally:
            self._thread.end()
            self._thread.join(GRACE)
            with suppress(Exception):  # some clients send in a thread of their own
                if self._opened is not None:
                    self._opened.close(GRACE)

    def send(self) -> None:
        """Send what waits; stop at the first failure, and keep the event unless the receiver refuses it.

        An event that cannot be made is left out.
        """
        while self._waiting:
            event = self._waiting.popleft()
            try:
                told = self.events(event)
            except Exception as error:  # guard: unmade-event-is-dropped
                self._tell(error)
                continue
            try:
                if self._opened is None:
                    self._opened = self.client()
                for each in told:
                    self._opened.emit(each)
                self.failed = self._told = False
            except Exception as error:  # guard: lineage-stops-no-batch
                self._tell(error)
                if not _is_refused(error):  # guard: refused-event-is-dropped
                    self._waiting.appendleft(event)
                    self.failed = True
                    return

    def _tell(self, error: Exception) -> None:
        if not self._told:
            self.warn(_PASSWORD.sub("//", reason(error)))  # guard: lineage-url-without-password
        self._told = True

    def _round(self) -> Pause:
        self.send()
        return (self.later, self.later) if self.failed else UNTIL_WOKEN


def _is_refused(error: Exception) -> bool:
    """Return True if the receiver refuses this event, so that sending it again does not help."""
    status = getattr(getattr(error, "response", None), "status_code", 0)
    # a key that has expired, or a receiver that is busy, may be right again
    return isinstance(status, int) and 400 <= status < 500 and status not in (401, 403, 408, 429)
