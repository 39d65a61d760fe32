"""Compare what silver's tables got of a batch with what was counted: each line is in one of them, once."""

from oncelake.common.errors import ReceiptError
from oncelake.common.lake import QUARANTINE, SILVER
from oncelake.common.wording import count_of
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.recovery import rebuild_hint
from oncelake.exactly_once.write import Written
from oncelake.quality.gate import BatchCounts
from oncelake.silver.split import Split


def rows_held(written: Written) -> int | None:
    """Return how many rows a batch's own commit added; None if the table's commit is a later one of another kind."""
    return written.commit.rows_added if _is_own(written) else None


def must_be(expected: int, written: Written, one: str, several: str) -> None:
    """Raise ReceiptError if the number of rows that a table got differs from the counted one."""
    rows, metadata = written.commit.rows_added, written.commit.metadata
    if rows != expected:
        raise ReceiptError(  # guard: quarantine-rows-add-up
            f"{metadata.table} got {count_of(rows, 'row')} of batch {metadata.batch_id}, but "
            f"{count_of(expected, one, several)}. {rebuild_hint('silver')}"
        )


def must_be_all(rows: int | None, split: Split, counted: BatchCounts) -> None:
    """Raise ReceiptError if silver's rows, the repeats and the refused lines are not the lines of the batch."""
    if rows is None or rows + split.dropped == counted.rows:
        return
    repeats = f" and {count_of(split.dropped, 'is a repeat', 'are repeats')}" if split.repeats else ""
    repeats += f", and the others have {count_of(counted.rows, 'event')}" if split.silver.has_events else ""
    raise ReceiptError(  # guard: silver-rows-add-up
        f"{SILVER} got {count_of(rows, 'row')} of batch {split.batch.batch_id}, and of "
        f"{count_of(counted.lines, 'line')} {count_of(counted.refused, 'was refused', 'were refused')}{repeats}: the "
        f"numbers do not add up. {rebuild_hint('silver')}"
    )


def must_add_up(in_silver: Written, in_quarantine: Written) -> None:
    """Raise ReceiptError if a replayed batch's rows do not add up to the lines that quarantine's commit recorded."""
    if not _is_own(in_silver) or not _is_own(in_quarantine):
        return
    silver, quarantine, metadata = (
        in_silver.commit.lines_added,
        in_quarantine.commit.rows_added,
        in_quarantine.commit.metadata,
    )
    lines, repeats = metadata.quality.get("lines"), in_silver.commit.metadata.deduplicated.get("dropped", 0)
    if lines is not None and silver + quarantine + repeats != lines:
        more = f", {count_of(repeats, 'is a repeat', 'are repeats')}" if repeats else ""
        raise ReceiptError(  # guard: replayed-rows-add-up
            f"{SILVER} got {count_of(silver, 'row')} of batch {metadata.batch_id} and {QUARANTINE} {quarantine:,}"
            f"{more}, of {count_of(lines, 'line')}: the numbers do not add up. {rebuild_hint('silver')}"
        )


def _is_own(written: Written) -> bool:
    return written.commit.metadata.event is CommitKind.BATCH
