"""Render the templates of a project's files: YAML, and units of systemd."""

import re
import shlex
from collections.abc import Mapping

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

# A word that needs no quotes in a systemd unit.
_PLAIN = re.compile(r"[\w%@+=:,./-]+", re.ASCII)


def rendered(template: str, values: Mapping[str, object]) -> str:
    """Return a template of this folder with its values."""
    environment = Environment(
        loader=PackageLoader("oncelake.lab.project", ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {
        "shell": shlex.quote,
        "text": _yaml_text,
        "unit": _unit_text,
        "word": _unit_word,
        "command": _command_word,
    }
    return environment.get_template(template).render(values)


def is_plain(word: str) -> bool:
    """Return True if a systemd unit can name a program so; it refuses other names, also in quotes."""
    return _PLAIN.fullmatch(word) is not None


def _yaml_text(text: str) -> str:
    """Write a text as YAML, in quotes if it needs them."""
    return yaml.safe_dump([text], default_flow_style=True, width=100_000, allow_unicode=True)[1:-2]


def _unit_text(text: str) -> str:
    """Write a text for a systemd unit, where % begins a specifier."""
    return text.replace("%", "%%")


def _unit_word(text: str) -> str:
    """Write a text as one word of a list in a systemd unit."""
    plain = _unit_text(text)
    if _PLAIN.fullmatch(plain):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _command_word(text: str) -> str:
    """Write a text as one word of a command in a systemd unit, where $ begins a variable."""
    return _unit_word(text).replace("$", "$$")
