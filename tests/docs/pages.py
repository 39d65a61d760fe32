"""Read what the pages name: links, tests, commands, and the output of commands."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.places import ROOT

PAGES = (ROOT / "README.md", ROOT / "examples/README.md", *sorted((ROOT / "docs").rglob("*.md")))
OPERATIONS = ROOT / "docs/operations"
# what an output has and the code does not: names, numbers, places and messages of others
_NOT_OURS = (
    r"\{.*\}",
    r"[\w.<>:*/-]*/[\w./<>:*-]+",
    r"\(?\[Errno.*?\)|Can't connect to MySQL server on|Unexpected end of input stream",
    r"'[^']*'",
    r"\b[\w-]*[0-9a-f]{4}-[\w-]+",
    r"\b[\w-]+(?:\.[\w-]+)+\b",
    r"\b\w{22}\b",
    r"[\d][\d.,:]*",
    r"\b(?:RESTORE|DELETE|UTC|bronze|silver|gold|serving|alog|host1|kB|MB|bytes|java)\b",
    r"[…→=+%·]",
)
# programs that a page tells a reader to write, or shows
_NO_TESTS = ("write.py", "make_log.py", "oncelake_main.py")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    """Return a page without its comments."""
    return re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@cache
def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield the files and headings that a page links to; links to the network are left out."""
    for path, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", text_of(page)):
        yield ((page.parent / path).resolve() if path else page), heading


def named_tests(text: str) -> list[tuple[str, str]]:
    """Return the named test files, each with the test named in it, if any."""
    found = re.findall(r"`(?:tests/)?([\w/*]+\.py)(?:::(\w+))?`", text)
    return [(file, name) for file, name in found if file not in _NO_TESTS and not file.startswith("pipelines/")]


def table_rows(text: str) -> list[list[str]]:
    """Return the cells of each row of a page's tables, without their headings."""
    rows = re.findall(r"^\| (.*) \|$", re.sub(r"^\|.*\|\n\|[-|]+\|$", "", text, flags=re.MULTILINE), re.MULTILINE)
    return [re.split(r" (?<!\\)\| ", row) for row in rows]


def commands_named(text: str) -> Iterator[str]:
    """Yield what follows `oncelake` in code: at the beginning of a line in blocks, and between backquotes."""
    text = re.sub(r"`[^`]*oncelake (?:drain|continuous|audit)`", "", text)  # names of jobs
    for code in _FENCED.findall(text):
        yield from re.findall(r"^(?:\$ )?(?:\.venv/bin/)?oncelake (.+)$", code, re.MULTILINE)
    for code in re.findall(r"`([^`]+)`", _FENCED.sub("", text)):
        yield from re.findall(r"^oncelake (?![<a-z]+/)(.+)$", " ".join(code.split()))


def phrases(line: str) -> list[str]:
    """Return the fixed words of a printed line: the parts between names, numbers and places."""
    for pattern in _NOT_OURS:
        line = re.sub(pattern, "|", line)
    parts = (part.strip(" .,;:|()#") for part in re.split(r"\||[.,;:] |[.,;:()]$|: | \(|\)", line))
    return [part for part in parts if " " in part]


def pieces(phrase: str) -> int:
    """Return how many texts of the code make up a phrase; a large number if a word of it is in none."""
    words = phrase.split()
    for length in range(len(words), 0, -1):
        if " ".join(words[:length]) in _said_by_the_code():
            return 1 + (pieces(" ".join(words[length:])) if words[length:] else 0)
    return 100


@cache
def _said_by_the_code() -> str:
    """Return all texts of the code, one a line; a part between two values is a text of its own."""
    nodes = (
        node for path in (ROOT / "pipelines/oncelake").rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))
    )
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
