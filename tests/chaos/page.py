"""Write the summary of the last thousands of sequences into docs/chaos.md."""

import re
from collections import Counter
from datetime import UTC, datetime

from tests.chaos.play import Played
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "chaos.md"
_BEGIN, _END = "<!-- result -->", "<!-- end of result -->"


def summary(seed: int, files: Played, topics: Played, seconds: float) -> str:
    """Return a summary of sequences in Markdown."""
    parts = [f"Run on {datetime.now(UTC):%Y-%m-%d}, {seconds:,.0f} s, first seed {seed}:\n"]
    for source, played in (("a directory", files), ("a Kafka topic", topics)):
        if played.sequences:
            parts.append(
                f"\n{played.sequences:,} sequences on {source}, violations: {len(played.broken)}"
                f"{''.join(f', seed {each}' for each in played.broken)}.\n\n{_table(played.counts)}"
            )
    return "".join(parts)


def keep(said: str) -> None:
    """Write a summary into the page, in place of the last one."""
    text = PAGE.read_text(encoding="utf-8")
    changed = re.sub(f"(?<={_BEGIN}\n).*(?={_END})", lambda _: said, text, flags=re.DOTALL)
    PAGE.write_text(changed, encoding="utf-8")


def _table(counts: Counter[str]) -> str:
    """Return a table of operations by kind, with how often each was applied; those in a run by point of its batch."""
    rows = "".join(f"| {kind} | {count:,} |\n" for kind, count in sorted(counts.items()) if count)
    return f"| operation, or command and how it ended | times |\n|---|---|\n{rows}"
