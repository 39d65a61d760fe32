"""The upkeep of a table that gets small batches: few files, a short log, and a gold table ordered by its windows.

A batch a second is 86,400 files and commits a day. The stage that writes the table does this between two batches, so it
conflicts with none. Nothing here changes a row, and a step that fails is tried again after the next hundred commits:
`oncelake maintain` does what is larger than the bounds.
"""

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from deltalake import DeltaTable, PostCommitHookProperties
from deltalake.exceptions import DeltaError

from oncelake.common.lake import is_local, listed_files
from oncelake.exactly_once.bounds import without_float_bounds
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.files import FAILURES

if TYPE_CHECKING:
    from oncelake.exactly_once.writers.local import LocalTable

# A commit is followed by nothing of delta-rs' own: a batch must not fail by what comes after its commit.
NOTHING_AFTER = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

# How many commits lie between two rounds of upkeep. Spark writes a checkpoint every 10 commits, delta-rs every 100.
EVERY = 100
# Version checksums of the last versions stay: other processes may be about to look at them.
KEPT = 10
# A clean-up lists the log with all its times, 0.6 s for 86,400 commits.
CLEAN_EVERY = 1_000
# A checkpoint repeats all that the table has, also its removed files of the last week. A table with more entries gets
# one less often, so that the cost for each commit stays the same.
ENTRIES_PER_COMMIT = 100

# Files up to half of the target are compacted: at least `FEW`, at most `MANY` and `MUCH` bytes at once.
TARGET = 16 * 1024 * 1024
FEW, MANY, MUCH = 10, 5_000, 1024 * 1024 * 1024

# A MERGE writes again all rows of the files that it touches, and mixes their windows. If it copied `COPIED` rows, or
# there are `FILES` more files than needed, a gold table is sorted by window into files of `GROUP` rows, unless it has
# more than `SORTED` rows or `SORTED_BYTES`. Ten million rows take five seconds and 0.5 GB of memory.
COPIED = 1_000_000
FILES = 400
GROUP = 250_000
SORTED = 20_000_000
SORTED_BYTES = 256 * 1024 * 1024

# A duration in the form that delta-rs reads whole. Spark also reads `90 days`, `INTERVAL 90 DAYS`, and several units.
_DURATION = re.compile(r"interval (\d+) (second|minute|hour|day|week)s?")
# A clean-up takes no commit that is younger than the retention by this much: it goes by whole days.
_MARGIN = timedelta(days=2)


def keep_up(table: DeltaTable, local: "LocalTable", since: int, commit: ChainCommit) -> None:
    """Write a checkpoint, join small files and clean up the log, as far as that is due after a commit.

    Args:
        table: the table, at the commit's version.
        local: what is known of it.
        since: the version at the last call.
        commit: the commit of a batch.
    """
    log, windows = f"{local.path}/_delta_log", local.windows
    steps: list[Callable[[], None]] = []
    properties = table.metadata().configuration
    retention = properties.get("delta.logRetentionDuration", "interval 30 days")
    cleans = properties.get("delta.enableExpiredLogCleanup", "true")  # guard: cleanup-property-respected
    is_due = commit.version // EVERY > since // EVERY
    cuts = is_due and cleans == "true" and _would_cut(local, retention)
    understood = _is_understood(retention, cleans) and not cuts
    if is_due:
        # Hadoop's checksum of the file that a checkpoint replaces: with it, Spark would take the new file for broken
        # guard: replaced-checksum-removed
        steps.append(lambda: local.files.remove(f"{log}/._last_checkpoint.crc"))
        if understood:
            steps.append(lambda: _sort(table, commit, windows) if windows else _compact(table))
        steps.append(lambda: _checkpoint(table, local.files.read(f"{log}/_last_checkpoint")))
        steps.append(lambda: _checksums(table, local, since))
    if understood and cleans == "true" and commit.version // CLEAN_EVERY > since // CLEAN_EVERY:
        steps.append(table.cleanup_metadata)
    for step in steps:
        with suppress(DeltaError, *FAILURES):  # guard: upkeep-fails-no-batch
            step()


def _checksums(table: DeltaTable, local: "LocalTable", since: int) -> None:
    """Write the newest version's checksum, and remove those from before: files in a log make each commit slower."""
    newest = table.version()
    local.checksums.write(newest)
    if is_local(local.path):  # a store lists a log from the newest checkpoint on
        local.checksums.remove(since - EVERY, newest - KEPT)


def _is_understood(retention: str, cleans: str) -> bool:
    """Return True if delta-rs understands a table's `delta.logRetentionDuration` and `delta.enableExpiredLogCleanup`.

    It takes a duration that it cannot read for 30 days, and other words than `false` for true. Each of its OPTIMIZEs
    cleans up the log by that, whatever it is told.
    """
    # guard: retention-readable-for-cleanup
    return cleans == "false" or (cleans == "true" and _DURATION.fullmatch(retention) is not None)


def _would_cut(local: "LocalTable", retention: str) -> bool:  # guard: upkeep-keeps-unread-commits
    """Return True if a clean-up may take a commit that a stage still reads, as it is older than the retention."""
    match, needed = _DURATION.fullmatch(retention), local.needed()
    if needed is None or match is None:
        return False
    try:
        oldest = (timedelta(**{f"{match[2]}s": int(match[1])}) - _MARGIN).total_seconds()
    except OverflowError:  # for ever
        return False
    written = local.files.modified(f"{local.path}/_delta_log/{needed:020}.json")
    return written is not None and time.time() - written >= oldest


def _compact(table: DeltaTable) -> None:
    """Combine small files, if they are within the bounds."""
    sizes = listed_files(table)["size_bytes"].to_pylist()
    small = [size for size in sizes if size <= TARGET // 2]
    if FEW <= len(small) <= MANY and sum(small) <= MUCH:
        table.optimize.compact(
            target_size=TARGET,
            max_concurrent_tasks=1,
            writer_properties=without_float_bounds(table),
        )


def _sort(table: DeltaTable, commit: ChainCommit, column: str) -> None:
    """Sort a gold table by its windows, if the last MERGE copied many rows unchanged, or files are many."""
    files = listed_files(table)
    rows, size = (sum(value or 0 for value in files[name].to_pylist()) for name in ("num_records", "size_bytes"))
    too_many = files.num_rows - rows // GROUP >= FILES
    if (too_many or commit.metric("numTargetRowsCopied") >= COPIED) and 0 < rows <= SORTED and size <= SORTED_BYTES:
        table.optimize.z_order(
            [column],
            target_size=max(size * GROUP // rows, 1),
            max_concurrent_tasks=1,
            writer_properties=without_float_bounds(table),
        )


def _checkpoint(table: DeltaTable, last_one: str | None) -> None:
    """Write a checkpoint if it is due after the last one, so that readers start without the older commits."""
    last: dict[str, int] = {}
    with suppress(ValueError):
        last = json.loads(last_one or "{}")
    if table.version() - last.get("version", 0) < max(EVERY, last.get("size", 0) // ENTRIES_PER_COMMIT):
        return
    table.create_checkpoint()
