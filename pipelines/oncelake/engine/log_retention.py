"""Keep the commit of a quiet table's last batch, from which its stage knows its position.

Delta's clean-up removes a commit 30 days after it was made, with the next checkpoint of the log. A table of the chain
that gets batches has newer ones. A table that gets none, and that others maintain (a daily VACUUM), would forget its
last batch, so a run has its log kept for longer.
"""

from collections.abc import Iterator

from pyspark.sql import SparkSession

from oncelake.common.errors import reason
from oncelake.common.lake import Table, identifier
from oncelake.engine.chain import Chain
from oncelake.exactly_once.delta_log import Commit, DeltaLog
from oncelake.exactly_once.write import again_on_conflict

# The period says that oncelake has set it: nobody else keeps a log for a hundred years.
_PROPERTY, _KEPT = "delta.logRetentionDuration", "interval 36500 days"
# The milliseconds after which a commit is kept: half of the time that Delta keeps it.
_FADES = 15 * 24 * 3600 * 1000


def fading(chain: Chain) -> list[str]:
    """Return a sentence for each table whose last batch Delta would forget; the next run has its log kept."""
    return [
        _sentence(table, last, newest)
        for table, log, last, newest in _newest_batches(chain)
        if _fades(last, newest) and _PROPERTY not in log.properties()
    ]


def keep_logs(chain: Chain, spark: SparkSession) -> list[str]:
    """Have the logs of fading tables kept, and those of tables with a new batch cleaned up again.

    The caller holds the lake's lock, and no stage runs.

    Returns:
        A sentence for each log that is kept from now on, or that cannot be changed.
    """
    sentences = []
    for table, log, last, newest in _newest_batches(chain):
        retention, change = log.properties().get(_PROPERTY), None
        if _fades(last, newest) and retention is None:  # guard: fading-log-kept
            change = f"SET TBLPROPERTIES ('{_PROPERTY}' = '{_KEPT}')"
            sentences.append(_sentence(table, last, newest))
        if not _fades(last, newest) and retention == _KEPT:  # guard: log-of-busy-table-released
            change = f"UNSET TBLPROPERTIES ('{_PROPERTY}')"
        if change is not None:
            statement = f"ALTER TABLE {identifier(chain.lake.at(table))} {change}"
            try:
                again_on_conflict(lambda statement=statement: spark.sql(statement))  # type: ignore[misc]
            except Exception as error:
                sentences.append(f"{table}: {reason(error)}. Run: {statement}")
    return sentences


def _sentence(table: Table, last: Commit, newest: Commit) -> str:
    return (
        f"{table}: its last batch is of {last.at}, and other commits go on, up to {newest.statement}. Delta removes a "
        f"batch's commit from the log after 30 days, so a run sets {_PROPERTY} = {_KEPT}, until there is a new batch"
    )


def _fades(last: Commit, newest: Commit) -> bool:
    return newest.timestamp - last.timestamp >= _FADES


def _newest_batches(chain: Chain) -> Iterator[tuple[Table, DeltaLog, Commit, Commit]]:
    """Yield each table of the chain with a batch, its log, the commit of its last batch, and its newest commit."""
    for table in (target.table for stage in chain.stages for target in stage.writes):
        log = chain.commit_log(table)
        last, newest = log.state().last, next(log.newest_first(), None)
        if last is not None and newest is not None:
            yield table, log, last, newest[0]
