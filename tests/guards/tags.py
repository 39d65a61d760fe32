"""Find the guards in the code: a comment names each of them where it stands."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

PRODUCT = Path("pipelines/oncelake")
# two to five words
TAG = re.compile(r"# guard: ([a-z0-9]+(?:-[a-z0-9]+){1,4})$", re.MULTILINE)


class EntryError(Exception):
    """Raised when a guard's entry does not match the code: names what is missing, or occurs more than once."""


def files(root: Path) -> Mapping[str, str]:
    """Return the file of each tag below a tree's root.

    Raises:
        EntryError: a tag stands at two places.
    """
    found: dict[str, str] = {}
    for path in sorted((root / PRODUCT).rglob("*.py")):
        file = str(path.relative_to(root))
        for tag in TAG.findall(path.read_text(encoding="utf-8")):
            if tag in found:
                raise EntryError(f"the tag {tag} is in {found[tag]} and in {file}")
            found[tag] = file
    return found


def marked(tree: ast.Module, source: str, tag: str) -> ast.AST:
    """Find what a tag marks: the longest statement, argument or expression that begins on its line.

    A tag that has a line of its own marks what begins on the next line of code.

    Args:
        tree: the syntax tree of the source.
        source: a module's source.
        tag: the tag.

    Raises:
        EntryError: the source does not have the tag, or nothing begins on its line.
    """
    lines = source.split("\n")
    numbers = [number for number, line in enumerate(lines, 1) if line.endswith(f"# guard: {tag}")]
    if len(numbers) != 1:
        raise EntryError(f"there is no line with the tag {tag}" if not numbers else f"two lines have the tag {tag}")
    number = numbers[0]
    while number < len(lines) and lines[number - 1].lstrip().startswith("#"):
        number += 1
    nodes = [node for node in ast.walk(tree) if number in _first_lines(node)]
    if not nodes:
        raise EntryError(f"nothing begins on the line of the tag {tag}")
    return min(nodes, key=_extent)


def symbols(tree: ast.AST, outer: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield each function and method of a tree with its name, such as `Lease.check`; of nested ones the outer first."""
    for node in ast.iter_child_nodes(tree):
        name = outer
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            name = f"{outer}.{node.name}".lstrip(".")
        if isinstance(node, ast.FunctionDef):
            yield name, node
        yield from symbols(node, name)


def _first_lines(node: ast.AST) -> tuple[int, ...]:
    """Return the line on which a node begins; of a decorated function, also that of its first decorator."""
    decorators = node.decorator_list[:1] if isinstance(node, ast.FunctionDef) else []
    return (getattr(node, "lineno", 0), *(decorator.lineno for decorator in decorators))


def _extent(node: ast.AST) -> tuple[int, int, int]:
    """Return a key that orders nodes of one line: the first first, and of those the longest."""
    assert isinstance(node, ast.stmt | ast.expr | ast.keyword | ast.excepthandler | ast.arg | ast.pattern | ast.alias)
    return node.col_offset, -(node.end_lineno or 0), -(node.end_col_offset or 0)
