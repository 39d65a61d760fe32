"""This is where Spark tells of its queries, without making any of them wait."""

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
    """What Spark says of a query.

    Attributes:
        run_id: the query's run, which every start of it has anew.
        name: its name, the stage's; only at its start.
        progress: what a trigger came to, as Spark writes it in JSON.
    """

    kind: Literal["started", "progress", "idle", "ended"]
    run_id: str
    name: str = ""
    progress: Mapping[str, Any] = field(default_factory=dict)


# Gives what Spark said, by asking Java for it.
Ask = Callable[[], QueryEvent]


class Listener:
    """What Java calls: Spark waits for an answer when a query starts, so each call only puts the event away.

    PySpark's own listener asks Java some sixty times for one event before it hands it on. Here the event's JSON is
    asked for once, and later, by who takes it.
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
        """The interface, as py4j is told of it."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


def _progress(event: Any) -> QueryEvent:
    progress = json.loads(event.progress().json())
    return QueryEvent("progress", progress["runId"], progress=progress)


@contextmanager
def listening(spark: SparkSession, put: Callable[[Ask], None]) -> Iterator[None]:
    """Have a session's queries told of; a query that is started before is not."""
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    wrapper = jvm(spark).org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(Listener(put))
    manager = spark._jsparkSession.streams()
    manager.addListener(wrapper)
    try:
        yield
    finally:
        manager.removeListener(wrapper)
