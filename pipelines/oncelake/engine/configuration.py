"""Load the configuration: read a file, the environment and flags into one typed, strict value."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
)

from oncelake.common import unique_yaml
from oncelake.common.errors import ConfigError
from oncelake.common.models import one_line
from oncelake.common.unique_yaml import RepeatedKeyError
from oncelake.common.wording import did_you_mean, shown
from oncelake.engine.conf_file import LOCAL, conf_file, conf_or_shipped, format_places
from oncelake.engine.settings import ENV_PREFIX, NO_SOURCE, SECRET_KEYS, Settings
from oncelake.silver.parsing.parser import Parser, load_parser

# Mappings whose own keys contain dots.
_DOTTED = ("spark.conf", "source.kafka", "source.auto_loader", "serving.options")
# The value of `quality.expectations` that turns all suites off.
NO_SUITES = "none"
# Environment variables that are not settings: the configuration file, and those of the notebooks: the `--set` values of
# the lake to read, the directory for the notebooks' own lake, and the Kafka broker for the notebooks' own topics.
CONF, SETS, SCRATCH, BROKER = (f"{ENV_PREFIX}{name}" for name in ("CONF", "SETS", "SCRATCH", "BOOTSTRAP_SERVERS"))


def configured(conf: Path | None, sets: Sequence[str]) -> tuple[Settings, Mapping[str, Parser]]:
    """Return the settings, and by each source's name the parser of its log format. See `load` for the arguments.

    A format is looked up by name in `formats` next to the configuration, then in `conf/formats`, then among the formats
    shipped with oncelake.

    Raises:
        ConfigError: the configuration or the format is missing or invalid.
    """
    settings = _with_expectations(load(conf, sets), conf_or_shipped(conf).parent / "expectations")
    places = format_places(conf)
    return settings, {  # guard: declared-zone-applies
        name: load_parser(source.format, places, source.inside, source.zone)
        for name, source in settings.by_name.items()
    }


def code_places(conf: Path | None) -> list[Path]:
    """Return the directories in which a module of the user's own code is looked for first, in order."""
    file = conf_file(conf)
    return [*([file.parent] if file is not None else []), Path()]


def load(conf: Path | None, sets: Sequence[str] = ()) -> Settings:
    """Return the settings. Environment variables override the file, and `--set` flags override both.

    Args:
        conf: the file; None for `conf/local.yaml` if it exists, otherwise for the shipped file without its source and
            lake, which the environment or the flags must then name.
        sets: the flags.

    Raises:
        ConfigError: the file is missing or not a YAML mapping, a key is unknown, or a value is not accepted.
    """
    file, flags = conf_file(conf), _from_flags(sets)
    in_file = _read(file) if file is not None else _without_places(_read(conf_or_shipped(None)))
    _refuse_unknown_environment()
    _let_the_flags_choose_the_lake(in_file, flags)

    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
            file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, InitSettingsSource(settings_cls, in_file)

    try:
        return Loaded(**flags)
    except ValidationError as error:
        if file is None and any(_names_no_place(detail) for detail in error.errors()):
            raise ConfigError(
                f"there is no configuration: no {LOCAL} in {Path.cwd()}, and no source and lake are given. Write one: "
                "oncelake init DIR; or name a file with -c or ONCELAKE_CONF; or give both: --set "
                "source.path=/var/log/myapp --set lake.root=/data/lake"
            ) from None
        raise ConfigError(
            f"{file or LOCAL.name} with environment and --set: {one_line(error, model=Settings, secret=SECRET_KEYS)}"
        ) from None
    except SettingsError:
        raise ConfigError(
            f'environment variable {_not_json(Loaded)}: its value is not JSON; write a list as ["a", "b"] and a '
            'mapping as {"key": "value"}'
        ) from None


def _let_the_flags_choose_the_lake(in_file: dict[str, Any], flags: Mapping[str, Any]) -> None:
    """Drop the file's `lake.root` if a flag sets a catalog, and its catalog and schemas if a flag sets a root."""
    lake_flags, from_file = flags.get("lake"), in_file.get("lake")
    if isinstance(lake_flags, dict) and isinstance(from_file, dict):
        for chosen, others in (("catalog", ("root",)), ("root", ("catalog", "schemas"))):
            if chosen in lake_flags:
                in_file["lake"] = from_file = {key: value for key, value in from_file.items() if key not in others}


def _with_expectations(settings: Settings, beside: Path) -> Settings:
    """Return the settings with `quality.expectations` set to the absolute path of the suites, or None without suites.

    Raises:
        ConfigError: the settings name a directory that does not exist.
    """
    setting = settings.quality.expectations
    directory = Path(setting) if setting is not None else beside
    if setting not in (None, NO_SUITES) and not directory.is_dir():
        raise ConfigError(
            f"quality.expectations {setting}: there is no such directory; name the directory of your suites, or write "
            f"{NO_SUITES} to use no suite"
        )
    path = str(directory.absolute()) if setting != NO_SUITES and directory.is_dir() else None
    return settings.model_copy(update={"quality": settings.quality.model_copy(update={"expectations": path})})


def _without_places(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key not in ("source", "lake")}


def _names_no_place(error: Mapping[str, Any]) -> bool:
    return (error["type"] == "missing" and error["loc"] == ("lake",)) or str(error["msg"]).endswith(NO_SOURCE)


def _read(conf: Path) -> dict[str, Any]:
    try:
        text = conf.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no configuration file {conf} (looked in {Path.cwd()}); name another one with -c, or write one: "
            "oncelake init DIR"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {conf} cannot be read: {error}") from None
    try:
        value = unique_yaml.load(text)
    except RepeatedKeyError as error:
        raise ConfigError(f"{conf}: {error}") from None
    except yaml.YAMLError as error:
        # the library's message quotes the line, which may contain a password
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "a character in it"
        raise ConfigError(
            f"{conf} is not valid YAML: {where} cannot be read; put values with special characters in quotes"
        ) from None
    if not isinstance(value, dict):
        raise ConfigError(f"{conf}: expected a mapping of settings, not {shown(value)}")
    return value


def section_of(variable: str) -> str | None:
    """Return the settings section that an environment variable addresses; None if its prefix is not oncelake's."""
    if not variable.upper().startswith(ENV_PREFIX):
        return None
    return variable[len(ENV_PREFIX) :].lower().split("__")[0]


def _refuse_unknown_environment() -> None:
    known = set(Settings.model_fields)
    for name in os.environ:
        section = section_of(name)
        if section is not None and section not in known and name not in (CONF, SETS, SCRATCH, BROKER):
            raise ConfigError(
                f"environment variable {name}: there is no such setting; the form is {ENV_PREFIX}<section>__<key>, and "
                f"the sections are {', '.join(sorted(known))}. If Kubernetes sets it "
                f"for a Service, write enableServiceLinks: false into the pod{did_you_mean(section, known)}"
            )


def _not_json(settings: type[Settings]) -> str:
    """Return the names of the variables that should hold JSON and do not."""
    source, wrong = EnvSettingsSource(settings), []
    variables = source.env_vars
    for name, value in variables.items():
        source.env_vars = {name: value}
        try:
            source()
        except SettingsError:
            wrong.append(name.upper())
    return " and ".join(wrong)


def _from_flags(sets: Sequence[str]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for flag in sets:
        key, equals, value = flag.partition("=")
        if not equals or not all(key.split(".")):
            raise ConfigError(
                f"--set {flag.partition('=')[0]}: expected dotted.key=value, as in --set lake.root=/tmp/lake"
            )
        parts = key.split(".")
        if not _put(out, parts, _value(key, value)):
            if ".".join(parts[:2]) not in _DOTTED:
                raise ConfigError(f"--set {key}: another --set already gives a value to a part of this key; keep one")
            # a.b and a.b.c can both be options: nested mappings cannot hold both, but a key with dots can
            _put(out, [*parts[:2], ".".join(parts[2:])], _value(key, value))
    return out


def _put(values: dict[str, Any], parts: Sequence[str], value: Any) -> bool:
    """Put a value into nested mappings; return False and change nothing if a part of the key already has a value."""
    *parents, last = parts
    at: Any = values
    for part in parents:
        at = at.get(part, {}) if isinstance(at, dict) else None
    if not isinstance(at, dict) or isinstance(at.get(last), dict):
        return False
    at = values
    for part in parents:
        at = at.setdefault(part, {})
    at[last] = value
    return True


def _value(key: str, text: str) -> Any:
    """Parse a list or a mapping as YAML; any other text stays text, and the setting's type parses it."""
    if not text.startswith(("{", "[")):
        return text
    try:
        return unique_yaml.load(text)
    except RepeatedKeyError as error:
        raise ConfigError(f"--set {key}: {error}") from None
    except yaml.YAMLError:
        return text
