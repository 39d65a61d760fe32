"""Complete the names of stages, tables, sources, alerts and formats in a shell.

Only the configuration file is read, as plain YAML: a shell waits for the answer. So names in the environment or in
`--set` are not offered, and a file that cannot be read offers nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Table, bronze_of, bronze_stage


def stages(context: typer.Context, incomplete: str) -> list[str]:
    """Return the stages and layers whose names begin with a text."""
    sources, gold, served = _declared(context)
    names = [*map(bronze_stage, sources), "silver", *(f"gold.{name}" for name in gold)]
    names += [f"serving.{name}" for name in served]
    layers = [BRONZE.layer, "gold", *(["serving"] if served else [])]
    return _beginning(dict.fromkeys((*layers, *names)), incomplete)


def tables(context: typer.Context, incomplete: str) -> list[str]:
    """Return the tables whose names begin with a text."""
    sources, gold, _ = _declared(context)
    names = [*map(bronze_of, sources), SILVER, QUARANTINE, *(Table("gold", name) for name in gold)]
    return _beginning(dict.fromkeys(map(str, names)), incomplete)


def ingested(context: typer.Context, incomplete: str) -> list[str]:
    """Return the tables of bronze and silver whose names begin with a text."""
    sources, _, _ = _declared(context)
    return _beginning(dict.fromkeys(map(str, (*map(bronze_of, sources), SILVER))), incomplete)


def sources(context: typer.Context, incomplete: str) -> list[str]:
    """Return the sources whose names begin with a text."""
    return _beginning(_declared(context)[0], incomplete)


def alerts(context: typer.Context, incomplete: str) -> list[str]:
    """Return the alerts whose names begin with a text."""
    return _beginning(_section(_settings(context), "alerts"), incomplete)


def formats(context: typer.Context, incomplete: str) -> list[str]:
    """Return the log formats whose names begin with a text."""
    from oncelake.engine.conf_file import format_places

    names = sorted({path.stem for directory in format_places(_conf(context)) for path in directory.glob("*.yaml")})
    return _beginning(names, incomplete)


def _declared(context: typer.Context) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the sources, of the gold tables, and of the served ones."""
    settings = _settings(context)
    serving = _section(settings, "serving")
    served = serving.get("tables", ["error_log"] if {"url", "sink"} & serving.keys() else [])
    return [*_section(settings, "sources")] or [BRONZE.name], [*_section(settings, "gold")], [*map(str, served or ())]


def _settings(context: typer.Context) -> Mapping[str, Any]:
    from oncelake.common import unique_yaml
    from oncelake.engine.conf_file import conf_or_shipped

    try:
        settings = unique_yaml.read(conf_or_shipped(_conf(context)))
    except Exception:  # the command itself names what is wrong
        return {}
    return settings if isinstance(settings, Mapping) else {}


def _conf(context: typer.Context) -> Path | None:
    conf = context.params.get("conf")
    return Path(conf) if conf else None


def _section(settings: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = settings.get(key)
    return section if isinstance(section, Mapping) else {}


def _beginning(names: Any, incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
