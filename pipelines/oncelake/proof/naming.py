"""This is where commits and batches are named in what a proof says."""

from collections.abc import Sequence
from datetime import UTC, datetime

from oncelake.exactly_once.delta_log import Commit


def named(commit: Commit) -> str:
    """Name a commit: what it is, its version, and when it was made."""
    at = datetime.fromtimestamp(commit.timestamp / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    what = f"batch {commit.metadata.batch_id}" if commit.metadata else commit.operation or "a commit without a name"
    return f"{what} (version {commit.version}, {at} UTC)"


def batch_words(ids: Sequence[int]) -> str:
    """Name batches: one, or a first to a last."""
    if len(ids) == 1:
        return f"batch {ids[0]}"
    return f"batches {min(ids)} to {max(ids)}"


def or_none(batch: int | None) -> str:
    """Name a batch that may not be there."""
    return "none" if batch is None else str(batch)
