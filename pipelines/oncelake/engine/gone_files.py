"""Explain a batch or a proof that misses a data file of a table: who removed it, and what to do."""

from urllib.parse import unquote

from oncelake.common.explain import missing_file
from oncelake.common.lake import BRONZE, Table
from oncelake.engine.chain import Chain
from oncelake.engine.graph import Stage
from oncelake.engine.start_gate import READ_AGAIN, stage_of


def gone_file(error: BaseException, chain: Chain, stage: Stage) -> str | None:
    """Return which data file of a table is gone, and what to do; None if the error has another cause.

    Args:
        error: the error of Spark.
        chain: the chain.
        stage: the stage whose batch, or whose part of the proof, missed the file.
    """
    path = missing_file(error)
    if path is None:
        return None
    tables = [target.table for writer in chain.stages for target in writer.writes]
    table = next((table for table in tables if unquote(path).startswith(f"{chain.lake.at(table)}/")), None)
    if table is None:
        return None
    name = path.rpartition("/")[2]
    return f"the data file {name} of {table} is gone{_by(chain, table)}. {_way_out(table, stage)}"


def _by(chain: Chain, table: Table) -> str:
    commits = (commit for commit, _ in chain.commit_log(table).newest_first())
    vacuum = next((commit for commit in commits if commit.operation.startswith("VACUUM END")), None)
    return f"; the last VACUUM ended in version {vacuum.version}, {vacuum.at}" if vacuum is not None else ""


def _way_out(table: Table, stage: Stage) -> str:
    if table in stage.reads:
        return f"Read the table as it is now: oncelake rebuild {stage.name}"
    if table.layer == BRONZE.layer:
        return f"{READ_AGAIN} oncelake rebuild {stage_of(table)} --accept-loss"
    return f"Make its rows again: oncelake rebuild {stage_of(table)}"
