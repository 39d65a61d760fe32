"""Log format declarations: how to find the time, level and message of a line."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from oncelake.bronze.records import Records
from oncelake.common import unique_yaml
from oncelake.common.errors import ConfigError
from oncelake.common.models import Strict, as_tuple, later, one_line
from oncelake.common.time_zone import checked_zone
from oncelake.common.wording import did_you_mean, shown
from oncelake.silver.parsing.columns import checked_type
from oncelake.silver.parsing.level import LEVELS, LevelText
from oncelake.silver.parsing.pattern import groups
from oncelake.silver.parsing.times import ISO8601, SPECIAL, checked, names_zone
from oncelake.silver.schema import QUARANTINE, SILVER, SOURCE

_PATH = re.compile(r"\$(?:\.[^\s.\[\]*'$]+|\[\d+\]|\['[^']+'\])+")
# A column as one text: `int`, or `string from $.user.id`
_COLUMN = re.compile(r"\s*(?P<type>\w+\s*(?:\([^)]*\))?)(?:\s+from\s+(?P<source>\S.*?))?\s*")
# What holds the events of a line: a key of it, or the line itself.
_EVENTS = re.compile(r"\$(?:\.([^\s.\[\]*'$]+)|\['([^']+)'\])?\[\*\]")
COLUMN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,126}")
# The names of bronze's and silver's own columns, in lower case.
TAKEN = frozenset(name.lower() for name in (*SILVER.fieldNames(), SOURCE.name, *QUARANTINE.fieldNames()))


def _level(name: str) -> str:
    if name.upper() not in LEVELS:
        raise ValueError(f"must be one of {', '.join(LEVELS)}")
    return name.upper()


def column_rule(name: str) -> str:
    """Return the name of the rule that a value of a column breaks if it does not fit its type."""
    return f"column_{name}"


def is_path(key: str) -> bool:
    """Return True if a key of a JSON line is a path into it, such as `$.user.id`, and not a key at its top."""
    return key.startswith(("$.", "$["))


def _key(key: str) -> str:
    if is_path(key) and not _PATH.fullmatch(key):
        raise ValueError("must be a key, or a path such as $.meta.time, $['a key'].time or $.events[0].time")
    return key


def _events(path: str) -> str:
    if not _EVENTS.fullmatch(path):
        raise ValueError("must be $[*], or one key and [*], such as $.Records[*] or $['log events'][*]")
    return path


def _under_names(value: object) -> object:
    """Write a format's name as the section that it stands for, and the formats of a mapping under their key."""
    if isinstance(value, str):
        return {"formats": {"": value}}
    if isinstance(value, Mapping) and "formats" not in value:
        return {
            **({"by": value["by"]} if "by" in value else {}),
            "formats": {name: entry for name, entry in value.items() if name != "by"},
        }
    return value


Level = Annotated[str, AfterValidator(_level)]
_TimePattern = Annotated[str, AfterValidator(checked)]
Keys = Annotated[tuple[Annotated[str, AfterValidator(_key)], ...], BeforeValidator(as_tuple), Field(min_length=1)]


class PartKeys(Strict):
    """The keys of a JSON or logfmt line that may hold each part; the first key that exists and is not null is used.

    Of a JSON line, a key can be a path to a nested value: `$.user.id`.
    """

    time: Keys
    level: Keys
    message: Keys


class TypedColumn(Strict):
    """A column of silver with a type of its own; as one text, `int` or `string from $.user.id`.

    Attributes:
        source: the key, path or group that holds its text; the column's name if not given.
        misfit: what happens to a value that does not fit the type: it is null and counted, or its line is refused.
        null_is: texts that mean that there is no value.
        time: the time patterns of a timestamp; the format's own, then iso8601, if not given.
    """

    type: Annotated[str, AfterValidator(checked_type)]
    source: Annotated[str, AfterValidator(_key)] = Field("", alias="from")
    misfit: Annotated[Literal["null", "quarantine"], BeforeValidator(lambda value: value or "null")] = "null"
    null_is: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    time: Annotated[tuple[_TimePattern, ...], BeforeValidator(as_tuple)] = ()

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, declared: Any) -> Any:
        if isinstance(declared, (Mapping, cls)):
            return declared
        if not isinstance(declared, str):
            raise ValueError("must be a type such as int, a text such as `int from key`, or a mapping of type and from")
        match = _COLUMN.fullmatch(declared)
        if match is None:
            return {"type": declared}
        return {"type": match["type"], **({"from": match["source"]} if match["source"] else {})}

    @model_validator(mode="after")
    def _has_patterns_for_a_time(self) -> Self:
        if self.time and self.type != "timestamp":
            raise ValueError(f"time is for the type timestamp, not {self.type}; remove it or change the type")
        return self


class Inside(Strict):
    """The formats of what a line carries as its message; as one text, the name of a format for every line.

    Attributes:
        by: the field that decides; the first that a line has a value for.
        formats: the format for each value of that field; under the empty name, the one for every line.
    """

    by: Annotated[tuple[str, ...], BeforeValidator(as_tuple), Field(min_length=1)] = ("app", "tag")
    formats: dict[str, "str | LogFormat"] = Field(min_length=1)

    @property
    def loaded(self) -> "Mapping[str, LogFormat]":
        """The formats, after `load_format` has read them."""
        return {name: log_format for name, log_format in self.formats.items() if isinstance(log_format, LogFormat)}


class LogFormat(Strict):
    """A log format: how to parse lines into times, levels and messages; see docs/formats.md."""

    levels: dict[str, Level] = Field(default_factory=dict, description="other spellings of the six levels")
    level_is: LevelText = Field(
        "name", description="priority: the PRI number of RFC 5424; status: the status code of HTTP"
    )
    default_level: Level | None = Field(None, description="the level of a line without one")
    time: Annotated[tuple[_TimePattern, ...], BeforeValidator(as_tuple), Field(min_length=1)]
    zone: Annotated[str, AfterValidator(checked_zone)] = Field("UTC", description="the zone of times without one")
    json_keys: PartKeys | None = Field(None, alias="json", description="the keys of JSON lines, instead of a pattern")
    logfmt: PartKeys | None = later(None, description="the keys of lines of key=value pairs, instead of a pattern")
    pattern: str | None = Field(
        None, validate_default=True, description="a Java regular expression with named groups for a whole line"
    )

    record: Records | None = later(
        None, description="where records of several lines start; without it, each line is one"
    )

    strip_ansi: bool = later(
        False, description="true: colours and other control sequences of a terminal are no part of a line's text"
    )

    columns: dict[str, TypedColumn] = later({}, description="further columns of silver, with their types")

    inside: Annotated[Inside, BeforeValidator(_under_names)] | None = later(
        None, description="the format of what the message carries, or the formats by the value of a field"
    )

    each: Annotated[str, AfterValidator(_events)] | None = later(
        None, description="the list of events in a JSON line, each a row of silver, such as $.Records[*]"
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

    @field_validator("columns")
    @classmethod
    def _are_columns(cls, columns: dict[str, TypedColumn], info: ValidationInfo) -> dict[str, TypedColumn]:
        seen: set[str] = set()
        for name in columns:
            if not COLUMN_NAME.fullmatch(name):
                raise ValueError(f"{shown(name)} is no column name; use a letter, then letters, digits or _")
            if name.lower() in TAKEN:
                raise ValueError(f"{name} is a column of bronze or silver; choose another name, as in my_{name}: …")
            if name.lower() in seen:
                raise ValueError(f"{name} is declared twice; upper and lower case do not differ in a column's name")
            seen.add(name.lower())
        named = {
            name: column if column.source else column.model_copy(update={"source": name})
            for name, column in columns.items()
        }
        for name, column in named.items():
            _check_source(name, column.source, info.data)
        return named

    @field_validator("each")
    @classmethod
    def _is_alone(cls, each: str | None, info: ValidationInfo) -> str | None:
        if each is not None and info.data.get("json_keys", "invalid") is None:
            raise ValueError("is for JSON lines; a format with pattern or logfmt has one event in each line, remove it")
        for name in ("record", "inside"):
            if each is not None and info.data.get(name) is not None:
                raise ValueError(f"cannot be combined with {name}: a line of events is one line; remove one of them")
        return each

    @property
    def events_key(self) -> str:
        """The key of a line under which its events are; empty if the line is the list of them."""
        match = _EVENTS.fullmatch(self.each or "")
        return (match[1] or match[2] or "") if match is not None else ""

    @property
    def assumes_utc(self) -> bool:
        """True if a time of a line may lack a zone, and nothing says which one it means."""
        lacks = any(pattern == ISO8601 or (pattern not in SPECIAL and not names_zone(pattern)) for pattern in self.time)
        inner = self.inside.loaded.values() if self.inside is not None else ()
        return (lacks and "zone" not in self.model_fields_set) or any(log_format.assumes_utc for log_format in inner)

    def in_zone(self, zone: str | None) -> Self:
        """Return the format with a zone of times without one; the format itself for None."""
        if zone is None:
            return self
        update: dict[str, Any] = {"zone": zone}
        if self.inside is not None:
            inner = {name: inner_format.in_zone(zone) for name, inner_format in self.inside.loaded.items()}
            update["inside"] = self.inside.model_copy(update={"formats": inner})
        return self.model_copy(update=update)

    def around(self, inside: Inside, inner: "Mapping[str, LogFormat]") -> Self:
        """Return the format with the formats of what its lines carry.

        Raises:
            ValueError: one of them cannot stand inside another format.
        """
        if self.each is not None or any(inner_format.each is not None for inner_format in inner.values()):
            raise ValueError("inside: a format with the key each cannot be inside or around another one; remove a key")
        for name, inner_format in inner.items():
            if inner_format.inside is not None:
                raise ValueError(
                    f"inside: the format {shown(inside.formats[name])} has something inside itself; one is enough"
                )
            if inner_format.columns:
                raise ValueError(
                    f"inside: the format {shown(inside.formats[name])} has columns; declare them in the outer format"
                )
        starts = inner[""].record.starts if "" in inner and inner[""].record is not None else None
        record = self.record
        if starts is not None and record is not None and record.content is not None:
            record = record.model_copy(update={"inside": starts})
        return self.model_copy(update={"inside": Inside(by=inside.by, formats=dict(inner)), "record": record})

    def times_of(self, column: TypedColumn) -> tuple[str, ...]:
        """Return the time patterns of a column of type timestamp."""
        return column.time or (*self.time, *([] if ISO8601 in self.time else [ISO8601]))


def _check_source(name: str, source: str, declared: Mapping[str, Any]) -> None:
    """Raise ValueError if lines of a format have no such place; `declared` has the valid parts of the format."""
    pattern = declared.get("pattern")
    if is_path(source) and declared.get("json_keys") is None:
        raise ValueError(f"{name} is from {source}, but only JSON lines have paths; name a group or a key")
    if pattern is not None and source not in (names := groups(pattern).names):
        raise ValueError(
            f"{name} is from {source}, but the pattern has no group (?<{source}>...); its groups are {', '.join(names)}"
        )


def load_format(name_or_path: str, directories: Sequence[Path], inside: object = None) -> LogFormat:
    """Read a log format by its path, or by its name from the first directory that has it.

    Args:
        name_or_path: the format.
        directories: where a name is looked up.
        inside: what its lines carry, as `inside` of a format file has it, instead of what the format says.

    Raises:
        ConfigError: the format does not exist or is wrong; the message names the file, the key and what is accepted.
    """
    path = _find(name_or_path, directories)
    try:
        declared = unique_yaml.read(path)
        if not isinstance(declared, dict):
            raise ConfigError(
                f"{path}: a log format is a mapping of keys such as pattern and time, not {shown(declared)}"
            )
        log_format = LogFormat.model_validate(declared)
        carried = Inside.model_validate(_under_names(inside)) if inside is not None else log_format.inside
        if carried is None:
            return log_format
        names = {key: format_name for key, format_name in carried.formats.items() if isinstance(format_name, str)}
        inner = {key: load_format(format_name, directories) for key, format_name in names.items()}
        return log_format.around(carried, {**inner, **carried.loaded})
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"source.format {name_or_path!r}: cannot read {path}: {error}") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: {one_line(error, model=LogFormat)}") from error
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from error


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
    available = ", ".join(format_names(directories)) or "none"
    raise ConfigError(
        f"source.format {name_or_path!r}: no {name_or_path}.yaml in {', '.join(map(str, directories))}; "
        f"available: {available}; use one of these names or the path of a format file"
        f"{did_you_mean(name_or_path, format_names(directories))}"
    )
