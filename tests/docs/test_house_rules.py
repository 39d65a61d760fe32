"""The tests follow the house rules: each is beside its layer, imports no other test, and uses no private name."""

import ast
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import ROOT

TESTS, PACKAGE = ROOT / "tests", ROOT / "pipelines/oncelake"
MODULES = sorted(TESTS.rglob("*.py"))
# the one module that may use Spark's own private names
HANDLES = TESTS / "support/spark_handles.py"
# public names of others that look private
PUBLIC = ("KafkaError._PARTITION_EOF",)
# what reads or replaces a name that is given as text
BY_NAME = ("setattr", "getattr", "delattr", "hasattr", "object")


def is_private(name: str) -> bool:
    return re.match(r"_(?!_)\w", name) is not None


@cache
def private_names() -> frozenset[str]:
    """Return every private name that the product defines."""
    nodes = [node for path in PACKAGE.rglob("*.py") for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    found = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    found |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    found |= {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    return frozenset(filter(is_private, found))


def private_uses(source: str) -> Iterator[str]:
    """Yield the private names that a test's source uses: imports, attributes, names in texts, and programs in texts.

    An attribute of `self` (`self._x`) is not the product's, unless no statement of the source defines it.
    """
    nodes = list(ast.walk(ast.parse(source)))
    own = {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    own |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    own |= {node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ("oncelake", "tests"):
            yield from (f"import of {name.name}" for name in node.names if is_private(name.name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            mine = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") and node.attr in own
            if not mine and ast.unparse(node) not in PUBLIC:
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in BY_NAME:
            yield from _named(node.args)
        elif isinstance(node, ast.Dict):
            yield from _named(key for key in node.keys if key is not None)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _in_text(node.value)


def _named(nodes: Iterator[ast.expr] | list[ast.expr]) -> Iterator[str]:
    """Yield the texts among expressions that are private names of the product."""
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    yield from (text for text in texts if text in private_names())


def _in_text(text: str) -> Iterator[str]:
    """Yield the private name that a text is, or those that it uses if it is a program that imports the product."""
    yield from re.findall(r"^oncelake(?:\.\w+)*\._[a-zA-Z]\w*$", text)
    if re.search(r"^\s*(?:from|import) oncelake", text, re.MULTILINE):
        try:
            program = textwrap.dedent(text)
            ast.parse(program)
        except SyntaxError:
            return
        yield from private_uses(program)


def wrong_imports(path: Path, source: str) -> Iterator[str]:
    """Yield the imports of a test module that are not allowed: tests, conftests, and modules of another tier."""
    tier = path.relative_to(TESTS).parts[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        for parts in (name.split(".") for name in names if name.startswith("tests.")):
            if any(part == "conftest" or part.startswith("test_") for part in parts) or parts[1] not in (
                tier,
                "support",
            ):
                yield ".".join(parts)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(TESTS)))
def test_a_test_module_imports_no_test_and_uses_no_private_name(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert list(wrong_imports(path, source)) == []
    assert path == HANDLES or list(private_uses(source)) == []


def test_a_use_of_a_private_name_is_detected() -> None:
    assert len(MODULES) > 200
    assert len(private_names()) > 200
    (name, *_) = sorted(private_names() & {"_write"})
    for source in (
        f"from oncelake.exactly_once.batch import {name}",
        f"callback.{name}(1)",
        f"self.{name}(1)",
        f"monkeypatch.setattr(BatchCallback, '{name}', None)",
        f"patch.object(BatchCallback, '{name}', None)",
        f"replaced = {{BatchCallback: {{'{name}': None}}}}",
        f"monkeypatch.setattr('oncelake.exactly_once.batch.{name}', None)",
        f"PROGRAM = '''\n  from oncelake import batch\n  batch.{name}()\n'''",
    ):
        assert list(private_uses(source)), source
    assert not list(private_uses("class A:\n    def _x(self): self._x(), batch.write, {'_delta_log': 1}"))


def test_an_import_of_a_test_or_of_another_tier_is_detected() -> None:
    path = TESTS / "spark/silver/test_lines.py"
    for source in (
        "from tests.spark.conftest import NOW",
        "from tests.spark.gold.test_check import check",
        "from tests.spark.gold import test_check",
        "import tests.conftest",
        "from tests.bundle.files import Config",
    ):
        assert list(wrong_imports(path, source)), source
    assert not list(wrong_imports(path, "from tests.support.house import House\nfrom tests.spark import lines"))


def test_each_test_is_beside_its_layer() -> None:
    layers = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    tests = [path for tier in ("unit", "spark") for path in (TESTS / tier).rglob("test_*.py")]
    assert len(tests) > 80
    assert {path.relative_to(TESTS).parts[1] for path in tests} <= layers
