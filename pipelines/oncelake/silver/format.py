"""Log format declarations: how to find the time, level and message of a line."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo, field_validator

from oncelake.bronze.records import Records
from oncelake.common.errors import ConfigError
from oncelake.common.models import Strict, later, one_line, shown
from oncelake.silver.pattern import groups
from oncelake.silver.times import checked, checked_zone

_PATH = re.compile(r"\$(?:\.[^\s.\[\]*'$]+|\[\d+\]|\['[^']+'\])+")
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")


def _level(name: str) -> str:
    if name.upper() not in LEVELS:
        raise ValueError(f"must be one of {', '.join(LEVELS)}")
    return name.upper()


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def is_path(key: str) -> bool:
    """Return True if a key of a JSON line is a path into it, such as `$.user.id`, and not a key at its top."""
    return key.startswith(("$.", "$["))


def _key(key: str) -> str:
    if is_path(key) and not _PATH.fullmatch(key):
        raise ValueError("must be a key, or a path such as $.meta.time, $['a key'].time or $.events[0].time")
    return key


Level = Annotated[str, AfterValidator(_level)]
TimePattern = Annotated[str, AfterValidator(checked)]
Keys = Annotated[tuple[Annotated[str, AfterValidator(_key)], ...], BeforeValidator(_listed), Field(min_length=1)]


class PartKeys(Strict):
    """The keys of a JSON or logfmt line that may hold each part; the first key that exists and is not null is used.

    Of a JSON line, a key can be a path to a nested value: `$.user.id`.
    """

    time: Keys
    level: Keys
    message: Keys


class LogFormat(Strict):
    """A log format: how to parse lines into times, levels and messages; see docs/formats.md."""

    levels: dict[str, Level] = Field(default_factory=dict, description="other spellings of the six levels")
    level_is: Literal["name", "priority", "status"] = Field(
        "name", description="priority: the PRI number of RFC 5424; status: the status code of HTTP"
    )
    default_level: Level | None = Field(None, description="the level of a line without one")
    time: Annotated[tuple[TimePattern, ...], BeforeValidator(_listed), Field(min_length=1)]
    zone: Annotated[str, AfterValidator(checked_zone)] = Field("UTC", description="the zone of times without one")
    json_keys: PartKeys | None = Field(None, alias="json", description="the keys of JSON lines, instead of a pattern")
    logfmt: PartKeys | None = later(None, description="the keys of lines of key=value pairs, instead of a pattern")
    pattern: str | None = Field(
        None, validate_default=True, description="a Java regular expression with named groups for a whole line"
    )

    record: Records | None = later(
        None, description="where records of several lines start; without it, each line is one"
    )

    @field_validator("levels")
    @classmethod
    def _any_case(cls, levels: dict[str, str]) -> dict[str, str]:
        return {spelling.upper(): level for spelling, level in levels.items()}

    @field_validator("pattern")
    @classmethod
    def _has_groups(cls, pattern: str | None, info: ValidationInfo) -> str | None:
        others = [info.data[name] for name in ("json_keys", "logfmt") if name in info.data]
        if len(others) == 2 and [pattern, *others].count(None) != 2:
            raise ValueError("a format needs pattern, json or logfmt, exactly one of them")
        names = groups(pattern).names if pattern is not None else {}
        needed = {"time", "message"} | (set() if info.data.get("default_level") else {"level"})
        if pattern is not None and (missing := sorted(needed - names.keys())):
            raise ValueError(f"has no group {', '.join(f'(?<{name}>...)' for name in missing)}")
        return pattern


def load_format(name_or_path: str, directories: Sequence[Path]) -> LogFormat:
    """Read a log format by its path, or by its name from the first directory that has it.

    Raises:
        ConfigError: the format does not exist or is wrong; the message names the file, the key and what is accepted.
    """
    path = _find(name_or_path, directories)
    try:
        declared = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(declared, dict):
            raise ConfigError(
                f"{path}: a log format is a mapping of keys such as pattern and time, not {shown(declared)}"
            )
        return LogFormat.model_validate(declared)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"source.format {name_or_path!r}: cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: {one_line(error)}") from error


def format_names(directories: Sequence[Path]) -> list[str]:
    """Return the names of the log formats in some directories, in alphabetical order."""
    return sorted({path.stem for directory in directories for path in directory.glob("*.yaml")})


def _find(name_or_path: str, directories: Sequence[Path]) -> Path:
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path)
        if not path.is_file():
            raise ConfigError(
                f"source.format {name_or_path!r}: there is no such file; give the path or the name of a log format"
            )
        return path
    for directory in directories:
        if (path := directory / f"{name_or_path}.yaml").is_file():
            return path
    there = ", ".join(format_names(directories)) or "none"
    raise ConfigError(
        f"source.format {name_or_path!r}: no {name_or_path}.yaml in {', '.join(map(str, directories))}; "
        f"available: {there}; use one of these names or the path of a format file"
    )
