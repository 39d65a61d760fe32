"""Every guard's entry matches the code and its tests, each refusal has an entry, and the page is written from them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.guards import page
from tests.guards.edits import Edit, always, answers, becomes, calls, edited, never, reads, removed, unwrapped
from tests.guards.entries import GUARDS
from tests.guards.guard import Guard
from tests.guards.tags import PRODUCT, TAG, EntryError, files, marked, symbols
from tests.support.places import ROOT

FILES = files(ROOT)
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


@cache
def source_of(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def without_it(guard: Guard) -> str:
    """Return the source of a guard's file in which the guard is broken."""
    return edited(source_of(FILES[guard.tag]), guard.tag, guard.off)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: f"{guard.tag}: {guard.name}")
def test_an_entry_matches_the_code_and_its_tests_exist(guard: Guard) -> None:
    assert without_it(guard) != ast.unparse(tree_of(FILES[guard.tag]))
    ast.parse(without_it(guard))
    for test in (*guard.ids, *(f"tests/{each}" for each in guard.also)):
        file, _, name = test.partition("::")
        names = {node.name for node in tree_of(file).body if isinstance(node, ast.FunctionDef)}
        assert name.partition("[")[0] in names, f"{file} has no test {name}"


def test_each_tag_in_the_code_has_a_guard_and_each_guard_its_tag() -> None:
    assert {guard.tag for guard in GUARDS} == set(FILES)


def test_each_comment_for_a_guard_has_a_tag_of_two_to_five_words() -> None:
    """A comment of another form is not found, and would mark a line that nothing tests."""
    modules = sorted((ROOT / PRODUCT).rglob("*.py"))
    comments = [line for path in modules for line in path.read_text(encoding="utf-8").split("\n") if "# guard" in line]
    assert [line.strip() for line in comments if not TAG.search(line)] == []
    assert len(comments) == len(FILES)


def test_no_two_guards_have_one_name() -> None:
    names = [guard.name for guard in GUARDS]
    assert sorted(names) == sorted(set(names))


def test_every_guard_has_a_test_without_a_server() -> None:
    assert [guard.name for guard in GUARDS if not guard.tests] == []
    assert [guard.name for guard in GUARDS if any(test.startswith("services/") for test in guard.tests)] == []


def of_function(file: str, function: ast.FunctionDef) -> list[Guard]:
    """Return the guards that stand in a function."""
    last = function.end_lineno or 0
    return [guard for guard in GUARDS if FILES[guard.tag] == file and function.lineno <= line_of(guard) <= last]


@cache
def line_of(guard: Guard) -> int:
    file = FILES[guard.tag]
    return int(getattr(marked(tree_of(file), source_of(file), guard.tag), "lineno", 0))


def is_guarded(node: ast.AST, file: str, symbol: str, function: ast.FunctionDef) -> bool:
    """Return whether breaking one of the guards in a function takes a statement or expression out of it."""
    return any(ast.unparse(node) not in broken_function(guard, symbol) for guard in of_function(file, function))


@cache
def broken_function(guard: Guard, symbol: str) -> str:
    tree = ast.parse(without_it(guard))
    return "\n".join(ast.unparse(function) for name, function in symbols(tree) if name == symbol)


def outermost(file: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions and methods of a file without those inside them."""
    inside: set[ast.AST] = set()
    for symbol, function in symbols(tree_of(file)):
        if function not in inside:
            inside |= set(ast.walk(function))
            yield symbol, function


def test_every_refusal_has_a_guard() -> None:
    """A refusal has a guard if an entry takes out its statement, or lets its function return something else."""
    missing = []
    modules = sorted((ROOT / PRODUCT).rglob("*.py"))
    assert modules
    for path in modules:
        file = str(path.relative_to(ROOT))
        refusals = [
            (symbol, function, node)
            for symbol, function in outermost(file)
            for node in ast.walk(function)
            if isinstance(node, ast.Raise) and is_refusal(node)
        ]
        assert len(refusals) == sum(
            isinstance(node, ast.Raise) and is_refusal(node) for node in ast.walk(tree_of(file))
        )
        for symbol, function, node in refusals:
            place = f"{path.relative_to(ROOT / PRODUCT)}::{symbol}"
            if place not in PASSED_ON and not is_guarded(node, file, symbol, function):
                missing.append(f"{place}: {ast.unparse(node)[:80]}")
    assert missing == []


def is_refusal(node: ast.Raise) -> bool:
    call = node.exc.func if isinstance(node.exc, ast.Call) else None
    return isinstance(call, ast.Name) and call.id in REFUSALS


def test_every_fault_of_a_proof_has_a_guard() -> None:
    missing = []
    modules = sorted((ROOT / PRODUCT / "proof").glob("*.py"))
    assert modules
    for path in modules:
        file = str(path.relative_to(ROOT))
        for symbol, function in symbols(tree_of(file)):
            if ast.unparse(function.returns or ast.Constant(None)) not in ("Iterator[str]", "list[str]"):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Yield) and not is_guarded(node, file, symbol, function):
                    missing.append(f"{file}::{function.name}: {ast.unparse(node)[:80]}")
            generates = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function))
            if not generates and not of_function(file, function):
                missing.append(f"{file}::{function.name}")
    assert [each for each in missing if each.split(": ")[0] not in NO_FAULTS] == []


# functions of a proof that return words and no faults
NO_FAULTS = {
    "pipelines/oncelake/proof/balance.py::_by_origin": "notes",
    "pipelines/oncelake/sources/files/census.py::_gone": "notes",
    "pipelines/oncelake/sources/files/census.py::_notes": "notes",
    "pipelines/oncelake/sources/files/proof.py::_same_content": "notes",
    "pipelines/oncelake/sources/kafka/proof.py::_expired": "notes",
    "pipelines/oncelake/sources/kafka/proof.py::_former_note": "notes",
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
        if held and self.mine():  # guard: lease-is-held
            return True
        # guard: lease-has-path
        raise LockedError(f"{self.path} is held")

# guard: two-lines
@cache
def lines():
    yield "one"
    yield "two"

def count(texts):
    total = 1  # guard: total-set
    texts = [text for text in texts if text]  # guard: no-empty-text
    first = texts[0] if texts else ""  # guard: first-text
    for text in sorted(texts):  # guard: texts-in-order
        print(text,
              end=total)  # guard: end-of-text
    try:
        first = min(first, str(total))  # guard: first-not-above
    except ValueError:  # guard: errors-caught
        first = "None"
    return total  # guard: twice-there
'''


@pytest.mark.parametrize(
    ("tag", "edit", "before", "after"),
    [
        ("lease-has-path", removed(), "raise LockedError(f'{self.path} is held')", "pass"),
        ("lease-is-held", never(), "if held and self.mine():", "if False:"),
        ("lease-is-held", always(part=2), "held and self.mine()", "held and True"),
        ("no-empty-text", always(), "in texts if text]", "in texts if True]"),
        ("first-text", never(), "if texts else", "if False else"),
        ("total-set", never(), "total = 1", "total = False"),
        ("total-set", becomes("2"), "total = 1", "total = 2"),
        ("texts-in-order", becomes("[]"), "in sorted(texts):", "in []:"),
        ("texts-in-order", unwrapped(), "in sorted(texts):", "in texts:"),
        ("end-of-text", becomes("''"), "end=total", "end=''"),
        ("first-not-above", calls("str", "''"), "str(total)", "''"),
        ("first-not-above", unwrapped("min"), "min(first, str(total))", "first"),
        ("first-not-above", reads("str(total)", "'1'"), "str(total)", "'1'"),
        ("errors-caught", becomes("()"), "except ValueError:", "except ():"),
    ],
)
def test_a_way_breaks_only_what_its_tag_marks(tag: str, edit: Edit, before: str, after: str) -> None:
    whole = ast.unparse(ast.parse(SOURCE))
    assert whole.count(before) == 1
    assert edited(SOURCE, tag, edit) == whole.replace(before, after)


def test_a_function_answers_at_once() -> None:
    count = SOURCE.replace("def count(texts):", "def count(texts):  # guard: whole-count")
    assert "def count(texts):\n    return 1" in edited(count, "whole-count", answers("1"))
    for source in (SOURCE, SOURCE.replace("# guard: two-lines\n@cache\n", "@cache\n# guard: two-lines\n")):
        assert "@cache\ndef lines():\n    yield from ()\n" in edited(source, "two-lines", answers("()"))


def test_an_edit_that_does_not_fit_is_an_error() -> None:
    for tag, edit, said in (
        ("lease-is-gone", removed(), "there is no line with the tag lease-is-gone"),
        ("end-of-text", removed(), "only a statement can be removed"),
        ("lease-has-path", answers("1"), "only a function can answer something else"),
        ("lease-is-held", never(part=3), "held and self.mine() has no part 3"),
        ("lease-has-path", becomes("1"), "has no value"),
        ("total-set", unwrapped(), "1 is no call with an argument"),
        ("first-text", calls("min", "1"), "there is no call of min"),
        ("first-text", unwrapped("min"), "there is no call of min"),
        ("lease-is-held", reads("self.path", "1"), "there is no expression self.path"),
        ("no-empty-text", reads("text", "1"), "expression text occurs 2 times"),
        ("total-set", removed(), "without it, total has no value"),
    ):
        with pytest.raises(EntryError, match=re.escape(said)):
            edited(SOURCE, tag, edit)
    twice = SOURCE.replace("guard: total-set", "guard: twice-there")
    with pytest.raises(EntryError, match="two lines have the tag twice-there"):
        edited(twice, "twice-there", removed())


def test_a_tag_stands_at_one_line_of_the_product(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.py"):
        (tmp_path / PRODUCT / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / PRODUCT / name).write_text("x = 1  # guard: x-is-one\n", encoding="utf-8")
    with pytest.raises(EntryError, match=r"the tag x-is-one is in .*a\.py and in .*c\.py"):
        files(tmp_path)
    (tmp_path / PRODUCT / "a.py").write_text("x = 1  # guard: x\n", encoding="utf-8")
    assert files(tmp_path) == {"x-is-one": f"{PRODUCT}/b/c.py"}
