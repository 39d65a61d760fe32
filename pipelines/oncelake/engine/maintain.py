"""This is where a lake's tables are kept tidy: small files made into large ones, files that nothing needs removed.

A run can go on beside it: rows are moved, not changed, which Delta's streams pass over, and a write that meets it is
made again. Where maintenance itself meets a batch, it is tried again a few times, then the next table's turn comes.
A table without a new batch since is left alone: on a table that stands still, commits of maintenance alone
would in time push the chain's last commit out of the log, which Delta cleans up after 30 days.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from oncelake.common import tables
from oncelake.common.errors import reason
from oncelake.common.lake import Table
from oncelake.common.wording import count_of
from oncelake.engine.chain import Chain
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.write import TRIES, again_on_conflict, is_conflict

_MAINTENANCE = ("OPTIMIZE", "VACUUM")


@dataclass(frozen=True)
class Maintained:
    """What maintenance of a table came to.

    Attributes:
        compacted: files that were made into `made`.
        skipped: why nothing was done, empty where it was.
        failed: why it could not be done, empty where it was.
    """

    table: str
    compacted: int = 0
    made: int = 0
    skipped: str = ""
    failed: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Give it for programs."""
        return asdict(self)

    def __str__(self) -> str:
        if self.failed:
            return f"{self.table}: NOT DONE: {self.failed}"
        if self.skipped:
            return f"{self.table}: {self.skipped}"
        files = f"{count_of(self.compacted, 'file')} became {self.made:,}" if self.compacted else "no small files"
        return f"{self.table}: {files}; files that no version of the last 7 days needs are removed"


def maintain(chain: Chain, spark: SparkSession) -> Iterator[Maintained]:
    """Compact and clean the tables of a lake, in the data's order; one that cannot be done leaves the others."""
    for table in (target.table for stage in chain.stages for target in stage.writes):
        try:
            yield _maintain(spark, table, chain.lake.at(table), chain.commit_log(table))
        except Exception as error:
            met = f"each of {TRIES} tries met a batch; run it again when the chain has less to do"
            yield Maintained(str(table), failed=met if is_conflict(error) else reason(error))


def _maintain(spark: SparkSession, table: Table, at: str, commit_log: DeltaLog) -> Maintained:
    if commit_log.newest() is None:
        return Maintained(str(table), skipped="there is no table yet")
    if not _has_news(commit_log):
        return Maintained(str(table), skipped="no batch since the last maintenance")
    name = tables.identifier(at)
    metrics = ("metrics.numFilesRemoved", "metrics.numFilesAdded")
    done = again_on_conflict(lambda: spark.sql(f"OPTIMIZE {name}").select(*metrics).collect())
    again_on_conflict(lambda: spark.sql(f"VACUUM {name}").collect())
    return Maintained(str(table), sum(row[0] for row in done), sum(row[1] for row in done))


def _has_news(commit_log: DeltaLog) -> bool:
    """Tell whether the chain has written since the last maintenance that left a commit."""
    for commit, _ in commit_log.newest_first():
        if commit.metadata is not None:
            return True
        if commit.operation.startswith(_MAINTENANCE):
            return False
    return True
