"""This is where bronze's lines are parsed into silver, and those that break a rule into quarantine."""

from collections.abc import Callable

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from pipelines.errors import ReceiptError, ReplayError
from pipelines.exactly_once.batch import Batch
from pipelines.lake import QUARANTINE, SILVER
from pipelines.silver.format import LogFormat
from pipelines.silver.transform import TimeLimits, accepted, parse, quarantined


def write(log_format: LogFormat, limits: TimeLimits) -> Callable[[DataFrame, Batch], None]:
    """Give the work of a batch: one pass that writes silver and counts, a second where lines were refused."""

    def write_batch(lines: DataFrame, batch: Batch) -> None:
        parsed = parse(lines, log_format, limits)
        refused = _refused(parsed, batch)
        if refused:
            count = batch.append(QUARANTINE, quarantined(parsed)).commit.rows_added
            if refused is not True and count != refused:
                raise ReceiptError(
                    f"{QUARANTINE} took {count:,} rows of batch {batch.batch_id}, {refused:,} were refused"
                )

    return write_batch


def _refused(parsed: DataFrame, batch: Batch) -> int | bool:
    """Write silver and give how many lines were refused; True or False when silver held the batch already."""
    if batch.holds(SILVER):
        batch.append(SILVER, accepted(parsed))
        if batch.holds(QUARANTINE):
            return True
        if not batch.same_rules(SILVER):
            raise ReplayError(
                f"batch {batch.batch_id} is half written: {SILVER} has it, {QUARANTINE} does not, and the log format "
                "or silver's time limits were changed since; start once with the former ones, then change them"
            )
        return not quarantined(parsed).isEmpty()
    counts = Observation()
    refused = F.count_if(F.size("reasons") > 0)
    counted = parsed.observe(counts, F.count(F.lit(1)).alias("lines"), refused.alias("refused"))
    rows = batch.append(SILVER, accepted(counted)).commit.rows_added
    seen = counts.get
    if rows + seen["refused"] != seen["lines"]:
        raise ReceiptError(
            f"{SILVER} took {rows:,} rows of batch {batch.batch_id}, of {seen['lines']:,} lines "
            f"{seen['refused']:,} were refused: the sum is not right"
        )
    return int(seen["refused"])
