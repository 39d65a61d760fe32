"""Commands whose help names the values to give, and not the Python types that they become."""

from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

F = TypeVar("F", bound=Callable[..., Any])


class PlainCommand(TyperCommand):
    """A command with such a help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, without the types of arguments and flags."""
        return without_types(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """A group of commands with such a help."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, without the types of arguments and flags."""
        return without_types(super().get_params(ctx))


class PlainTyper(typer.Typer):
    """A Typer app whose groups and commands have such a help."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=PlainGroup, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:
        """Register a function as a command; the options are those of Typer."""
        return super().command(name, cls=PlainCommand, **options)


def without_types(params: list[Any]) -> list[Any]:
    """Take the types of Python out of the help of arguments, which have a name, and of flags, which take no value."""
    for param in params:
        if param.param_type_name == "argument":
            param.display_type_rich = _no_type
        elif param.is_flag:
            param.metavar = ""
    return params


def _no_type(**_: Any) -> None:
    """Return no type, for the help."""
