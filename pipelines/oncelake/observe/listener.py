"""A listener for Spark's streaming query events that does not delay the queries."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm


@dataclass(frozen=True)
class QueryEvent:
    """An event of a streaming query, as Spark reports it.

    Attributes:
        run_id: the ID of the query's run; each start has a new one.
        name: the query's name, which is the stage's name; only set when the query starts.
        progress: a trigger's progress, as in Spark's JSON.
    """

    kind: Literal["started", "progress", "idle", "ended"]
    run_id: str
    name: str = ""
    progress: Mapping[str, Any] = field(default_factory=dict)


# Returns the event, which it fetches from Java.
Ask = Callable[[], QueryEvent]


class Listener:
    """The object that Java calls. Spark waits for the answer when a query starts, so each call only enqueues.

    PySpark's own listener calls Java about sixty times for one event before it passes the event on. This listener
    enqueues a function instead. The consumer calls it later, and it fetches the event's JSON once.
    """

    def __init__(self, put: Callable[[Ask], None]) -> None:
        self._put = put

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Java's names
        self._put(lambda: QueryEvent("started", event.runId().toString(), name=event.name() or ""))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._put(lambda: _progress(event))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self._put(lambda: QueryEvent("idle", event.runId().toString()))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self._put(lambda: QueryEvent("ended", event.runId().toString()))

    class Java:
        """The Java interface that py4j implements with this object."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def _progress(event: Any) -> QueryEvent:
    progress = json.loads(event.progress().json())
    return QueryEvent("progress", progress["runId"], progress=progress)


@contextmanager
def listening(spark: SparkSession, put: Callable[[Ask], None]) -> Iterator[None]:
    """Pass the events of a session's queries to `put`; a query that started earlier sends no start event."""
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    wrapper = jvm(spark).org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(Listener(put))
    manager = spark._jsparkSession.streams()
    manager.addListener(wrapper)
    try:
        yield
    finally:
        manager.removeListener(wrapper)
