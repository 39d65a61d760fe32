"""Write the table of damages in docs/operations/log-damaged.md, from what the tests try."""

from collections.abc import Iterator

from tests.support.damages import DAMAGES
from tests.support.page_section import with_section
from tests.support.places import ROOT

PAGE = ROOT / "docs/operations/log-damaged.md"
BEGIN, END = "<!-- damages -->\n", "<!-- end of damages -->"


def page() -> str:
    """Return the page with the table of today's tests."""
    return with_section(PAGE, BEGIN, END, "".join(_rows()))


def _rows() -> Iterator[str]:
    yield "| damage in the log of a table | the next start |\n|---|---|\n"
    for case in DAMAGES:
        said = ", then ".join(f"`oncelake {command}`" for command in case.commands)
        goes = "goes on, with a warning" if case.warned else "goes on"
        yield f"| {case.what} | {f'refused; {said}' if case.refused else goes} |\n"
