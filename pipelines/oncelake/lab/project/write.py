"""Write the files of a new project: a configuration and its schema, a format, a suite, a systemd unit, a .gitignore."""

import json
import os
import pwd
import shlex
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from oncelake.bronze.settings import SourceSettings
from oncelake.common.errors import ConfigError
from oncelake.common.models import one_line
from oncelake.engine.conf_file import LOCAL
from oncelake.engine.json_schema import settings_schema
from oncelake.lab.project.kinds import LogKind, LogKinds
from oncelake.lab.project.sampled_suite import suite_of
from oncelake.lab.project.service import Service, ServiceOptions
from oncelake.lab.project.templates import rendered
from oncelake.sources.directory.logrotate import rotation_of

_SCHEMA = "oncelake.schema.json"
_SUITE = "expectations/silver.access_log.json"
# Where logs go if no directory of logs is named, and where the tables go.
_LOGS, _LAKE = "data/logs", "data/lake"


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
class _Source:
    """A source as the configuration declares it.

    Attributes:
        name: its name; None if it is the only one.
        logs: its path; None for a topic.
        rotation: how its logs are rotated, if that is known.
        format: the name of its format.
        zone: the zone of its times, if the format does not say it and they have none.
    """

    name: str | None
    logs: str | None
    rotation: str | None
    format: str
    zone: str | None


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
        ConfigError: it has a configuration already, is no directory, or cannot be read.
    """
    try:
        is_begun = (directory / LOCAL).exists()
    except OSError as error:
        raise ConfigError(f"{directory} cannot be read: {error.strerror}; name another directory") from None
    if is_begun:
        raise ConfigError(
            f"{directory / LOCAL} exists, and init overwrites no file; name another directory, or edit that file"
        )
    if directory.exists() and not directory.is_dir():
        raise ConfigError(f"{directory} is a file; name a directory, which may be new")
    if not str(directory.absolute()).isprintable():
        raise ConfigError(f"{str(directory)!r} has a character that cannot be printed; name another directory")


def write_project(directory: Path, source: NewSource, sample_logs: LogKinds | None = None) -> NewProject:
    """Write the files of a project that do not exist yet.

    Args:
        directory: where to write them; it is created if it does not exist.
        source: where lines come from.
        sample_logs: the kinds of logs that samples show.

    Raises:
        ConfigError: the directory cannot be written, or the kinds of logs cannot be told apart by their names.
    """
    root, kinds = directory.absolute(), sample_logs.kinds if sample_logs is not None else ()
    values = {
        "directory": str(root),
        "schema": _SCHEMA,
        "kind": "files" if source.logs is None else "tail",
        "sources": _sources(root, source, sample_logs),
        "bootstrap_servers": source.bootstrap_servers,
        "topic": source.topic,
        "lake": str(root / _LAKE),
        "has_fatal": sample_logs is not None and sample_logs.has_fatal,
    }
    suite = suite_of(kinds[0] if len(kinds) == 1 else None)
    texts = {
        str(LOCAL): rendered("local.yaml.j2", values),
        f"{LOCAL.parent}/{_SUITE}": f"{json.dumps(suite, indent=2, ensure_ascii=False)}\n",
        f"{LOCAL.parent}/{_SCHEMA}": f"{json.dumps(settings_schema(), indent=2)}\n",
        **_service(root, source).units(copied=True),
        ".gitignore": rendered("gitignore.j2", values),
    }
    texts |= {f"{LOCAL.parent}/formats/{kind.format}.yaml": kind.draft for kind in kinds if kind.draft is not None}
    files: list[Path] = []
    kept_files: list[Path] = []
    try:
        for name, text in texts.items():
            (files if _write_new(root / name, text) else kept_files).append(directory / name)
        if source.logs is None and source.bootstrap_servers is None:
            (root / _LOGS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{error.filename} cannot be written: {error.strerror}; name another directory") from None
    return NewProject(files, kept_files, _next(directory, source, sample_logs))


def _sources(root: Path, source: NewSource, sample_logs: LogKinds | None) -> list[_Source]:
    """Return the sources to declare: one, or one for each kind of logs.

    Raises:
        ConfigError: there are several kinds, and they cannot be several sources.
    """
    kinds = sample_logs.kinds if sample_logs is not None else ()
    if source.bootstrap_servers is not None or source.logs is None:
        if len(kinds) > 1:
            formats = ", ".join(f"{kind.format} ({kind.files[0].name})" for kind in kinds)
            raise ConfigError(f"--from has logs in several formats, {formats}; name one log file")
        logs = None if source.bootstrap_servers is not None else str(root / _LOGS)
        return [_Source(None, logs, None, kinds[0].format if kinds else "default", _zone(kinds[0] if kinds else None))]
    if sample_logs is None or not kinds:
        return [_Source(None, source.logs, rotation_of(Path(source.logs)), "default", None)]
    inside = Path(source.logs)
    is_one = len(kinds) == 1
    return [
        _Source(
            None if is_one else kind.name,
            sample_logs.path_of(kind, inside),
            rotation_of(inside),
            kind.format,
            _zone(kind),
        )
        for kind in kinds
    ]


def _zone(kind: LogKind | None) -> str | None:
    """Return the zone to write into a source: its format is a shipped one and says UTC of times without a zone."""
    return kind.declared.zone if kind is not None and kind.draft is None and kind.declared.assumes_utc else None


def _write_new(path: Path, text: str) -> bool:
    """Write a file unless there is one; return False if there is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:  # guard: init-overwrites-nothing
            file.write(text)
    except FileExistsError:
        return False
    return True


def _next(directory: Path, source: NewSource, sample_logs: LogKinds | None) -> str:
    steps = ["oncelake run --once"]
    if directory.absolute() != Path.cwd():
        steps.insert(0, f"cd {shlex.quote(str(directory))}")
    if source.logs is None and source.bootstrap_servers is None:
        logs = shlex.quote(str(directory / _LOGS))
        kinds = sample_logs.kinds if sample_logs is not None else ()
        sample = shlex.quote(str(kinds[0].files[0])) if kinds else "YOUR_LOGS"
        steps.insert(0, f"cp {sample} {logs}")
    return " && ".join(steps)


def _service(root: Path, source: NewSource) -> Service:
    """Return the service of the project, for the user that writes it."""
    logs = source.logs or (str(root / _LOGS) if source.bootstrap_servers is None else None)
    reads = (Path(logs),) if logs is not None else ()
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # as in a container
        user = str(os.geteuid())
    return Service(root, root / LOCAL, ServiceOptions(user), (root / _LAKE,), reads)
