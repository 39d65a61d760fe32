"""Write the summary of the last thousands of sequences into docs/chaos.md."""

import re
from collections import Counter
from datetime import UTC, datetime

from tests.chaos.play import Played
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "chaos.md"


def summary(words: str, seed: int, played: Played, seconds: float) -> str:
    """Return a summary of the sequences of one kind in Markdown."""
    return (
        f"Run on {datetime.now(UTC):%Y-%m-%d}, {seconds:,.0f} s, first seed {seed}: "
        f"{played.sequences:,} sequences on {words}, violations: {len(played.broken)}"
        f"{''.join(f', seed {each}' for each in played.broken)}.\n\n{_table(played.counts)}"
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
