"""Write the summary of the last thousands of sequences into docs/chaos.md."""

from collections import Counter

from oncelake.common.wording import count_of
from tests.chaos.memory import Record


def summary(words: str, record: Record) -> str:
    """Return a summary of the sequences of one kind in Markdown."""
    days = record.last if record.first == record.last else f"{record.first} to {record.last}"
    return (
        f"Run on {days}, {record.seconds:,.0f} s, seeds 0 to {record.sequences - 1:,}: "
        f"{count_of(record.sequences, 'sequence')} on {words}, violations: {len(record.broken)}"
        f"{''.join(f', seed {seed}' for seed in record.broken)}.\n\n{_table(record.counts)}"
    )


def _table(counts: Counter[str]) -> str:
    """Return a table of operations by kind, with how often each was applied; those in a run by point of its batch."""
    rows = "".join(f"| {kind} | {count:,} |\n" for kind, count in sorted(counts.items()) if count)
    return f"| operation, or command and how it ended | times |\n|---|---|\n{rows}"
