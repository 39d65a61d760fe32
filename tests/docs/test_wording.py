"""Docs, docstrings, comments, errors, help and tests are written in plain words, without the words listed here.

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
# the same in tests, where nothing is documented by a noun; in the product, "The source's name." documents a property
BEGINNINGS_IN_TESTS = rf"{BEGINNINGS}|(A|An|The)\b"
FOLDERS = {
    "pipelines": ("*.py", "*.java", "*.j2", "*.js"),
    "docs": ("*.md",),
    "conf": ("*.yaml", "*.yml"),
    "notebooks": ("*.ipynb",),
    "tests": ("*.py", "*.java"),
}
# this file has the words
FILES = sorted(
    {path for folder, kinds in FOLDERS.items() for kind in kinds for path in (ROOT / folder).rglob(kind)}
    - {Path(__file__).resolve()}
    | {*ROOT.glob("*.md"), ROOT / "databricks.yml", ROOT / "Makefile", ROOT / "pyproject.toml"}
)
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def named(path: Path) -> str:
    """Return a file's path below the project."""
    return str(path.relative_to(ROOT))


def refused(text: str) -> Iterator[str]:
    """Yield each refused word of a text, with its line and what to write."""
    for number, line in enumerate(text.splitlines(), 1):
        for word, better in WORDS.items():
            for found in re.finditer(rf"\b{word}\b", line, re.IGNORECASE):
                yield f"line {number}: {found.group()!r}: write {better}"


def functions(source: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the functions and methods of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def badly_begun(source: str, beginnings: str = BEGINNINGS) -> Iterator[str]:
    """Yield the first line of each docstring that does not say what its function does."""
    for function in functions(source):
        first = (ast.get_docstring(function) or "").partition("\n")[0]
        # the docstring of a test is a sentence about its subject: the promise
        if re.match(BEGINNINGS if function.name.startswith("test_") else beginnings, first):
            yield first


def badly_named(source: str) -> Iterator[str]:
    """Yield the names of functions that have a refused word, with what to write."""
    for function in functions(source):
        for word in refused(function.name.replace("_", " ")):
            yield f"{function.name}: {word.partition(': ')[2]}"


@pytest.mark.parametrize("path", FILES, ids=named)
def test_no_word_has_to_be_decoded(path: Path) -> None:
    assert list(refused(path.read_text())) == []


@pytest.mark.parametrize("path", sorted((ROOT / "pipelines").rglob("*.py")), ids=named)
def test_a_docstring_says_what_its_function_does(path: Path) -> None:
    assert list(badly_begun(path.read_text())) == []


@pytest.mark.parametrize("path", TESTS, ids=named)
def test_a_docstring_and_a_name_in_tests_say_what_a_function_does(path: Path) -> None:
    assert list(badly_begun(path.read_text(), BEGINNINGS_IN_TESTS)) == []
    assert list(badly_named(path.read_text())) == []


def test_refused_words_and_docstrings_are_found() -> None:
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
    helper = 'def house():\n    """A lake."""\ndef test_run():\n    """A run ends."""\n'
    assert list(badly_begun(helper)) == []
    assert list(badly_begun(helper, BEGINNINGS_IN_TESTS)) == ["A lake."]
    assert list(badly_named("def test_a_table_is_mended_once(): ...")) == [
        "test_a_table_is_mended_once: 'mended': write fix, repair"
    ]
    assert len(FILES) > 500
    assert len(TESTS) > 250
