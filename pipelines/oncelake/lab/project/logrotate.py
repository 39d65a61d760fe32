"""Read in logrotate's configuration whether it renames the logs of a directory, or copies and cuts them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from oncelake.bronze.settings import Rotation

CONFIGURATION = Path("/etc/logrotate.conf")
# What each directive says about the rotation. Source: logrotate(8).
_DIRECTIVES: dict[str, Rotation] = {
    "copytruncate": "copytruncate",
    "copy": "copytruncate",
    "nocopytruncate": "rename",
    "nocopy": "rename",
    "renamecopy": "rename",
}
_SCRIPTS = ("prerotate", "postrotate", "firstaction", "lastaction", "preremove")


def rotation_of(directory: Path, configuration: Path = CONFIGURATION) -> Rotation | None:
    """Return how logrotate rotates the logs of a directory; None if it does not, differs by log, or cannot be read.

    Args:
        directory: the directory of the logs.
        configuration: logrotate's main file, which includes others.
    """
    try:
        entries = list(_entries(configuration, "rename"))
    except OSError:
        return None
    place = directory.resolve()
    rotations = {
        rotation
        for patterns, rotation in entries
        if any(path.resolve().is_relative_to(place) for pattern in patterns for path in _matching(pattern))
    }
    return rotations.pop() if len(rotations) == 1 else None


def _matching(pattern: str) -> Iterator[Path]:
    return Path("/").glob(pattern.lstrip("/"))


def _entries(file: Path, default: Rotation) -> Iterator[tuple[list[str], Rotation]]:
    """Yield the patterns of the logs of each entry of a configuration, and how they are rotated."""
    patterns: list[str] = []
    inside, rotation, script = False, default, False
    for line in _lines(file):
        word = line.split(maxsplit=1)[0] if line else ""
        if script:
            script = word != "endscript"
        elif word in _SCRIPTS:
            script = True
        elif word == "include" and not inside:
            for included in _included(Path(line.split(maxsplit=1)[1])):
                yield from _entries(included, default)
        elif word == "}" and inside:
            yield patterns, rotation
            patterns, inside, rotation = [], False, default
        elif inside:
            rotation = _DIRECTIVES.get(word, rotation)
        elif line.startswith(("/", '"', "'")):
            patterns += shlex.split(line.removesuffix("{"))
            inside = line.endswith("{")
        elif word == "{":
            inside = True
        else:
            default = rotation = _DIRECTIVES.get(word, default)


def _lines(file: Path) -> Iterator[str]:
    """Yield a file's lines without comments, with a closing brace on a line of its own."""
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        text = re.sub(r"^\s*#.*$", "", line).strip()
        yield from (part.strip() for part in re.split(r"(?<=\{)|(?=\})", text) if part.strip())


def _included(place: Path) -> list[Path]:
    return sorted(path for path in place.iterdir() if path.is_file()) if place.is_dir() else [place]
