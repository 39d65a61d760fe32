"""Keep the commit of a quiet table's last batch, from which its stage knows its position.

Delta's clean-up removes a commit 30 days after it was made, with the next checkpoint of the log. A table of the chain
that gets batches has newer ones. A table that gets none, and that others maintain (a daily VACUUM), would forget its
last batch, so a run has its log kept for longer.
"""

import itertools
from collections.abc import Iterator

from pyspark.sql import SparkSession

from oncelake.common.lake import Table, identifier
from oncelake.engine.chain import Chain
from oncelake.exactly_once.delta_log import LOOK_BACK, Commit, DeltaLog

_PROPERTY, _KEPT = "delta.logRetentionDuration", "interval 3650 days"
# The milliseconds after which a commit is kept: half of the time that Delta keeps it.
_FADES = 15 * 24 * 3600 * 1000


def fading(chain: Chain) -> list[str]:
    """Return a sentence for each table whose last batch Delta would forget; the next run has its log kept."""
    return [
        f"{table}: its last batch is of {last.at}, and other commits go on, up to {newest.statement}. Delta removes a "
        f"batch's commit from the log after 30 days, so a run sets {_PROPERTY} = {_KEPT}, until the next batch"
        for table, last, newest in _newest_batches(chain)
        if _fades(chain.commit_log(table), last, newest)
    ]


def keep_logs(chain: Chain, spark: SparkSession) -> None:
    """Have the logs of fading tables kept, and of those with a new batch no more, with the lock."""
    for table, last, newest in _newest_batches(chain):
        log, at = chain.commit_log(table), identifier(chain.lake.at(table))
        if _fades(log, last, newest):  # guard: fading-log-kept
            spark.sql(f"ALTER TABLE {at} SET TBLPROPERTIES ('{_PROPERTY}' = '{_KEPT}')")
        elif last is newest and log.properties().get(_PROPERTY) == _KEPT:  # guard: log-of-busy-table-released
            spark.sql(f"ALTER TABLE {at} UNSET TBLPROPERTIES ('{_PROPERTY}')")


def _fades(log: DeltaLog, last: Commit, newest: Commit) -> bool:
    """Return True if others commit to a table whose last batch is old, and its log is not kept already."""
    is_old = newest.timestamp - last.timestamp >= _FADES
    return newest.metadata is None and is_old and _PROPERTY not in log.properties()


def _newest_batches(chain: Chain) -> Iterator[tuple[Table, Commit, Commit]]:
    """Yield for each table of the chain with a batch the commit of its last batch, and its newest commit."""
    for table in (target.table for stage in chain.stages for target in stage.writes):
        commits = (commit for commit, _ in itertools.islice(chain.commit_log(table).newest_first(), LOOK_BACK))
        if (newest := next(commits, None)) is not None:
            last = next((commit for commit in itertools.chain([newest], commits) if commit.metadata is not None), None)
            if last is not None:
                yield table, last, newest
