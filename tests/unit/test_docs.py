"""The docs are true: the reference is made from the settings, and what pages name, quote and link is there."""

import re
from pathlib import Path

from tests.docs import reference

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


def test_the_reference_of_settings_is_the_generated_one() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "settings have changed: run make docs"


def test_every_linked_page_exists() -> None:
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_test_that_a_page_names_exists() -> None:
    tests = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    for page in PAGES:
        for file, name in re.findall(r"`(?:tests/)?([\w/*]+\.py)(?:::(\w+))?`", page.read_text()):
            if file in ("write.py",) or file.startswith("pipelines/"):
                continue
            named = [text for path, text in tests.items() if path.match(file)]
            assert named, f"{page.name}: {file}"
            assert not name or any(f"def {name}(" in text for text in named), f"{page.name}: {file}::{name}"
