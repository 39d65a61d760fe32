"""Write the files of a new project: a configuration and its schema, a format, a suite, a systemd unit, a .gitignore."""

import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import ValidationError
from pyspark.sql import SparkSession

from oncelake.bronze.settings import SourceSettings
from oncelake.common.errors import ConfigError
from oncelake.common.models import one_line
from oncelake.engine.configuration import LOCAL, format_places, shipped_conf
from oncelake.engine.json_schema import settings_schema
from oncelake.lab.log_formats import sampled, suggest_format, suggest_suite
from oncelake.lab.project.logrotate import rotation_of
from oncelake.silver.format import LogFormat, format_names, load_format

SERVICE = "oncelake.service"
_SCHEMA = "oncelake.schema.json"
_SUITE = "expectations/silver.access_log.json"
# Where logs go if no directory of logs is named, and where the tables go.
_LOGS, _LAKE = "data/logs", "data/lake"
# A word that needs no quotes in a systemd unit.
_PLAIN = re.compile(r"[\w%@+=:,./-]+", re.ASCII)


@dataclass(frozen=True)
class NewSource:
    """The source of a new project: a directory of logs, or a topic.

    Raises:
        ConfigError: the servers are given without a topic or the reverse, or are not accepted.
    """

    logs: str | None = None
    bootstrap_servers: str | None = None
    topic: str | None = None

    def __post_init__(self) -> None:
        if (self.bootstrap_servers is None) != (self.topic is None):
            missing = "--topic" if self.topic is None else "--kafka"
            raise ConfigError(f"{missing} is missing: a topic needs both, as in --kafka broker1:9092 --topic app-log")
        if self.bootstrap_servers is not None:
            try:
                SourceSettings(kind="kafka", bootstrap_servers=self.bootstrap_servers, topic=str(self.topic))
            except ValidationError as error:
                raise ConfigError(f"--kafka, --topic: {one_line(error)}") from None


@dataclass(frozen=True)
class Learned:
    """What a sample of lines shows.

    Attributes:
        format: the name of the format that fits.
        draft: that format as YAML, if it is a new one.
        share: the share of the lines that it parses.
        suite: a suite for silver's rows.
    """

    format: str = "default"
    draft: str | None = None
    share: float | None = None
    suite: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class NewProject:
    """The files of a new project.

    Attributes:
        files: those that were written.
        kept: those that were there and were left as they are.
        next: the next command.
    """

    files: list[Path]
    kept: list[Path]
    next: str


def check_new(directory: Path) -> None:
    """Check that a project can be written into a directory.

    Raises:
        ConfigError: it has a configuration already, or is no directory.
    """
    if (directory / LOCAL).exists():
        raise ConfigError(
            f"{directory / LOCAL} exists, and init overwrites no file; name another directory, or edit that file"
        )
    if directory.exists() and not directory.is_dir():
        raise ConfigError(f"{directory} is a file; name a directory, which may be new")
    if not str(directory.absolute()).isprintable():
        raise ConfigError(f"{str(directory)!r} has a character that cannot be printed; name another directory")


def sample_in(place: Path) -> Path:
    """Return the file to take as a sample: the place itself, or the newest file with content below a directory.

    Raises:
        ConfigError: there is no such file.
    """
    if not place.is_dir():
        return place
    named = (each for each in place.rglob("*") if not re.search(r"(^|/)[._]", str(each.relative_to(place))))
    files = [(each.stat().st_mtime, each) for each in named if each.is_file() and each.stat().st_size]
    if not files:
        raise ConfigError(f"--from {place}: there is no file with lines in this directory; name a log file")
    return max(files)[1]


def learn(spark: SparkSession, file: Path) -> Learned:
    """Return the format that fits a file's first lines, and a suite for their rows.

    Raises:
        ConfigError: the file cannot be read, or is empty.
    """
    places = format_places(None)
    with sampled(str(file)) as sample:
        found = suggest_format(spark, sample, places)
        if not found.fits:
            return Learned(share=0.0)
        if found.drafted is not None and found.drafted.share > found.best.share and found.draft is not None:
            declared = LogFormat.model_validate(yaml.safe_load(found.draft))
            name, draft, share = _free_name(file, places), found.draft, found.drafted.share
        else:
            name, draft, share = found.best.format, None, found.best.share
            declared = load_format(name, places)
        return Learned(name, draft, share, suggest_suite(spark, sample, declared))


def _free_name(file: Path, places: list[Path]) -> str:
    """Return a name for a file's format that no other format has."""
    name = re.sub(r"[^a-z0-9]+", "_", file.name.split(".")[0].lower()).strip("_") or "own"
    return f"my_{name}" if name in format_names(places) else name


def write_project(directory: Path, source: NewSource, learned: Learned, sample: Path | None = None) -> NewProject:
    """Write the files of a project that do not exist yet.

    Args:
        directory: where to write them; it is created if it does not exist.
        source: where lines come from.
        learned: what a sample of them shows.
        sample: the sample, if its directory cannot be the source because the project is inside it.

    Raises:
        ConfigError: the directory cannot be written.
    """
    root = directory.absolute()
    values = {
        "directory": str(root),
        "schema": _SCHEMA,
        "kind": "files" if source.logs is None else "tail",
        "logs": source.logs or str(root / _LOGS),
        "rotation": rotation_of(Path(source.logs)) if source.logs is not None else None,
        "bootstrap_servers": source.bootstrap_servers,
        "topic": source.topic,
        "lake": str(root / _LAKE),
        "format": learned.format,
        "program": _program(),
        "java_home": os.environ.get("JAVA_HOME"),
    }
    suite = learned.suite or json.loads((shipped_conf() / _SUITE).read_text(encoding="utf-8"))
    texts = {
        str(LOCAL): _rendered("local.yaml.j2", values),
        f"{LOCAL.parent}/{_SUITE}": f"{json.dumps(suite, indent=2, ensure_ascii=False)}\n",
        f"{LOCAL.parent}/{_SCHEMA}": f"{json.dumps(settings_schema(), indent=2)}\n",
        SERVICE: _rendered("oncelake.service.j2", values),
        ".gitignore": _rendered("gitignore.j2", values),
    }
    if learned.draft is not None:
        texts[f"{LOCAL.parent}/formats/{learned.format}.yaml"] = learned.draft
    files: list[Path] = []
    kept: list[Path] = []
    try:
        for name, text in texts.items():
            (files if _write_new(root / name, text) else kept).append(directory / name)
        if source.logs is None and source.bootstrap_servers is None:
            (root / _LOGS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be written: {error.strerror}; name another directory") from None
    return NewProject(files, kept, _next(directory, source, sample))


def _write_new(path: Path, text: str) -> bool:
    """Write a file unless there is one; return False if there is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _next(directory: Path, source: NewSource, sample: Path | None) -> str:
    steps = ["oncelake run --once"]
    if directory.absolute() != Path.cwd():
        steps.insert(0, f"cd {shlex.quote(str(directory))}")
    if source.logs is None and source.bootstrap_servers is None:
        logs = shlex.quote(str(directory / _LOGS))
        steps.insert(0, f"cp {shlex.quote(str(sample)) if sample else 'YOUR_LOGS'} {logs}")
    return " && ".join(steps)


def _program() -> list[str]:
    """Return the words with which a systemd unit starts this oncelake."""
    script = Path(sys.executable).with_name("oncelake")
    words = [str(script)] if script.exists() else [sys.executable, "-m", "oncelake"]
    return words if _PLAIN.fullmatch(words[0]) else ["/usr/bin/env", *words]  # systemd refuses other names of programs


def _rendered(template: str, values: Mapping[str, object]) -> str:
    environment = Environment(
        loader=PackageLoader("oncelake.lab.project", ""),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters |= {"shell": shlex.quote, "text": _yaml_text, "unit": _unit_text, "word": _unit_word}
    return environment.get_template(template).render(values)


def _yaml_text(text: str) -> str:
    """Write a text as YAML, in quotes if it needs them."""
    return yaml.safe_dump([text], default_flow_style=True, width=100_000, allow_unicode=True)[1:-2]


def _unit_text(text: str) -> str:
    """Write a text for a systemd unit, where % begins a specifier."""
    return text.replace("%", "%%")


def _unit_word(text: str) -> str:
    """Write a text as one word of a command in a systemd unit."""
    plain = _unit_text(text)
    if _PLAIN.fullmatch(plain):
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{escaped}"'
