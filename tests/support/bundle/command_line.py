"""Parse a command line as `oncelake` does, without running it."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import typer

from oncelake.cli.app import app
from oncelake.common.errors import ConfigError
from oncelake.engine.configuration import configured
from oncelake.engine.settings import ENV_PREFIX, SECRET_KEYS, Settings
from tests.support.bundle.files import BundleError

_SECRET = re.compile(r"\{\{secrets/[^/{}]+/[^/{}]+\}\}")
# placeholders for secrets whose settings do not accept any text
_STAND_INS = {"serving.url": "mysql+pymysql://user:password@host/database", "source.kafka": '{"client.id": "x"}'}


def parsed(arguments: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the command that a command line names, and its parameters.

    Raises:
        BundleError: `oncelake` does not accept it.
    """
    command: Any = typer.main.get_command(app)
    _record(command)
    try:
        found = command.main(list(arguments), prog_name="oncelake", standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        raise BundleError(f"oncelake {arguments[0] if arguments else ''}: {error.format_message()}") from None
    if not isinstance(found, tuple):
        raise BundleError(f"oncelake {' '.join(arguments)}: this runs no command")
    return found


def settings_of(parameters: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """Load the settings of a command from its configuration file, the environment and its flags.

    Raises:
        BundleError: a key or a value is not accepted.
    """
    with _environment(environment):
        try:
            return configured(parameters["conf"], parameters["sets"] or [])[0]
        except ConfigError as error:
            raise BundleError(str(error)) from None


def secrets_in_the_open(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the variables that hold a secret itself instead of a reference to one."""
    for name, value in environment.items():
        if _key(name) in SECRET_KEYS and not _SECRET.fullmatch(value):
            yield name


def _record(command: Any, path: str = "") -> None:
    """Make each command return its name and parameters instead of running."""
    for name, each in command.commands.items():
        full = f"{path} {name}".strip()
        if hasattr(each, "commands"):
            _record(each, full)
        else:
            each.callback = partial(_recorded, full)


def _recorded(command: str, /, **parameters: Any) -> tuple[str, dict[str, Any]]:
    return command, parameters


@contextmanager
def _environment(given: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    for name in [name for name in before if name.upper().startswith(ENV_PREFIX)]:
        del os.environ[name]
    os.environ.update(
        {name: _STAND_INS.get(_key(name), "x") if _SECRET.fullmatch(value) else value for name, value in given.items()}
    )
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _key(name: str) -> str:
    return name.removeprefix(ENV_PREFIX).lower().replace("__", ".")


def on_disk(text: str, file_path: str, root: Path) -> str:
    """Return the path on this disk of a text that names a file of the bundle in the workspace."""
    return text.replace(f"{file_path}/", f"{root}/")
