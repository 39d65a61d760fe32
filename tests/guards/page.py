"""Write the tables of guards in docs/guarantee.md from the entries."""

from collections.abc import Iterator

from tests.guards.entries import AREAS
from tests.guards.guard import Guard
from tests.support.page_section import with_section
from tests.support.places import ROOT

PAGE = ROOT / "docs/guarantee.md"
# the tables are between these two lines of the page
BEGIN, END = "<!-- guards: written by make docs -->\n", "<!-- end of guards -->"


def tables() -> str:
    """Return the tables of all areas, each under its heading."""
    return "\n".join("\n".join(_table(area, guards)) for area, guards in AREAS.items())


def page() -> str:
    """Return the page with the current tables."""
    return with_section(PAGE, BEGIN, END, f"\n{tables()}\n")


def _table(area: str, guards: tuple[Guard, ...]) -> Iterator[str]:
    yield from (f"### {area}", "", "| guard | without it | tests that fail |", "|---|---|---|")
    for guard in guards:
        tests = ", ".join(f"`{each}`" for each in (*guard.tests, *guard.also))
        yield f"| {guard.name} | {guard.without} | {tests} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
