"""Write the summary of the last thousands of sequences into docs/chaos.md."""

import re
from collections import Counter

from oncelake.common.wording import count_of
from tests.chaos.memory import Record
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "chaos.md"


def summary(words: str, record: Record) -> str:
    """Return a summary of the sequences of one kind in Markdown."""
    days = record.last if record.first == record.last else f"{record.first} to {record.last}"
    return (
        f"Run on {days}, {record.seconds:,.0f} s, seeds 0 to {record.sequences - 1:,}: "
        f"{count_of(record.sequences, 'sequence')} on {words}, violations: {len(record.broken)}"
        f"{''.join(f', seed {seed}' for seed in record.broken)}.\n\n{_table(record.counts)}"
    )


def keep(kind: str, said: str) -> None:
    """Write a summary into the page, in place of the last one of its kind."""
    text = PAGE.read_text(encoding="utf-8")
    begin, end = f"<!-- {kind} -->", f"<!-- end of {kind} -->"
    changed = re.sub(f"(?<={begin}\n).*(?={end})", lambda _: said, text, flags=re.DOTALL)
    PAGE.write_text(changed, encoding="utf-8")


def _table(counts: Counter[str]) -> str:
    """Return a table of operations by kind, with how often each was applied; those in a run by point of its batch."""
    rows = "".join(f"| {kind} | {count:,} |\n" for kind, count in sorted(counts.items()) if count)
    return f"| operation, or command and how it ended | times |\n|---|---|\n{rows}"
