"""Write the table of readers in docs/gold.md: per type, the values whose rows every reader finds by every filter."""

from typing import Any

from tests.support.page_section import with_section
from tests.support.places import ROOT
from tests.support.readers import FILTERS, READERS, VALUES, WRITERS

PAGE = ROOT / "docs/gold.md"
# the table is between these two lines of the page
BEGIN, END = "<!-- readers: written by make docs -->\n", "<!-- end of readers -->"
# a text is shown up to this length
_MOST = 24


def page() -> str:
    """Return the page with the current table."""
    every = f"{', '.join(FILTERS)} in {', '.join(READERS)}"
    rows = "".join(f"| `{kind}` | {', '.join(map(_shown, values))}, null |\n" for kind, values in VALUES.items())
    writers = f"Each value is in a file of its own, written by {', '.join(WRITERS[:-1])} and {WRITERS[-1]}."
    table = f"| type | values that are found by {every} |\n|---|---|\n{rows}"
    return with_section(PAGE, BEGIN, END, f"\n{writers}\n\n{table}\n")


def _shown(value: Any) -> str:
    text = ascii(value) if isinstance(value, str | bytes) else str(value)
    return f"`{text if len(text) <= _MOST or not isinstance(value, str | bytes) else f'{text[:_MOST]}…'}`"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
