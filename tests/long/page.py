"""Write the result of the last `make test-long` into docs/long-tests.md, from pytest's report."""

import sys
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

from tests.support.places import ROOT

PAGE = ROOT / "docs" / "long-tests.md"
_BEGIN, _END = "<!-- result -->\n", "<!-- end of result -->"


def result(report: Path) -> str:
    """Return the report as a Markdown table: each test, its seconds, whether it passed."""
    rows = []
    for case in ET.parse(report).getroot().iter("testcase"):
        bad = next((each.tag for each in case if each.tag in ("failure", "error", "skipped")), None)
        outcome = {None: "passed", "skipped": "skipped"}.get(bad, "failed")
        file = case.get("classname", "").removeprefix("tests.").replace(".", "/")
        rows.append(f"| `{file}.py::{case.get('name')}` | {float(case.get('time', 0)):,.0f} | {outcome} |\n")
    head = f"Run on {datetime.now(UTC):%Y-%m-%d}:\n\n| test | seconds | outcome |\n|---|---|---|\n"
    return "".join([head, *rows])


def main() -> None:
    """Write the result into the page, in place of the last one."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}{result(Path(sys.argv[1]))}{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
