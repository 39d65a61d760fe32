"""Write the table of statements on the chain's tables in docs/operations/table-changed.md, from what the tests try."""

from collections.abc import Iterator

from tests.support.alterations import COMPATIBLE, REFUSED, TABLES
from tests.support.page_section import with_section
from tests.support.places import ROOT

PAGE = ROOT / "docs/operations/table-changed.md"
BEGIN, END = "<!-- statements -->\n", "<!-- end of statements -->"


def page() -> str:
    """Return the page with the table of today's tests."""
    return with_section(PAGE, BEGIN, END, "".join(_rows()))


def _rows() -> Iterator[str]:
    yield "| statement on a table `t` and its column `c` | tables | the next start |\n|---|---|---|\n"
    for statement in COMPATIBLE:
        yield f"| `{_plain(statement)}` | all | goes on |\n"
    for case in REFUSED:
        named = "all" if case.tables == tuple(TABLES) else ", ".join(table.replace("/", ".") for table in case.tables)
        rebuilt = ", then ".join(f"`oncelake rebuild {stage}`" for stage in case.rebuilds)
        undone = f"`{_plain(case.undone)}`" if case.undone else ""
        said = ", then ".join(filter(None, (undone, rebuilt)))
        yield f"| `{_plain(case.statements[-1])}` | {named} | refused; {said} |\n"


def _plain(statement: str) -> str:
    return statement.format(table="t", column="c", version="…", value="…", time="c")
