"""Take a guard out of a module by its syntax tree, so that moved lines and new formatting change nothing."""

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

_Scope = ast.Module | ast.ClassDef | ast.FunctionDef
_Function = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class EntryError(Exception):
    """Raised when a guard's entry does not match the code: names what is missing, or occurs more than once."""


class Edit(Protocol):
    """A change of a function, or of another part of a module."""

    def __call__(self, scope: _Scope) -> None:
        """Apply the change in place.

        Raises:
            EntryError: what is to be changed is missing, or occurs more than once.
        """


@dataclass(frozen=True)
class answers:  # noqa: N801 - reads as a word in an entry
    """Return a value at once; a generator yields the value's items."""

    value: str

    def __call__(self, scope: _Scope) -> None:
        """Replace the body."""
        if not isinstance(scope, ast.FunctionDef):
            raise EntryError("only a function can answer something else")
        generates = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in _own_nodes(scope))
        scope.body = ast.parse(f"yield from {self.value}" if generates else "0").body
        if not generates:
            scope.body = [ast.Return(_expression(self.value))]


@dataclass(frozen=True)
class without:  # noqa: N801
    """Leave out the one statement that contains a text, as `ast.unparse` writes it."""

    text: str

    def __call__(self, scope: _Scope) -> None:
        """Replace the statement by `pass`."""
        found = [node for node in ast.walk(scope) if _is_simple(node) and self.text in ast.unparse(node)]
        _once(found, f"statement with {self.text!r}")
        _replace(scope, lambda node: node is found[0], ast.Pass())


@dataclass(frozen=True)
class reads:  # noqa: N801
    """Read the one expression `old` as `new`; formatting does not matter."""

    old: str
    new: str

    def __call__(self, scope: _Scope) -> None:
        """Replace the expression."""
        wanted = ast.dump(_expression(self.old))
        found = [node for node in ast.walk(scope) if isinstance(node, ast.expr) and ast.dump(node) == wanted]
        _once(found, f"expression {self.old}")
        _replace(scope, lambda node: node is found[0], _expression(self.new))


def edited(source: str, symbol: str, edit: Edit) -> str:
    """Return a module's source after an edit of one of its symbols.

    Args:
        source: the module's source.
        symbol: a function, class or method, such as `Lease.check`; empty for the module itself.
        edit: the change.

    Raises:
        EntryError: there is no such symbol, or the edit does not fit it.
    """
    tree = ast.parse(source)
    scope = scope_of(tree, symbol)
    before = _names(scope, ast.Store)
    edit(scope)
    arguments = {node.arg for node in ast.walk(scope) if isinstance(node, ast.arg)}
    unbound = (before - _names(scope, ast.Store) - arguments) & _names(scope, ast.Load)
    if unbound:
        raise EntryError(f"without it, {', '.join(sorted(unbound))} has no value: the tests would fail for that reason")
    return ast.unparse(ast.fix_missing_locations(tree))


def _names(scope: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {node.id for node in ast.walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, context)}


def scope_of(tree: ast.Module, symbol: str) -> _Scope:
    """Find a symbol in a module.

    Raises:
        EntryError: there is no such symbol.
    """
    scope: _Scope = tree
    for name in symbol.split(".") if symbol else ():
        inner = [node for node in ast.walk(scope) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        found = [node for node in inner if node.name == name and node is not scope]
        if not found:
            raise EntryError(f"there is no {symbol}")
        scope = found[0]
    return scope


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


def _is_simple(node: ast.AST) -> bool:
    """Return whether a node is a statement that contains no other, and no docstring."""
    said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return isinstance(node, ast.stmt) and not hasattr(node, "body") and not said


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _once(found: list[ast.AST] | list[ast.expr], what: str) -> None:
    if len(found) != 1:
        raise EntryError(f"there is no {what}" if not found else f"there are {len(found)} times a {what}")


def _replace(scope: ast.AST, wanted: Callable[[ast.AST], bool], new: ast.AST) -> None:
    class Replacer(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if wanted(node) else self.generic_visit(node)

    Replacer().visit(scope)
