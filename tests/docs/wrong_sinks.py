"""Write the table of wrong sinks in docs/sinks.md: the fault of each, and the check of the kit that names it."""

from tests.support.page_section import with_section
from tests.support.places import ROOT
from tests.support.wrong_sinks import WRONG

PAGE = ROOT / "docs/sinks.md"
# the table is between these two lines of the page
BEGIN, END = "<!-- wrong sinks: written by make docs -->\n", "<!-- end of wrong sinks -->"


def page() -> str:
    """Return the page with the current table."""
    rows = "".join(f"| {each.fault} | {each.check} | `{each.said}` |\n" for each in WRONG)
    table = f"| fault | check that does not hold | what it says, among others |\n|---|---|---|\n{rows}"
    return with_section(PAGE, BEGIN, END, f"\n{table}\n")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
