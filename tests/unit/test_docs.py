"""The reference names every setting and no other, with its default."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from pipelines.settings import Settings

ROOT = Path(__file__).parents[2]
# a section of its own page
WHOLE = {"gold"}


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel) and name not in WHOLE:
            yield from keys(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field


def test_the_reference_names_every_setting() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|(.*?)\|", (ROOT / "docs/configuration.md").read_text(), re.MULTILINE)
    declared = dict(keys(Settings))
    assert [key for key, _ in rows] == list(declared)
    required = {key for key, default in rows if not default.strip()}
    assert {
        key for key, field in declared.items() if field.default is PydanticUndefined and not field.default_factory
    } <= required


def test_every_linked_page_exists() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


def test_every_test_that_a_page_names_exists() -> None:
    tests = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    for page in (ROOT / "docs").glob("*.md"):
        for file, name in re.findall(r"`(?:tests/)?([\w/*]+\.py)(?:::(\w+))?`", page.read_text()):
            if file in ("write.py",) or file.startswith("pipelines/"):
                continue
            named = [text for path, text in tests.items() if path.match(file)]
            assert named, f"{page.name}: {file}"
            assert not name or any(f"def {name}(" in text for text in named), f"{page.name}: {file}::{name}"
