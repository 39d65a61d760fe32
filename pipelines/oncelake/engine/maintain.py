"""Maintenance of a lake's tables: compact small files (OPTIMIZE) and remove unneeded files (VACUUM).

Maintenance can run while the chain runs. It moves rows but does not change them, so Delta's streams skip its commits,
and a write that conflicts with it is retried. If maintenance conflicts with a batch, it is retried a few times, then
continues with the next table. A table without a new batch since its last maintenance is skipped. Otherwise, on a table
that gets no more batches, commits of maintenance alone would in time push the chain's last commit out of the log,
which Delta cleans up after 30 days.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from oncelake.common.errors import reason
from oncelake.common.lake import identifier, opened_by_delta_rs
from oncelake.common.spark.s3 import check_lake
from oncelake.common.wording import count_of
from oncelake.engine.chain import Chain
from oncelake.engine.graph import Target
from oncelake.engine.make_table import name_columns_with_bounds
from oncelake.exactly_once.delta_log import MAINTENANCE, DeltaLog
from oncelake.exactly_once.write import TRIES, again_on_conflict, is_conflict
from oncelake.gold.declaration import LOG_TIME

# Only delta-rs names it in an OPTIMIZE: the compaction in a run, which comes with batches and removes no file.
_UPKEEP = "targetSize"


@dataclass(frozen=True)
class MaintenanceResult:
    """The result of the maintenance of one table.

    Attributes:
        compacted: the number of small files that were replaced.
        made: the number of files that replaced them.
        wrong: the number of files whose bounds hid rows from readers; they are among those replaced.
        skipped: why nothing was done; empty if maintenance ran.
        failed: why maintenance failed; empty if it did not.
    """

    table: str
    compacted: int = 0
    made: int = 0
    wrong: int = 0
    skipped: str = ""
    failed: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the result for programs."""
        return asdict(self)

    def __str__(self) -> str:
        if self.failed:
            return f"{self.table}: NOT DONE: {self.failed}"
        if self.skipped:
            return f"{self.table}: {self.skipped}"
        files = f"{count_of(self.compacted, 'file')} became {self.made:,}" if self.compacted else "no small files"
        bounds = f"; bounds were repaired in {count_of(self.wrong, 'file')}" if self.wrong else ""
        return f"{self.table}: {files}{bounds}; removed the files that no version of the last 7 days needs"


def maintain(chain: Chain, spark: SparkSession) -> Iterator[MaintenanceResult]:
    """Yield the result for each table of a lake, in data order; if one table fails, the others are still maintained.

    Raises:
        OncelakeError: the lake is on a store on which two drivers are not safe, or nothing can be put there.
    """
    check_lake(spark, chain.lake)
    for target in (target for stage in chain.stages for target in stage.writes):
        table = target.table
        try:
            yield _maintain(spark, target, chain.lake.at(table), chain.commit_log(table))
        except Exception as error:
            met = f"all {TRIES} tries conflicted with a batch; run it again when the chain has less to do"
            yield MaintenanceResult(str(table), failed=met if is_conflict(error) else reason(error))


def _maintain(spark: SparkSession, target: Target, at: str, commit_log: DeltaLog) -> MaintenanceResult:
    table = target.table
    if commit_log.newest() is None:
        return MaintenanceResult(str(table), skipped="there is no table yet")
    again_on_conflict(lambda: name_columns_with_bounds(spark, target, at, commit_log))
    wrong = _wrong_bounds(at)
    if not wrong and not _has_news(commit_log):
        return MaintenanceResult(str(table), skipped="no batch since the last maintenance")
    name = identifier(at)
    metrics = ("metrics.numFilesRemoved", "metrics.numFilesAdded")
    sorting = f" ZORDER BY ({LOG_TIME})" if wrong else ""  # it writes all files again, those of one file too
    done = again_on_conflict(lambda: spark.sql(f"OPTIMIZE {name}{sorting}").select(*metrics).collect())
    again_on_conflict(lambda: spark.sql(f"VACUUM {name}").collect())
    return MaintenanceResult(str(table), sum(row[0] for row in done), sum(row[1] for row in done), wrong)


def _wrong_bounds(at: str) -> int:
    """Return how many data files have bounds that hide rows; only delta-rs wrote such, on a local disk."""
    table = opened_by_delta_rs(at)
    if table is None:
        return 0
    from oncelake.exactly_once.bounds import bounded_files  # noqa: PLC0415 - needs delta-rs, which is optional

    return sum(1 for file in bounded_files(table, at) if file.hidden())


def _has_news(commit_log: DeltaLog) -> bool:
    """Return True if the chain has written to the table since the last commit of maintenance."""
    for commit, _ in commit_log.newest_first():
        if commit.metadata is not None or _UPKEEP in commit.parameters:
            return True
        if commit.operation.startswith(MAINTENANCE):
            return False
    return True
