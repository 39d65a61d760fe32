"""This is where the reference of settings is made from their types: `make docs` writes it into docs/configuration.md.

What stands outside the two markers is written by hand.
"""

import types
import typing
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import annotated_types
from pydantic import AwareDatetime, BaseModel, ByteSize, SecretStr
from pydantic.fields import FieldInfo

from oncelake.engine.settings import SECRET_KEYS, Settings
from oncelake.gold.declaration import GoldTable
from tests.support.places import ROOT
from tests.support.setting_keys import keys, section_of

PAGE = ROOT / "docs/configuration.md"
BEGIN = "<!-- from here on made by `make docs` from pipelines/oncelake/engine/settings.py -->"
END = "<!-- to here -->"
# What else there is to read of a section.
PAGES: Mapping[str, str] = {
    "source": "[log formats](formats.md), [files on Databricks](databricks.md#files-by-auto-loader)",
    "lake": "[tables in a catalog](catalog.md)",
    "silver": "[what goes to quarantine](formats.md#what-goes-to-quarantine)",
    "quality": "[quality](quality.md)",
    "gold": "[gold tables](gold.md)",
    "serving": "[serving from MySQL](serving.md)",
    "metrics": "[metrics](metrics.md)",
    "spark": "[on a Spark cluster](cluster.md)",
}
_TABLE = ("| key | what it takes | default | what it says |", "|---|---|---|---|")
_ALONE = "Keys of their own"


def page() -> str:
    """Give docs/configuration.md as it must be: what is written by hand, and the tables of today's settings."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(Settings)}\n{END}{after}"


def tables(settings: type[BaseModel]) -> str:
    """Give a table for each section, in the order of the types, and one for the keys that are in none."""
    sections = {name: model for name, field in settings.model_fields.items() if (model := section_of(field))}
    texts = [_section(name, model) for name, model in sections.items()]
    alone = [_row(name, field) for name, field in settings.model_fields.items() if name not in sections]
    return "\n".join([*texts, "\n".join([f"## {_ALONE}", "", *_TABLE, *alone, ""])])


def _section(name: str, model: type[BaseModel]) -> str:
    said = (model.__doc__ or "").strip().splitlines()[0]
    more = f" More: {PAGES[name]}." if name in PAGES else ""
    rows = [_row(key, field) for key, field in keys(model, f"{name}.")]
    return "\n".join([f"## {name}", "", f"{said}{more}", "", *_TABLE, *rows, ""])


def _row(key: str, field: FieldInfo) -> str:
    assert field.description, f"{key} has no description in its Field"
    hidden = "; never shown" if key in SECRET_KEYS else ""
    more = f": {PAGES[key]}" if key in PAGES else ""
    cells = (f"`{key}`", f"{_kind(key, field)}{hidden}", _default(field), f"{field.description}{more}")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |".replace("|  |", "| |")


def _kind(key: str, field: FieldInfo) -> str:
    """Say in words what a key takes."""
    plain, limits = _plain(field.annotation, list(field.metadata))
    if typing.get_origin(plain) is Literal:
        return " or ".join(f"`{each}`" for each in typing.get_args(plain))
    if plain not in _WORDS:
        raise TypeError(f"{key}: say in words what {plain} is, in {__file__}")
    words, comma, example = _WORDS[plain].partition(", ")
    return f"{words}{_limits(limits)}{comma}{example}"


def _plain(kind: Any, limits: list[Any]) -> tuple[Any, list[Any]]:
    """Take None and annotations off a type; give its limits, those that were annotated too."""
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        (kind,) = (each for each in typing.get_args(kind) if each is not type(None))
    if typing.get_origin(kind) is Annotated:
        inner, *more = typing.get_args(kind)
        return _plain(inner, [*limits, *more])
    return kind, [each for limit in limits for each in (limit.metadata if isinstance(limit, FieldInfo) else [limit])]


_WORDS: Mapping[Any, str] = {
    str: "text",
    SecretStr: "text",
    bool: "`true` or `false`",
    int: "a whole number",
    float: "a number",
    ByteSize: "a size, as `512MiB`",
    timedelta: "a span of time, as `10 seconds`",
    AwareDatetime: "a time and its zone, as `1970-01-01T00:00:00Z`",
    tuple[str, ...]: "a list of names",
    dict[str, str]: "a mapping",
    dict[str, GoldTable]: "a mapping of names and declarations",
}


def _limits(limits: list[Any]) -> str:
    bounds = {type(each): each for each in limits}
    least, most = bounds.get(annotated_types.Ge), bounds.get(annotated_types.Le)
    if least and most:
        return f" from {least.ge} to {most.le}"
    above = bounds.get(annotated_types.Gt)
    patterns = [pattern for each in limits if (pattern := getattr(each, "pattern", None))]
    said = f" above {above.gt}" if above else ""
    return f"{said} that matches `{patterns[0]}`" if patterns else said


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return ""
    shown = next((show(value) for kind, show in _SHOWN.items() if isinstance(value, kind)), str(value))
    return f"`{shown}`"


def _span(value: timedelta) -> str:
    for unit, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000)):
        count, rest = divmod(value // timedelta(milliseconds=1), size)
        if count and not rest:
            return f"{count} {unit}{'s' * (count > 1)}"
    return f"{value // timedelta(milliseconds=1)} milliseconds"


def _size(value: ByteSize) -> str:
    return value.human_readable(separator="").replace(".0", "")


_SHOWN: Mapping[type, Callable[[Any], str]] = {
    timedelta: _span,
    ByteSize: _size,
    datetime: lambda value: value.isoformat().replace("+00:00", "Z"),
    tuple: lambda value: f"[{', '.join(value)}]",
    bool: lambda value: str(value).lower(),
}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
