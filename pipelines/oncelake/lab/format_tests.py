"""Store sample lines and their readings beside a format, and list what it reads differently after a change."""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BeforeValidator, Field, ValidationError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.records import check_reader
from oncelake.bronze.transform import from_files, line_reader
from oncelake.common import unique_yaml
from oncelake.common.errors import ConfigError
from oncelake.common.models import Strict, one_line
from oncelake.engine.conf_file import shipped_conf
from oncelake.lab.log_formats import Trial, read_columns
from oncelake.quality.reasons import at_micros
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.transform import TimeLimits, parse

# The directory of the kept lines, below that of the formats.
DIRECTORY = "tests"
_ABOUT = """\
# What lines of the format {name} are read as. Check it after a change of the format: oncelake format test {name}
# Edit it, or keep more lines: oncelake format try FILE {name} --save
"""


def _in_utc(value: object) -> object:
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return at.replace(tzinfo=at.tzinfo or UTC).astimezone(UTC) if isinstance(at, datetime) else value


Instant = Annotated[datetime, BeforeValidator(_in_utc)]


class KeptLine(Strict):
    """A line, or a record of several lines, and what a format reads in it.

    Attributes:
        written: when its file was written, if its time has no year.
        refused: the rules that it breaks; it then has no time, level and message.
    """

    line: str
    written: Instant | None = None
    time: Instant | None = None
    level: str | None = None
    message: str | None = None
    fields: dict[str, str] = Field(default_factory=dict)
    columns: dict[str, str] = Field(default_factory=dict)
    refused: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the line as YAML holds it, without what is not set."""
        of_times = {name: at.isoformat() for name in ("written", "time") if (at := getattr(self, name)) is not None}
        values = self.model_dump(exclude_defaults=True) | of_times
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    @property
    def outcome(self) -> str:
        """Return whether the line is read or refused."""
        return f"refused ({', '.join(self.refused)})" if self.refused else "read"

    def differences(self, other: "KeptLine") -> list[str]:  # guard: changed-reading-named
        """Return how another reading of the line differs: `level is INFO, not ERROR`."""
        if self.refused != other.refused:
            return [f"it is {other.outcome}, not {self.outcome}"]
        out = []
        for name in ("time", "level", "message", "fields", "columns"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, Mapping):
                keys = [key for key in dict.fromkeys([*mine, *theirs]) if mine.get(key) != theirs.get(key)]
                out += [f"{name}.{key} is {_shown(theirs.get(key))}, not {_shown(mine.get(key))}" for key in keys]
            elif mine != theirs:
                out.append(f"{name} is {_shown(theirs)}, not {_shown(mine)}")
        return out


def _shown(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return "nothing" if value is None else repr(value)


def kept_of(trial: Trial, parser: Parser, written: datetime | None) -> list[KeptLine]:
    """Return the lines that a trial shows, and what they are read as.

    Args:
        trial: the trial.
        parser: the parser of its format.
        written: when the file was written.

    Raises:
        ConfigError: its lines have several events.
    """
    _refuse_events(parser)
    near = None if parser.has_year else written
    parsed = [
        KeptLine(
            line=line.line,
            written=near,
            time=line.log_time,
            level=line.level,
            message=line.message,
            fields=dict(line.fields),
            columns=dict(line.columns),
        )
        for line in trial.parsed
    ]
    # whether a time is too far ahead depends on the day
    rules = [(line.line, [str(reason["rule"]) for reason in line.reasons]) for line in trial.refused]
    refused = [
        KeptLine(line=line, written=near, refused=tuple(names))
        for line, names in rules
        if line and "time_range" not in names
    ]
    return [*parsed, *refused]


def _refuse_events(parser: Parser) -> None:
    """Raise ConfigError for a format with several events in a line, of which no lines are kept."""
    if parser.has_events:
        raise ConfigError(
            f"lines of events ({parser.declared.each}) cannot be kept; run oncelake format try without --save"
        )


def tests_file(name_or_path: str, places: Sequence[Path]) -> Path:
    """Return the file with a format's kept lines: beside the format; of a shipped one, beside the configuration."""
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path)
        return path.parent / DIRECTORY / f"{path.stem}.yaml"
    own = [place for place in places if place.absolute() != (shipped_conf() / "formats").absolute()]
    origin = next((place for place in places if (place / f"{name_or_path}.yaml").is_file()), None)
    place = origin if origin in own else (own or places)[0]
    return place / DIRECTORY / f"{name_or_path}.yaml"


def tested_formats(places: Sequence[Path]) -> list[str]:
    """Return the names of the formats with kept lines."""
    return sorted({path.stem for place in places for path in (place / DIRECTORY).glob("*.yaml")})


def read_kept(path: Path) -> list[KeptLine]:
    """Return the kept lines of a file; none if there is no file.

    Raises:
        ConfigError: the file cannot be read, or is wrong.
    """
    try:
        declared = unique_yaml.read(path)
        return [KeptLine.model_validate(entry) for entry in declared or []]
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None
    except (ValidationError, TypeError) as error:
        message = (
            one_line(error, model=KeptLine)
            if isinstance(error, ValidationError)
            else "write a list of lines, each with the key line"
        )
        raise ConfigError(f"{path}: {message}") from None


def keep(path: Path, name: str, lines: Sequence[KeptLine]) -> int:
    """Add lines to a file of kept lines, in place of the same lines; return how many it has.

    Raises:
        ConfigError: the file is wrong, or cannot be written.
    """
    known = {line.line: line for line in read_kept(path)} | {line.line: line for line in lines}
    text = yaml.safe_dump(
        [line.to_dict() for line in known.values()], sort_keys=False, allow_unicode=True, width=100_000
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{_ABOUT.format(name=name)}{text}", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from None
    return len(known)


def changed(
    spark: SparkSession, parser: Parser, kept_lines: Sequence[KeptLine]
) -> Iterator[tuple[KeptLine, list[str]]]:
    """Yield the kept lines that a format now reads differently, each with the differences.

    Raises:
        ConfigError: Java does not accept the format, the session cannot read records of several lines, or the lines
            have several events.
    """
    _refuse_events(parser)
    for line, readings in zip(kept_lines, _read_again(spark, parser, kept_lines), strict=True):
        if len(readings) != 1:
            yield line, [f"it is {len(readings)} records, not one"]
        elif differences := line.differences(readings[0]):
            yield line, differences


def _read_again(spark: SparkSession, parser: Parser, kept_lines: Sequence[KeptLine]) -> list[list[KeptLine]]:
    """Return what the format reads in each line, which has a file of its own."""
    if parser.record is not None:
        check_reader(spark)
    parser.check(spark)
    with tempfile.TemporaryDirectory(prefix="oncelake-format-") as directory:
        for number, line in enumerate(kept_lines):
            path = Path(directory) / f"{number:06}.log"
            path.write_text(line.line, encoding="utf-8", newline="")
            if line.written is not None:
                os.utime(path, (line.written.timestamp(), line.written.timestamp()))
        reader = line_reader(spark, spark.read, parser.record)
        rows = parse(from_files(reader.load(f"file:{directory}"), parser.record), parser, TimeLimits())
        place = F.regexp_extract("file", r"(\d{6})\.log$", 1).cast("int")
        read = rows.select(place.alias("number"), *read_columns(parser)).collect()
    out: list[list[KeptLine]] = [[] for _ in kept_lines]
    for row in read:
        out[row["number"]].append(_kept_line(row))
    return out


def _kept_line(row: Any) -> KeptLine:
    if row["reasons"]:
        return KeptLine(line=row["line"], refused=tuple(reason["rule"] for reason in row["reasons"]))
    return KeptLine(
        line=row["line"],
        time=at_micros(row["at"]),
        level=row["level"],
        message=row["message"],
        fields={key: value for key, value in row["fields"].items() if value is not None},
        columns={key: value for key, value in row["columns"].asDict().items() if value is not None},
    )
