"""Write a batch of bronze's lines to silver, repeats to duplicates, and the lines that break a rule to quarantine."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from oncelake.common.errors import ReplayError
from oncelake.common.lake import DUPLICATES, QUARANTINE, SILVER
from oncelake.common.spark.collect import PARQUET
from oncelake.common.spark.prepared import Prepared
from oncelake.common.spark.rows import SparkRows
from oncelake.common.spark.valid_text import recorded, warnings
from oncelake.exactly_once.batch import Batch
from oncelake.quality.gate import BatchCounts
from oncelake.silver import limits
from oncelake.silver.local_split import LocalSplit
from oncelake.silver.receipt import must_add_up, must_be, must_be_all, rows_held
from oncelake.silver.rules import Silver
from oncelake.silver.spark_split import SparkSplit
from oncelake.silver.split import Split


def write(silver: Silver) -> Callable[[DataFrame, Batch], None]:
    """Return the function that writes a batch to silver, and its refused lines to quarantine.

    A small batch is parsed once, by the job that collects it, then split and counted in this process. Of a larger one,
    a pass writes silver, counts, and collects the refused lines if they are few. If they are many, or the tasks do not
    run in this process's JVM, a second pass writes them. The commit of quarantine records how many rows broke each
    rule; there is none if no line broke a rule and no limit warns. If a limit can stop a larger batch, or repeats are
    dropped, a pass that only counts runs first.

    The tables are written in the order silver, duplicates, quarantine; so a batch in quarantine is in all of them.
    """

    parse_lines = silver.prepared()
    # one for frames, one for collected rows: the columns of the two differ in what may be null
    own_code = silver.transform
    of_frames, of_collected = (Prepared(own_code.marked) if own_code else None for _ in range(2))
    reported: list[str] = []  # once in a run

    def split_of(frame: DataFrame, lines: DataFrame, batch: Batch) -> Split:
        """Decide once for a batch which engine splits it; repeats are found here if delta-rs has silver open."""
        before = batch.before(SILVER) if silver.deduplicate is not None else None
        is_small = (before is None or before.opened is not None) and batch.seems_small(lines, packed=PARQUET)
        small = batch.collect(frame) if is_small else None
        if small is None:
            return SparkSplit(frame, silver, batch, of_frames, before)
        return LocalSplit(frame, silver, batch, of_collected, before, parsed=small)

    def write_batch(lines: DataFrame, batch: Batch) -> None:
        frame = parse_lines(lines)
        is_held = batch.holds(SILVER)
        if is_held and batch.holds(QUARANTINE):
            nothing = SparkRows(frame)  # a table that holds the batch gets no rows
            must_add_up(batch.append(SILVER, nothing), batch.append(QUARANTINE, nothing))
            return
        if is_held and not batch.same_rules(SILVER):
            raise ReplayError(  # guard: same-rules-for-both-tables
                f"batch {batch.batch_id} is half written: {SILVER} has it, {QUARANTINE} does not. The log format, "
                "silver's time limits, its transform, its suite or silver.deduplicate changed since this batch began, "
                "or the sources did. Put the old values back, run oncelake run --once, then set the new values again"
            )
        split = split_of(frame, lines, batch)
        with split.opened():
            counted = write_silver(split, silver, batch)
            strange = split.arrivals.warning(counted.lines - counted.refused) if split.arrivals else None
            if strange is not None and not reported:
                batch.warned.append(strange)  # guard: later-than-file-warned
                reported.append(strange)
            if split.repeats is not None and split.dropped:
                must_be(split.dropped, batch.append(DUPLICATES, split.repeats.dropped), "is a repeat", "are repeats")
            warned, invalid = limits.warned(split, counted), split.made_valid(written=not is_held)
            batch.warned.extend(warnings(invalid))
            if counted.rules or warned or invalid:  # guard: replay-writes-quarantine
                quality = recorded({"lines": counted.lines, "rules": counted.rules, "warned": warned}, invalid)
                written = batch.append(QUARANTINE, split.refused(), quality)
                must_be(counted.refused, written, "was refused", "were refused")

    return write_batch


def write_silver(split: Split, silver: Silver, batch: Batch) -> BatchCounts:
    """Write a batch to silver, unless silver already holds it, and count the refused lines."""
    is_held = batch.holds(SILVER)
    first = split.counted() if split.counts_first else None
    if first is not None and not is_held:
        limits.stop(split, first)
    repeats = split.repeats.recorded if split.repeats is not None else None
    # guard: events-counted-before-silver
    lines = first.accepted if first is not None and silver.has_events else None
    written = batch.append(SILVER, split.accepted(), deduplicated=repeats, lines=lines)
    counted = first or split.counted()
    must_be_all(rows_held(written) if is_held else written.commit.rows_added, split, counted)
    return counted
