"""The ways to break a guard, each applied to the statement, argument or expression that the guard's tag marks."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tests.guards.tags import EntryError, marked, symbols

_Node = TypeVar("_Node", bound=ast.AST)
_Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# the fields of a statement that are statements themselves
_INNER = ("body", "orelse", "finalbody", "handlers")


class Edit(Protocol):
    """A change of what a tag marks."""

    def __call__(self, node: ast.AST) -> ast.AST:
        """Change a node in place, or return the one that replaces it.

        Raises:
            EntryError: what is to be changed is missing, or occurs more than once.
        """


@dataclass(frozen=True)
class removed:  # noqa: N801 - reads as a word in an entry
    """Leave the statement out."""

    def __call__(self, node: ast.AST) -> ast.AST:
        """Return `pass`."""
        if not isinstance(node, ast.stmt):
            raise EntryError("only a statement can be removed")
        return ast.Pass()


@dataclass(frozen=True)
class answers:  # noqa: N801
    """Let the function return a value at once; a generator yields the value's items."""

    value: str

    def __call__(self, node: ast.AST) -> ast.AST:
        """Replace the body."""
        if not isinstance(node, ast.FunctionDef):
            raise EntryError("only a function can answer something else")
        generates = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in _own_nodes(node))
        node.body = ast.parse(f"yield from {self.value}" if generates else "0").body
        if not generates:
            node.body = [ast.Return(_expression(self.value))]
        return node


@dataclass(frozen=True)
class never:  # noqa: N801
    """Read the condition as false.

    It is what an `if` or `while` tests; else what the statement's one conditional expression or comprehension tests;
    else the statement's value.

    Attributes:
        part: which part of a condition with `and` or `or` is meant, from 1; 0 for the whole.
    """

    part: int = 0

    def __call__(self, node: ast.AST) -> ast.AST:
        """Replace the condition by `False`."""
        return _exchanged(node, _condition(node, self.part), ast.Constant(False))


@dataclass(frozen=True)
class always:  # noqa: N801
    """Read the condition as true; see `never`."""

    part: int = 0

    def __call__(self, node: ast.AST) -> ast.AST:
        """Replace the condition by `True`."""
        return _exchanged(node, _condition(node, self.part), ast.Constant(True))


@dataclass(frozen=True)
class becomes:  # noqa: N801
    """Replace a value: what is assigned, returned, passed, looped over or tested, a context, or a caught error."""

    value: str

    def __call__(self, node: ast.AST) -> ast.AST:
        """Replace the value."""
        return _exchanged(node, _value(node), _expression(self.value))


@dataclass(frozen=True)
class calls:  # noqa: N801
    """Read the one call of a function in the statement as a value, whatever its arguments are.

    Attributes:
        function: the last name of the called function.
        value: what stands in the place of the call.
    """

    function: str
    value: str

    def __call__(self, node: ast.AST) -> ast.AST:
        """Replace the call."""
        return _exchanged(node, _call(node, self.function), _expression(self.value))


@dataclass(frozen=True)
class unwrapped:  # noqa: N801
    """Leave a call out: its first argument stands in its place.

    Attributes:
        function: the last name of the called function; empty if the call is the statement's whole value.
    """

    function: str = ""

    def __call__(self, node: ast.AST) -> ast.AST:
        """Replace the call."""
        call = _call(node, self.function) if self.function else _value(node)
        if not isinstance(call, ast.Call) or not call.args:
            raise EntryError(f"{ast.unparse(call)} is no call with an argument")
        return _exchanged(node, call, call.args[0])


@dataclass(frozen=True)
class reads:  # noqa: N801
    """Read the one expression `old` as `new`, where no other way fits; formatting does not matter."""

    old: str
    new: str

    def __call__(self, node: ast.AST) -> ast.AST:
        """Replace the expression."""
        wanted = ast.dump(_expression(self.old))
        found = [each for each in _header(node) if isinstance(each, ast.expr) and ast.dump(each) == wanted]
        return _exchanged(node, _one(found, f"expression {self.old}"), _expression(self.new))


def edited(source: str, tag: str, edit: Edit) -> str:
    """Return a module's source after an edit of what a tag marks.

    Args:
        source: the module's source.
        tag: the tag of the guard.
        edit: the change.

    Raises:
        EntryError: the source does not have the tag, or the edit does not fit what it marks.
    """
    tree = ast.parse(source)
    node = marked(tree, source, tag)
    scope = next((function for _, function in symbols(tree) if any(each is node for each in ast.walk(function))), tree)
    before = _names(scope, ast.Store)
    _exchanged(tree, node, edit(node))
    arguments = {each.arg for each in ast.walk(scope) if isinstance(each, ast.arg)}
    unbound = (before - _names(scope, ast.Store) - arguments) & _names(scope, ast.Load)
    if unbound:
        raise EntryError(f"without it, {', '.join(sorted(unbound))} has no value: the tests would fail for that reason")
    return ast.unparse(ast.fix_missing_locations(tree))


def _names(scope: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {node.id for node in ast.walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, context)}


def _value(node: ast.AST) -> ast.expr:
    match node:
        case ast.Return(value) | ast.Expr(value) | ast.AnnAssign(value=value) | ast.keyword(value=value):
            found = value
        case ast.Assign(value=value) | ast.AugAssign(value=value) | ast.Starred(value):
            found = value
        case ast.If(value) | ast.While(value) | ast.For(iter=value) | ast.ExceptHandler(value):
            found = value
        case ast.With([ast.withitem(value)]) | (ast.expr() as value):
            found = value
        case _:
            found = None
    if found is None:
        raise EntryError(f"{ast.unparse(node).splitlines()[0]} has no value")
    return found


def _condition(node: ast.AST, part: int) -> ast.expr:
    """Return the condition of a node, or a part of it.

    Raises:
        EntryError: there are several conditions, or there is no such part.
    """
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        whole = node.test
    else:
        inner = [each.test for each in _header(node) if isinstance(each, ast.IfExp)]
        inner += [test for each in _header(node) if isinstance(each, ast.comprehension) for test in each.ifs]
        whole = _one(inner, "condition") if inner else _value(node)
    if not part:
        return whole
    if not isinstance(whole, ast.BoolOp) or part > len(whole.values):
        raise EntryError(f"{ast.unparse(whole)} has no part {part}")
    return whole.values[part - 1]


def _header(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes in it, except the statements that it contains."""
    yield node
    for name, value in ast.iter_fields(node):
        if isinstance(node, ast.stmt | ast.excepthandler) and name in _INNER:
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield from _header(each)


def _own_nodes(function: ast.FunctionDef) -> list[ast.AST]:
    """Return the nodes of a function without those of nested functions."""
    found: list[ast.AST] = []
    left: list[ast.AST] = [*function.body]
    while left:
        node = left.pop()
        if not isinstance(node, _Function):
            found.append(node)
            left += ast.iter_child_nodes(node)
    return found


def _call(node: ast.AST, function: str) -> ast.Call:
    """Return the one call of a function, or of a method, in a node."""
    found = [each for each in _header(node) if isinstance(each, ast.Call)]
    return _one([each for each in found if _last_name(each.func) == function], f"call of {function}")


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _one(found: list[_Node], what: str) -> _Node:
    if len(found) != 1:
        raise EntryError(f"{what} occurs {len(found)} times" if found else f"there is no {what}")
    return found[0]


def _exchanged(node: ast.AST, old: ast.AST, new: ast.AST) -> ast.AST:
    """Return a node in which another one is replaced."""

    class Replacer(ast.NodeTransformer):
        def visit(self, each: ast.AST) -> ast.AST:
            return new if each is old else self.generic_visit(each)

    changed: ast.AST = Replacer().visit(node)
    return changed
