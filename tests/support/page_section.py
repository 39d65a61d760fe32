"""Write a section of a page of the docs, between two marks."""

from pathlib import Path

from tests.support.places import ROOT

CHAOS = ROOT / "docs" / "chaos.md"


def with_section(page: Path, begin: str, end: str, text: str) -> str:
    """Return a page with a text between its two marks, in place of the last one."""
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    return f"{before}{begin}{text}{end}{rest.partition(end)[2]}"


def keep(kind: str, text: str) -> None:
    """Write a summary into docs/chaos.md, in place of the last one of its kind."""
    CHAOS.write_text(with_section(CHAOS, f"<!-- {kind} -->\n", f"<!-- end of {kind} -->", text), encoding="utf-8")
