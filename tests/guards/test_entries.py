"""Every guard's entry matches the code and its tests, each refusal has an entry, and the page is written from them."""

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.guards import page
from tests.guards.edits import EntryError, answers, edited, reads, scope_of, without
from tests.guards.entries import GUARDS
from tests.guards.guard import Guard
from tests.support.places import ROOT

# the errors that say that a lake, a batch or a write is not as it must be
REFUSALS = ("ReceiptError", "ReplayError", "LockedError", "StateError", "GateError")
# refusals that prevent nothing themselves: they pass on what another guard found
PASSED_ON = {
    "cli/look.py::doctor": "says what is unfinished, and starts nothing",
    "cli/repair.py::recover": "says of which stages `recover` refused",
}


@cache
def tree_of(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.where}: {guard.name}")
def test_an_entry_matches_the_code_and_its_tests_exist(guard: Guard) -> None:
    source = (ROOT / guard.file).read_text(encoding="utf-8")
    assert edited(source, guard.symbol, guard.off) != ast.unparse(tree_of(guard.file))
    for test in (*guard.ids, *(f"tests/{each}" for each in guard.also)):
        file, _, name = test.partition("::")
        names = {node.name for node in tree_of(file).body if isinstance(node, ast.FunctionDef)}
        assert name.partition("[")[0] in names, f"{file} has no test {name}"


def test_no_two_guards_have_one_name() -> None:
    names = [guard.name for guard in GUARDS]
    assert sorted(names) == sorted(set(names))


def test_every_guard_has_a_test_without_a_server() -> None:
    assert [guard.name for guard in GUARDS if not guard.tests] == []
    assert [guard.name for guard in GUARDS if any(each.startswith("services/") for each in guard.tests)] == []


def raised() -> Iterator[tuple[str, str, ast.Raise]]:
    """Yield every refusal in the code: its file, its function, and the statement."""
    modules = sorted((ROOT / "pipelines/oncelake").rglob("*.py"))
    assert modules
    for path in modules:
        file = str(path.relative_to(ROOT))
        for symbol, node in _in(tree_of(file), ""):
            call = node.exc.func if isinstance(node.exc, ast.Call) else None
            if isinstance(call, ast.Name) and call.id in REFUSALS:
                yield file, symbol, node


def _in(scope: ast.AST, symbol: str) -> Iterator[tuple[str, ast.Raise]]:
    """Yield the raises in a scope, each with its outermost function or method."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.Raise):
            yield symbol, node
        inner = symbol
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not isinstance(scope, ast.FunctionDef):
            inner = f"{symbol}.{node.name}".lstrip(".")
        yield from _in(node, inner)


def test_every_refusal_has_a_guard() -> None:
    """A refusal has a guard if an entry takes out its statement, or lets its function return something else."""
    missing = []
    for file, symbol, node in raised():
        said = ast.unparse(node)
        own = [guard for guard in GUARDS if guard.file == file and f"{guard.symbol}.".startswith(f"{symbol}.")]
        taken = any(said not in without_it(guard) for guard in own)
        if not taken and f"{file.removeprefix('pipelines/oncelake/')}::{symbol}" not in PASSED_ON:
            missing.append(f"{file}::{symbol}: {said[:80]}")
    assert missing == []


@cache
def without_it(guard: Guard) -> str:
    """Return the source of a guard's function after the guard is taken out."""
    source = (ROOT / guard.file).read_text(encoding="utf-8")
    return ast.unparse(scope_of(ast.parse(edited(source, guard.symbol, guard.off)), guard.symbol))


def test_every_fault_of_a_proof_has_a_guard() -> None:
    missing = []
    modules = sorted((ROOT / "pipelines/oncelake/proof").glob("*.py"))
    assert modules
    for path in modules:
        file = str(path.relative_to(ROOT))
        for function in (node for node in ast.walk(tree_of(file)) if isinstance(node, ast.FunctionDef)):
            if ast.unparse(function.returns or ast.Constant(None)) not in ("Iterator[str]", "list[str]"):
                continue
            own = [guard for guard in GUARDS if guard.file == file and guard.symbol.split(".")[-1] == function.name]
            for node in ast.walk(function):
                said = ast.unparse(node)
                if isinstance(node, ast.Yield) and not any(said not in without_it(guard) for guard in own):
                    missing.append(f"{file}::{function.name}: {said[:80]}")
            if not own and not any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function)):
                missing.append(f"{file}::{function.name}")
    assert [each for each in missing if each.split(": ")[0] not in NO_FAULTS] == []


# functions of a proof that return words and no faults
NO_FAULTS = {
    "pipelines/oncelake/proof/balance.py::_by_origin": "notes",
    "pipelines/oncelake/sources/files/census.py::_gone": "notes",
    "pipelines/oncelake/sources/files/census.py::_notes": "notes",
    "pipelines/oncelake/sources/files/proof.py::_same_content": "notes",
    "pipelines/oncelake/sources/kafka/proof.py::_expired": "notes",
    "pipelines/oncelake/sources/kafka/proof.py::_left": "notes",
    "pipelines/oncelake/proof/positions.py::_explained": "notes",
    "pipelines/oncelake/exactly_once/proven.py::_names": "names of files",
    "pipelines/oncelake/sources/directory/resolve.py::accept": "what was done",
    "pipelines/oncelake/sources/tail/proof.py::_notes": "notes",
}


def test_the_page_is_written_from_the_entries() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.page(), "guards have changed: run make docs"


SOURCE = '''
class Lease:
    """A lease."""

    def check(self, held):
        if held and self.mine():
            return True
        raise LockedError(f"{self.path} is held")

def lines():
    yield "one"
    yield "two"

def count():
    total = 1
    return total
'''


def test_an_edit_that_does_not_fit_is_an_error() -> None:
    assert "raise" not in edited(SOURCE, "Lease.check", without("raise LockedError"))
    assert "if False:" in edited(SOURCE, "Lease.check", reads("held and  self.mine( )", "False"))
    assert "yield from ()" in edited(SOURCE, "lines", answers("()"))
    assert "return 1" in edited(SOURCE, "Lease.check", answers("1"))
    for symbol, edit, said in (
        ("Lease.gone", answers("1"), "there is no Lease.gone"),
        ("Lease.check", without("raise StateError"), "there is no statement with 'raise StateError'"),
        ("lines", without("yield"), "there are 2 times a statement with 'yield'"),
        ("Lease.check", reads("self.path_of", "1"), "there is no expression self.path_of"),
        ("Lease", answers("1"), "only a function can answer something else"),
        ("count", without("total ="), "without it, total has no value"),
    ):
        with pytest.raises(EntryError, match=said.replace(".", r"\.")):
            edited(SOURCE, symbol, edit)
