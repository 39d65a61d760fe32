"""Write a section of docs/chaos.md, between two marks."""

import re

from tests.support.places import ROOT

PAGE = ROOT / "docs" / "chaos.md"


def keep(kind: str, text: str) -> None:
    """Write a summary into the page, in place of the last one of its kind."""
    page = PAGE.read_text(encoding="utf-8")
    begin, end = f"<!-- {kind} -->", f"<!-- end of {kind} -->"
    PAGE.write_text(re.sub(f"(?<={begin}\n).*(?={end})", lambda _: text, page, flags=re.DOTALL), encoding="utf-8")
