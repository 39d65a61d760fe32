"""Say where a commit can overwrite another one: on a local disk, wherever our own log store is not at work.

Delta's rule is that a version is written once, and the second writer is told so. Our log store keeps it by a hard link.
Hadoop's way on a local disk is a look whether the name is free, and then a rename, which replaces what came in between.
"""

from pyspark.sql import SparkSession

from oncelake.common.lake import Lake
from oncelake.common.spark import direct_file_system
from oncelake.common.spark.runtime import is_given, on_databricks
from oncelake.common.spark.settings import SparkSettings
from oncelake.exactly_once.lease import has_lock, links_are_missing


def other_log_store(lake: Lake, settings: SparkSettings) -> list[str]:
    """Return a warning if commits to a lake are not written by our log store.

    To be asked before a Spark of our own is started: one that is there by then counts as somebody else's.
    """
    why = _other_log_store(settings) if has_lock(lake) and not on_databricks() else None
    return [_warning(lake, why)] if why else []


def no_hard_links(lake: Lake) -> list[str]:
    """Return a warning if the last process that held a lake found no hard links on its file system."""
    found = has_lock(lake) and links_are_missing(lake)
    return [_warning(lake, "its file system has no hard links; put the lake on one that has")] if found else []


def _warning(lake: Lake, why: str) -> str:
    return (
        f"{lake.root}: of two processes that commit at the same moment one can overwrite the other, so run "
        f"`oncelake maintain` only while nothing else writes the lake; {why}"
    )


def _other_log_store(settings: SparkSettings) -> str | None:
    """Return why Spark does not, or will not, write commits by our log store; None when it does."""
    if is_given():
        active = SparkSession.getActiveSession()
        used = active.conf.get(direct_file_system.LOG_STORE, "") if active is not None else ""
        ours = used == direct_file_system.CONF[direct_file_system.LOG_STORE]
        return None if ours else "this Spark was started by somebody else, and has another log store"
    if not settings.master.startswith("local"):
        return f"with spark.master {settings.master} Delta's own log store is used"
    return direct_file_system.why_not(settings.conf)
