"""Find the kinds of logs in a directory: which files belong together, and which format reads them."""

import os
import re
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from oncelake.common.errors import ConfigError, OncelakeError
from oncelake.common.wording import count_of, listed
from oncelake.lab.evidence import Evidence
from oncelake.lab.log_formats import FITS, Sample, Suggestion, known_formats, sample_of, suggest_format
from oncelake.silver.parsing.format import LogFormat
from oncelake.silver.plain_reader import PlainReader, bounded
from oncelake.silver.plain_times import NeedsSparkError
from oncelake.sources.directory.listing import is_packed

# The first lines of a file and what the formats read in them; or why the file is no log.
_Tried = tuple[Sample, Suggestion] | str
# Why a file of bytes is left out.
NO_TEXT = "it is no text"
# At most this many kinds of names are tried.
_MOST_GROUPS = 40
_TEXTUAL = 8_192
# Of the files of one name, the beginnings of this many are read, this many lines each, in this many seconds.
_OTHER_FILES, _OTHER_LINES, _OTHER_SECONDS = 9, 100, 2.0
_PACKED = re.compile(r"\.(?:gz|gzip|bz2|zst|xz|lz4|snappy|deflate)$", re.IGNORECASE)
# What differs between the files of one log: numbers and dates, in a rotated file or a file for each day.
_DIFFERS = re.compile(r"[-._]?\d+")
_ROTATED = re.compile(r"(?:[-._]\d+)+$")


@dataclass(frozen=True)
class LogKind:
    """Files that one format reads.

    Attributes:
        name: the name of their source.
        files: the files, the newest first.
        format: the format's name.
        declared: the format.
        draft: that format as YAML, if it is a new one.
        assumptions: what the draft assumes.
        evidence: what it reads in the newest file.
        sample: the first lines of that file.
    """

    name: str
    files: Sequence[Path]
    format: str
    declared: LogFormat
    draft: str | None
    assumptions: Sequence[str]
    evidence: Evidence
    sample: Sample

    def rows(self) -> list[Mapping[str, str | None]]:
        """Return the columns of silver's rows of the sample: level, message and the fields."""
        lines = PlainReader(self.declared, self.sample.modified).lines(self.sample.text)
        return [
            {
                "level": line.level,
                "message": line.message,
                **{f"fields.{key}": text for key, text in line.fields.items()},
            }
            for line in lines
            if line.log_time is not None
        ]


@dataclass(frozen=True)
class LogKinds:
    """The kinds of logs in a directory.

    Attributes:
        place: the directory, or the one file.
        kinds: the files that a format reads, by format.
        left_out: the other files, the newest of each name, with the reason.
        beside: files with other names beside the one file.
    """

    place: Path
    kinds: Sequence[LogKind]
    left_out: Mapping[Path, str]
    beside: Sequence[Path] = ()

    @property
    def has_fatal(self) -> bool:
        """True if a sample has lines of level FATAL."""
        return any("FATAL" in kind.evidence.levels for kind in self.kinds)

    def path_of(self, kind: LogKind, inside: Path) -> str:
        """Return the path of a kind's source: the directory if it has no other files, else patterns of their names.

        Args:
            kind: the kind.
            inside: the path of the directory of the logs.

        Raises:
            ConfigError: the names of the files of two kinds do not differ.
        """
        others = [file for other in self.kinds if other is not kind for file in other.files]
        others += [*self.left_out, *self.beside]
        if not others:  # guard: own-files-per-kind
            return str(inside)
        for pattern_of in (_pattern, _narrow_pattern, _exact_pattern):
            patterns = sorted({pattern_of(self._below(file)) for file in kind.files})
            fitting = [other for other in others if _fits(str(self._below(other)), patterns)]
            if not fitting and all(_fits(str(self._below(file)), patterns) for file in kind.files):
                return f"{inside}/{patterns[0] if len(patterns) == 1 else '{' + ','.join(patterns) + '}'}"
        raise ConfigError(
            f"in {inside}, the names of the logs in the format {kind.format} do not differ from others: "
            f"{kind.files[0].name} is read as {kind.format}, and {fitting[0].name} is not; move them to a directory of "
            "their own, or name one file with --from"
        )

    def _below(self, file: Path) -> Path:
        return file.relative_to(self.place if self.place.is_dir() else self.place.parent)


def kinds_in(place: Path, places: Sequence[Path]) -> LogKinds:
    """Return the kinds of logs in a directory, or that of one file.

    Args:
        place: the directory, or the file.
        places: directories with log formats.

    Raises:
        ConfigError: there is no file with lines, or the one file cannot be read.
    """
    groups, known = _groups(place), known_formats(places)
    newest = [files[0] for files in groups]
    tried = _tried(newest, known) if place.is_dir() else {place: _suggested(place, known)}
    kinds: list[LogKind] = []
    left_out: dict[Path, str] = {}
    used: set[str] = set()
    while groups:
        files = groups.pop(0)
        kind = _kind(files, tried[files[0]], known, used)
        if isinstance(kind, str):
            left_out[files[0]] = kind
            continue
        if others := _of_another_kind(kind):
            tried |= _tried(others[:1], known)
            reason = _kind(others, tried[others[0]], known, used | {kind.name, kind.format})
            if isinstance(reason, str):
                kind = _warned(kind, f"{others[0].name} differs, and its lines go to quarantine: {reason}")
            else:
                groups.insert(0, others)
                kind = replace(kind, files=[file for file in files if file not in others])
        same = next((at for at, earlier in enumerate(kinds) if earlier.declared == kind.declared), None)
        if same is None:
            used |= {kind.name, kind.format}
            kinds.append(kind)
        else:
            kinds[same] = replace(kinds[same], files=[*kinds[same].files, *kind.files])
    return LogKinds(place, kinds, left_out, [] if place.is_dir() else _beside(place))


def _beside(file: Path) -> list[Path]:
    """Return what stands beside a file and has another name; its rotated forms have the same."""
    others = (path for path in file.parent.iterdir() if not path.name.startswith((".", "_")))
    return [other for other in others if other.is_dir() or _stem(other.name) != _stem(file.name)]


def _groups(place: Path) -> list[list[Path]]:
    """Return the files with content, those with the same name but for numbers together, the newest first."""
    if not place.is_dir():
        return [[place]]
    named = (path for path in place.rglob("*") if not re.search(r"(^|/)[._]", str(path.relative_to(place))))
    files = [(path.stat().st_mtime, path) for path in named if path.is_file() and path.stat().st_size]
    if not files:
        raise ConfigError(f"--from {place}: there is no file with lines in this directory; name a log file")
    groups: dict[str, list[Path]] = {}
    for _, file in sorted(files, reverse=True):
        groups.setdefault(_stem(str(file.relative_to(place))), []).append(file)
    if len(groups) > _MOST_GROUPS:
        names = listed(str(group[0].relative_to(place)) for group in groups.values())
        raise ConfigError(
            f"--from {place}: there are {count_of(len(groups), 'kind')} of names, {names}; name a log file, or a "
            "directory with fewer"
        )
    return list(groups.values())


def _stem(name: str) -> str:
    """Return a name without numbers, dates and the end of a packed file."""
    return _DIFFERS.sub("", _PACKED.sub("", name)) or name


def _tried(files: Sequence[Path], known: Mapping[str, LogFormat]) -> dict[Path, _Tried]:
    """Try every format on some files, as many at once as there are processors."""
    try_file = partial(_try, known=known)
    if len(files) == 1:
        return {files[0]: try_file(files[0])}
    ignored = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends this process, and it ends them
    with ProcessPoolExecutor(min(len(files), os.cpu_count() or 1), initializer=ignored) as pool:
        return dict(zip(files, pool.map(try_file, files), strict=True))


def _try(file: Path, known: Mapping[str, LogFormat]) -> _Tried:
    try:
        return _suggested(file, known)
    except ConfigError as error:
        return str(error).removeprefix(f"{file}: ").removeprefix(f"{file} ")


def _suggested(file: Path, known: Mapping[str, LogFormat]) -> _Tried:
    """Return the first lines of a file and what the formats read; or why it is no log.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        with file.open("rb") as stream:
            is_text = is_packed(str(file)) or b"\0" not in stream.read(_TEXTUAL)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    sample = sample_of(str(file))
    return (sample, suggest_format(sample, known)) if is_text else NO_TEXT


def _kind(files: Sequence[Path], tried: _Tried, known: Mapping[str, LogFormat], used: set[str]) -> LogKind | str:
    """Return the kind of files with one name, or why no format reads them."""
    if isinstance(tried, str):
        return tried
    newest, (sample, suggestion) = files[0], tried
    chosen = suggestion.chosen
    if chosen is None:
        return suggestion.reason or "no known format reads half of its lines"
    if suggestion.draft is not None and chosen is suggestion.drafted:
        name = _free_name(newest, [*known, *used])
        return LogKind(
            _free_source(newest, used), files, name, suggestion.draft.log_format, suggestion.draft.text,
            suggestion.draft.assumptions, chosen, sample,
        )  # fmt: skip
    return LogKind(_free_source(newest, used), files, chosen.format, known[chosen.format], None, (), chosen, sample)


def _warned(kind: LogKind, warning: str) -> LogKind:
    return replace(kind, evidence=replace(kind.evidence, warnings=[*kind.evidence.warnings, warning]))


def _of_another_kind(kind: LogKind) -> list[Path]:  # guard: other-format-in-files
    """Return the files with the name of a kind whose first lines its format does not read."""
    others = []
    for file in kind.files[1 : _OTHER_FILES + 1]:
        try:
            sample = sample_of(str(file), most=_OTHER_LINES)
            with bounded(_OTHER_SECONDS, f"the format {kind.format}"):
                lines = PlainReader(kind.declared, sample.modified).lines(sample.text)
        except (OSError, OncelakeError, NeedsSparkError):
            continue
        if sum(line.log_time is not None for line in lines) < FITS * len(lines):
            others.append(file)
    return others


def _free_name(file: Path, known: Sequence[str]) -> str:
    """Return a name for a file's format that no other format has."""
    name = _plain_name(file) or "own"
    name = f"my_{name}" if name in known else name
    return name if name not in known else next(f"{name}_{at}" for at in range(2, 99) if f"{name}_{at}" not in known)


def _free_source(file: Path, used: set[str]) -> str:
    name = re.sub(r"^(?=\d)", "log_", _plain_name(file)) or "log"
    return name if name not in used else next(f"{name}_{at}" for at in range(2, 99) if f"{name}_{at}" not in used)


def _plain_name(file: Path) -> str:
    stem = _DIFFERS.sub("", _PACKED.sub("", file.name)).split(".")[0] or file.name.split(".")[0]
    return re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_")


def _escaped(name: str) -> str:
    return re.sub(r"([*?{}\[\]\\,])", r"\\\1", name)


def _pattern(name: Path) -> str:
    """Return a pattern for a file and its rotated forms."""
    parts = [*name.parts[:-1], _ROTATED.sub("", _PACKED.sub("", name.name))]
    numbered = ["*".join(_escaped(piece) for piece in re.split(r"\d+", part)) for part in parts]
    return re.sub(r"\*(?:[-._]?\*)+", "*", f"{'/'.join(numbered)}*")


def _narrow_pattern(name: Path) -> str:
    """Return a pattern for a file and its rotated forms, with a mark between its name and what follows."""
    parts = [*name.parts[:-1], _DIFFERS.sub("", _PACKED.sub("", name.name))]
    whole = "/".join(_escaped(part) for part in parts)
    return "{" + f"{whole},{whole}[-.]*" + "}"


def _exact_pattern(name: Path) -> str:
    """Return a pattern for a file and its rotated forms; the numbers in its name are kept."""
    whole = _escaped(str(name))
    return "{" + f"{whole},{whole}[-.]*" + "}"


def _fits(name: str, patterns: Sequence[str]) -> bool:
    """Return True if a name, or what it is rotated to, fits a pattern."""
    for pattern in patterns:
        inner = pattern[1:-1].split(",") if pattern.startswith("{") else [pattern]
        if any(fnmatch(name, re.sub(r"\\(.)", r"[\1]", alternative)) for alternative in inner):
            return True
    return False
