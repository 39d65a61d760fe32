"""Docs, docstrings, comments, errors and help are written in plain words: a list of words that readers had to decode.

CONTRIBUTING.md has the rule. A word is here because it was used in a sense that a dictionary does not help with.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.places import ROOT

# what is refused, and what to write
WORDS = {
    r"mend(s|ed|ing)?": "fix, repair",
    r"anew": "again, recreated",
    r"(a|the) telling": "a run, a report",
    r"tell whether": "return True if",
    r"(is|are) told by": "is detected by",
    r"held against": "checked against, compared with",
    r"(take|takes|taken) in\b(?!to)": "ingest, read",
    r"this is where": "what the module is responsible for",
    r"(all|everything) that is there": "all available input",
    r"so many": "at most N",
    r"likewise": "also",
}
# how the docstring of a function does not begin: its first line says what the function does
BEGINNINGS = r"(Give|Gives|Tell|Tells|Say|Says|Whether|What|How|Where|This is|Here)\b"
FOLDERS = {
    "pipelines": ("*.py", "*.java", "*.j2", "*.js"),
    "docs": ("*.md",),
    "conf": ("*.yaml", "*.yml"),
    "notebooks": ("*.ipynb",),
}
FILES = sorted(
    [path for folder, kinds in FOLDERS.items() for kind in kinds for path in (ROOT / folder).rglob(kind)]
    + [*ROOT.glob("*.md"), ROOT / "databricks.yml", ROOT / "Makefile", ROOT / "pyproject.toml"]
)


def named(path: Path) -> str:
    """Return a file's path below the project."""
    return str(path.relative_to(ROOT))


def refused(text: str) -> Iterator[str]:
    """Yield each refused word of a text, with its line and what to write."""
    for number, line in enumerate(text.splitlines(), 1):
        for word, better in WORDS.items():
            for found in re.finditer(rf"\b{word}\b", line, re.IGNORECASE):
                yield f"line {number}: {found.group()!r}: write {better}"


def badly_begun(source: str) -> Iterator[str]:
    """Yield the first line of each docstring that does not say what its function does."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if re.match(BEGINNINGS, first):
                yield first


@pytest.mark.parametrize("path", FILES, ids=named)
def test_no_word_has_to_be_decoded(path: Path) -> None:
    assert list(refused(path.read_text())) == []


@pytest.mark.parametrize("path", sorted((ROOT / "pipelines").rglob("*.py")), ids=named)
def test_a_docstring_says_what_its_function_does(path: Path) -> None:
    assert list(badly_begun(path.read_text())) == []


def test_what_is_refused_is_found() -> None:
    text = "Started like this, every line is read again.\nMend it: so many lines were taken in anew."
    assert [found.partition(": write")[0] for found in refused(text)] == [
        "line 2: 'Mend'",
        "line 2: 'anew'",
        "line 2: 'taken in'",
        "line 2: 'so many'",
    ]
    assert list(refused("It takes into account a recommended amendment.")) == []
    source = 'def f():\n    """Give the stages."""\ndef g():\n    """Return the stages."""\n'
    assert list(badly_begun(source)) == ["Give the stages."]
    assert len(FILES) > 200
