"""Read in logrotate's configuration how it rotates the logs of a source, and where lines could be lost before a run."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from glob import glob
from math import ceil
from pathlib import Path

from oncelake.bronze.settings import Rotation
from oncelake.common.lake import place
from oncelake.common.wording import duration, shown_path
from oncelake.sources.directory.listing import is_named

CONFIGURATION = Path("/etc/logrotate.conf")
# A rotated log that is kept for less is gone before somebody sees on Monday that no run has read it.
_LEAST = timedelta(days=3)
# More than this is enough in any unit.
_MANY = 1_000
_DAY = timedelta(days=1)
# What each directive says about the rotation. Source: logrotate(8), also of all that follows.
_ROTATIONS: Mapping[str, Rotation] = {
    "copytruncate": "copytruncate",
    "copy": "copytruncate",
    "nocopytruncate": "rename",
    "nocopy": "rename",
    "renamecopy": "rename",
}
_EVERY = {
    "hourly": timedelta(hours=1),
    "daily": _DAY,
    "weekly": timedelta(days=7),
    "monthly": timedelta(days=30),
    "yearly": timedelta(days=365),
    "size": _DAY,  # at each start of logrotate, which systems make once a day
}
# Which directives replace each other: the last one counts.
_GROUPS = {
    **dict.fromkeys(_ROTATIONS, "rotation"),
    **dict.fromkeys(_EVERY, "every"),
    **{f"{no}{name}": name for name in ("compress", "delaycompress") for no in ("", "no")},
    **{name: name for name in ("rotate", "maxage", "maxsize")},
}
_SCRIPTS = ("prerotate", "postrotate", "firstaction", "lastaction", "preremove")
# logrotate includes no file whose name ends so.
_LEFT_OUT = (
    *(".bak", ".cfsaved", ".disabled", ".dpkg-bak", ".dpkg-del", ".dpkg-dist", ".dpkg-new", ".dpkg-old", ".rpmnew"),
    *(".rpmorig", ".rpmsave", ".swp", ".ucf-dist", ".ucf-new", ".ucf-old", ",v", "~"),
)


@dataclass(frozen=True)
class Directive:
    """A directive as it is written: its name, its value, and its file."""

    name: str
    value: str
    file: Path

    def __str__(self) -> str:
        return f"{self.name} {self.value}".rstrip()

    @property
    def number(self) -> int | None:
        """Its value as a number; None if it is none."""
        return int(self.value) if re.fullmatch(r"-?\d{1,9}", self.value) else None


@dataclass
class LogEntry:
    """The directives for some logs.

    Attributes:
        patterns: the patterns of the logs.
        file: the file that has the entry.
        directives: the last directive of each group, also those that hold for all logs.
    """

    patterns: list[str] = field(default_factory=list)
    file: Path = CONFIGURATION
    directives: dict[str, Directive] = field(default_factory=dict)

    @property
    def rotation(self) -> Rotation:
        """Return whether it renames the logs, or copies and cuts them."""
        directive = self.directives.get("rotation")
        return _ROTATIONS[directive.name] if directive is not None else "rename"

    def logs(self) -> Iterator[Path]:
        """Yield the logs that are there."""
        for pattern in self.patterns:
            yield from map(Path, glob(pattern if pattern.startswith("/") else f"/{pattern}"))  # noqa: PTH207 - Path refuses some patterns

    def has(self, name: str) -> bool:
        """Return True if a directive without a value holds."""
        directive = self.directives.get(name)
        return directive is not None and directive.name == name

    @property
    def every(self) -> timedelta:
        """The shortest time between two rotations, as far as it is known."""
        directive = self.directives.get("every")
        every = _EVERY[directive.name] if directive is not None else _DAY
        return min(every, _DAY) if "maxsize" in self.directives else every


def rotation_of(directory: Path, configuration: Path = CONFIGURATION) -> Rotation | None:
    """Return how logrotate rotates the logs of a directory; None if it does not, differs by log, or cannot be read.

    Args:
        directory: the directory of the logs.
        configuration: logrotate's main file, which includes others.
    """
    root = directory.resolve()
    rotations = {
        entry.rotation
        for entry in entries(configuration)
        if any(path.resolve().is_relative_to(root) for path in entry.logs())
    }
    return rotations.pop() if len(rotations) == 1 else None


def rotation_warnings(
    key: str, path: str, rotation: Rotation | None, configuration: Path | None = None
) -> Iterator[str]:
    """Yield where logrotate does something else to a source's logs than its settings say, or could lose lines.

    Args:
        key: the source's key in the settings.
        path: the source's path, which may be a pattern.
        rotation: the source's setting.
        configuration: logrotate's main file; nothing follows from one that cannot be read.
    """
    for entry in entries(configuration or CONFIGURATION):
        logs = ((log, (log, log.resolve())) for log in entry.logs())
        log = next((log for log, names in logs if any(is_named(place(path), str(name)) for name in names)), None)
        if log is not None:
            name = shown_path(str(log))
            yield from _other_rotation(key, name, rotation, entry)
            yield from _compressed_early(name, entry)
            yield from _deleted_early(name, entry)


def _other_rotation(key: str, log: str, rotation: Rotation | None, entry: LogEntry) -> Iterator[str]:
    directive = entry.directives.get("rotation")
    written = f"{directive.name} in {directive.file}" if directive is not None else f"no copytruncate in {entry.file}"
    remedy = f"set {key}.rotation to {entry.rotation}"
    if rotation is None and entry.rotation == "copytruncate":
        yield (
            f"{log}: logrotate copies and cuts it ({written}), and {key}.rotation is not set: a copy waits until the "
            f"log is cut; {remedy}"
        )
    elif rotation is not None and rotation != entry.rotation:
        does, effect = (
            ("copies and cuts", "the lines of a copy would count again")
            if entry.rotation == "copytruncate"
            else ("renames", "a rotated log that the new one begins with would not be read")
        )
        yield f"{log}: logrotate {does} it ({written}), and {key}.rotation is {rotation}: {effect}; {remedy}"


def _compressed_early(log: str, entry: LogEntry) -> Iterator[str]:
    """Yield a warning if a log that a program may still write to is compressed and removed."""
    if entry.rotation == "rename" and entry.has("compress") and not entry.has("delaycompress"):
        yield (
            f"{log}: compress without delaycompress (compress in {entry.directives['compress'].file}): what a program "
            f"still writes to the rotated log while it is compressed is lost; add delaycompress to {entry.file}"
        )


def _deleted_early(log: str, entry: LogEntry) -> Iterator[str]:
    """Yield a warning if a rotated log is deleted so early that a run which is down does not read it."""
    rotate, maxage = entry.directives.get("rotate"), entry.directives.get("maxage")
    count = 0 if rotate is None else rotate.number
    if count is not None and count >= 0 and min(count, _MANY) * entry.every < _LEAST:
        written = f"{rotate} in {rotate.file}" if rotate is not None else f"no rotate in {entry.file}"
        kept = f"for {duration((count * entry.every).total_seconds())}" if count else "not at all"
        yield (
            f"{log}: logrotate keeps a rotated log {kept} ({written}): lines that no run has read by then are lost; "
            f"set rotate to {ceil(_LEAST / entry.every)} or more"
        )
    if maxage is not None and maxage.number is not None and min(maxage.number, _MANY) * _DAY < _LEAST:
        yield (
            f"{log}: logrotate deletes a rotated log after {duration(maxage.number * _DAY.total_seconds())} "
            f"({maxage} in {maxage.file}): lines that no run has read by then are lost; set maxage to {_LEAST.days} or "
            "more"
        )


def entries(configuration: Path) -> list[LogEntry]:
    """Return the entries of a configuration and of all files that it includes; none of what cannot be read."""
    return [*_entries(configuration, {}, frozenset())]


def _entries(file: Path, common: dict[str, Directive], outer: frozenset[Path]) -> Iterator[LogEntry]:
    """Yield the entries of a file; `common` has the directives for all logs, to which the file adds its own."""
    entry, inside = LogEntry(file=file), False
    for line in _without_scripts(file):
        word, _, value = line.replace("=", " ", 1).partition(" ") if line[:1].isalpha() else line.partition(" ")
        if word == "include" and not inside:
            for included in _included(Path(value.strip())):
                if included not in outer and included != file:
                    yield from _entries(included, common, outer | {file})
        elif word == "}" and inside:
            yield entry
            entry, inside = LogEntry(file=file), False
        elif not inside and line.startswith(("/", '"', "'")):
            entry.patterns += _patterns(line.removesuffix("{"))
            inside = line.endswith("{")
            entry.directives = dict(common)
        elif word == "{":
            inside = True
        elif (group := _GROUPS.get(word)) is not None:
            (entry.directives if inside else common)[group] = Directive(word, value.strip(" ="), file)


def _without_scripts(file: Path) -> Iterator[str]:
    """Yield the lines of a file that are directives, patterns and braces; none if it cannot be read."""
    script = False
    try:
        for line in _lines(file):
            word = line.partition(" ")[0]
            if script or word in _SCRIPTS:
                script = word != "endscript"
            else:
                yield line
    except OSError:
        return


def _patterns(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that does not end
        return []


def _lines(file: Path) -> Iterator[str]:
    """Yield a file's lines without comments and tabs, with a closing brace on a line of its own."""
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        text = re.sub(r"^\s*#.*$", "", line).replace("\t", " ").strip()
        yield from (part.strip() for part in re.split(r"(?<=\{)|(?=\})", text) if part.strip())


def _included(path: Path) -> list[Path]:
    try:
        files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    except OSError:
        return []
    return [file for file in files if not file.name.endswith(_LEFT_OUT)]
