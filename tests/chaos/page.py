"""Writes what the last thousands of sequences came to into docs/chaos.md."""

import re
from collections import Counter
from datetime import UTC, datetime

from tests.chaos.play import Played
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "chaos.md"
_BEGIN, _END = "<!-- result -->", "<!-- end of result -->"


def summary(seed: int, files: Played, topics: Played, seconds: float) -> str:
    """Say in Markdown what sequences came to."""
    parts = [f"Run on {datetime.now(UTC):%Y-%m-%d}, {seconds:,.0f} s, first seed {seed}:\n"]
    for source, played in (("a directory", files), ("a Kafka topic", topics)):
        if played.sequences:
            parts.append(
                f"\n{played.sequences:,} sequences on {source}, violations: {len(played.broken)}"
                f"{''.join(f', seed {each}' for each in played.broken)}.\n\n{_table(played.counts)}"
            )
    return "".join(parts)


def keep(said: str) -> None:
    """Put a summary into the page, in place of the last one."""
    text = PAGE.read_text(encoding="utf-8")
    changed = re.sub(f"(?<={_BEGIN}\n).*(?={_END})", lambda _: said, text, flags=re.DOTALL)
    PAGE.write_text(changed, encoding="utf-8")


def _table(counts: Counter[str]) -> str:
    """Write operations by kind, and how often each was done; those done during a run by when in its batch."""
    rows = "".join(f"| {kind} | {count:,} |\n" for kind, count in sorted(counts.items()) if count)
    return f"| operation, or command and how it ended | times |\n|---|---|\n{rows}"
