"""This is where Delta is made to look up a table's transactions before the table's next batch asks for them.

A write that carries a transaction id makes Delta rebuild the state of the table's newest version, 0.2 to 0.3 s on the
stage's own thread, whatever the batch. The newest version is known once a batch is committed; here its state is asked
for at once, beside the other stages' work, and Delta keeps it. What the next write finds is the same either way.
Source: `Snapshot.transactions` and `computedState` of Delta 4.
"""

import queue
import threading
from contextlib import suppress
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from oncelake.common.spark.jvm import jvm
from oncelake.common.tables import is_name

# Compiled code for a query over a few hundred actions is not worth the compiling.
_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@dataclass
class Prefetch:
    """A thread beside the stages that does so, table by table; where Spark does not let it, it ends."""

    spark: SparkSession
    _paths: "queue.SimpleQueue[str | None]" = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        threading.Thread(target=self._go, name="prefetch", daemon=True).start()

    def __call__(self, path: str) -> None:
        """Take the place of a table that has a new version; a catalog's table is left to its writer."""
        self._paths.put(path)

    def end(self) -> None:
        """Look up no more."""
        self._paths.put(None)

    def _go(self) -> None:
        with suppress(Exception):  # on Databricks these classes are not there, and at the end Spark may be gone
            java = jvm(self.spark)
            session = self.spark._jsparkSession.newSession()
            for key, value in _INTERPRETED.items():
                session.conf().set(key, value)
            java.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
            log = java.org.apache.spark.sql.delta.DeltaLog
            while (path := self._paths.get()) is not None:
                if not is_name(path):
                    log.forTable(session, path).unsafeVolatileSnapshot().setTransactions()
