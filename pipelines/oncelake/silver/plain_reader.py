"""Read lines by a log format without Spark, as silver reads them with Spark.

It serves `oncelake init`, `oncelake format suggest`, `oncelake report` and `oncelake trace`, which answer at once. What
it cannot read as silver does, it refuses with NeedsSparkError; tests compare both on every shipped format. Silver
decides.
"""

import json
import re
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from json.decoder import JSONArray, JSONObject  # type: ignore[attr-defined]
from json.scanner import py_make_scanner  # type: ignore[attr-defined]
from types import FrameType
from typing import Any

from oncelake.bronze.records import BYTE_ORDER_MARK, SEARCHED, Records
from oncelake.common.ansi import ESCAPE, SEQUENCES
from oncelake.silver.parsing.format import LogFormat, PartKeys, is_path
from oncelake.silver.parsing.level import HIGHEST_PRIORITY, LEVELS, NO_STATUS, SEVERITY
from oncelake.silver.parsing.pattern import groups, whole_line
from oncelake.silver.plain_times import NeedsSparkError, TimeReader
from oncelake.silver.transform import TimeLimits

# The keys of a format whose meaning is known here. A format with another one needs Spark.
_KNOWN = {
    *("levels", "level_is", "default_level", "time", "zone"),
    *("json_keys", "logfmt", "pattern", "record", "strip_ansi"),
}
_KNOWN_OF_RECORD = {"starts", "max_lines", "max_bytes", "part", "joint", "content", "lines"}
_PARTS = ("time", "level", "message")
# Java has these, and Python has not, or means another thing.
_JAVA_ONLY = re.compile(
    r"\\[pPQEhHRXGNk0ecZ]|\\x(?![\dA-Fa-f]{2})|&&|\(\?[a-zA-Z]+(?:-[a-zA-Z]+)?\)|\(\?[a-zA-Z]*[-du]"
)
_PAIR = re.compile(r'([^\s="]++)(?:=("(?:[^"\\]|\\.)*+"|[^\s"]*+))?+', re.ASCII | re.DOTALL)
_PAIRS = re.compile(rf"\s*+(?=[^\s=\"]++=)(?:{_PAIR.pattern}(?:\s++|\Z))++", re.ASCII | re.DOTALL)
_STEP = re.compile(r"\.([^\s.\[\]*'$]+)|\[(\d+)\]|\['([^']+)'\]")
_ESCAPES = {"n": "\n", "t": "\t"}
# Half of a character that has no other half.
_HALF = re.compile("[\ud800-\udfff]")
_SEQUENCES = re.compile(SEQUENCES)


@dataclass(frozen=True)
class PlainLine:
    """A line, or a record of several, and what a format reads in it.

    Attributes:
        text: the record, its line ends in it.
        log_time: its time; None if it is refused.
        rules: the rules of the format that it breaks, each with the text that breaks it.
    """

    text: str
    log_time: datetime | None = None
    level: str | None = None
    message: str = ""
    fields: Mapping[str, str | None] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Parts:
    time: str | None
    level: str | None
    message: str
    fields: Mapping[str, str | None]


class PlainReader:
    """Reads the lines of a file by a log format."""

    def __init__(
        self,
        log_format: LogFormat,
        modified: datetime | None = None,
        limits: TimeLimits | None = None,
        ingested_at: datetime | None = None,
    ):
        """Translate a format.

        Args:
            log_format: the format.
            modified: when the file was written; a time without a year is near it. `ingested_at` if not given.
            limits: the accepted range of times.
            ingested_at: when the lines were ingested; the limits are around it. Now if not given.

        Raises:
            NeedsSparkError: a part of the format is not read here.
        """
        _refuse_unknown(log_format)
        self._format = log_format
        self._ingested_at = ingested_at or datetime.now(UTC)
        self._latest = (modified or self._ingested_at) + timedelta(days=1)
        self._limits = limits or TimeLimits()
        self._times = TimeReader(log_format.time, log_format.zone)
        self._pattern = python_pattern(whole_line(log_format.pattern)) if log_format.pattern is not None else None
        self._names = list(groups(log_format.pattern).names) if log_format.pattern is not None else []
        record = log_format.record
        self._starts = python_pattern(record.starts) if record is not None and record.starts else None
        self._part = python_pattern(record.part) if record is not None and record.part else None
        self._other = python_pattern(record.other_line) if record is not None and record.starts else None
        joint = record.joint if record is not None else None
        self._joint = python_pattern(joint, re.MULTILINE) if joint is not None else None
        self._levels = {level: level for level in LEVELS} | dict(log_format.levels)

    @property
    def is_record(self) -> bool:
        """True if the format puts several lines together."""
        return self._format.record is not None

    @property
    def has_level(self) -> bool:
        """True if lines of the format can have a level."""
        return self._pattern is None or "level" in self._names

    @property
    def default_level(self) -> str | None:
        """The level of a line without one; None if each line needs one."""
        return self._format.default_level

    def lines(self, content: str) -> list[PlainLine]:
        """Return the lines or records of a file's content, each as the format reads it."""
        return [self.read(record) for record in self.records(content)]

    def records(self, content: str) -> list[str]:
        """Return the lines of a file's content, those of one record together."""
        lines = content.removeprefix(BYTE_ORDER_MARK).split("\n")
        lines = lines[:-1] if lines[-1] == "" else lines
        record = self._format.record
        if record is None:
            return lines
        out: list[list[str]] = []
        for line in lines:
            if out and self._continues(out[-1][-1], line) and not _is_full(out[-1], line, record):
                out[-1].append(line)
            else:
                out.append([line])
        return ["\n".join(group) for group in out]

    def _continues(self, before: str, line: str) -> bool:
        if self._part is None:
            return not self._is_start(line)
        earlier, part = (self._part.search(text.removesuffix("\r")) for text in (before, line))
        if earlier is None or part is None or earlier["more"] is None:
            return False
        return part["of"] is not None and bool(earlier["of"] == part["of"])

    def _is_start(self, line: str) -> bool:
        visible = _without_ansi(line.removesuffix("\r")[:SEARCHED].removeprefix(BYTE_ORDER_MARK))
        return self._starts is not None and bool(self._starts.search(visible))

    def read(self, record: str) -> PlainLine:
        """Return what the format reads in a line, or in a record of several lines."""
        whole = record
        if self._joint is not None and "\n" in record:
            whole = self._joint.sub("", record)
        line = whole.removesuffix("\r").removeprefix(BYTE_ORDER_MARK)
        if (rule := self._broken_by_record(record, line)) is not None:
            return PlainLine(record, rules={rule: record})
        parts = self._visible_parts(line) if self._format.strip_ansi else self._parts(line)
        if parts is None:
            return PlainLine(record, rules={"pattern": line})
        at = self._times.read(parts.time, self._latest) if parts.time is not None else None
        level = self._level(parts.level)
        rules = {}
        if at is None:
            is_unclear = parts.time is not None and self._times.is_zone_unclear(parts.time)
            rules["time_zone" if is_unclear else "time"] = parts.time or ""
        elif not self._limits.earliest <= at <= self._ingested_at + self._limits.ahead:
            rules["time_range"] = parts.time or ""
        if level is None:
            rules["level"] = parts.level or ""
        if rules:
            return PlainLine(record, rules=rules)
        return PlainLine(record, at, level, parts.message, parts.fields)

    def _broken_by_record(self, record: str, line: str) -> str | None:
        """Return the rule of records that a record breaks, whatever is in it; `line` is the record as it is read."""
        if self._starts is not None and line and not self._is_start(line.split("\n", 1)[0]):
            return "record_start"
        if self._format.record is not None and _is_long(record, self._format.record):
            return "record_size"
        if self._other is not None and self._other.search(line):
            return "record_mixed"
        return None if line else "blank"

    def unheld(self, record: str) -> str:
        """Return the text of a matching line that no group of the pattern holds, with a blank for each group."""
        match = self._pattern.fullmatch(record.removesuffix("\r")) if self._pattern is not None else None
        if match is None:
            return ""
        marks = list(match.string)
        for name in self._names:
            start, end = match.span(name)
            marks[max(start, 0) : max(end, 0)] = " " * (end - start)
        return "".join(marks)

    def _visible_parts(self, line: str) -> _Parts | None:
        parts = self._parts(_without_ansi(line))
        if parts is None or self._pattern is not None:
            return parts
        fields = {key: text and _without_ansi(text) for key, text in parts.fields.items()}
        time, level = (text and _without_ansi(text) for text in (parts.time, parts.level))
        return _Parts(time, level, _without_ansi(parts.message), fields)

    def _parts(self, line: str) -> _Parts | None:
        if self._pattern is not None:
            match = self._pattern.fullmatch(line)
            if match is None:
                return None
            parts = match.groupdict()
            others = {name: parts[name] or None for name in self._names if name not in _PARTS}
            return _Parts(parts["time"] or None, parts.get("level"), parts["message"] or "", others)
        if self._format.logfmt is not None:
            pairs = logfmt_pairs(line)
            return None if pairs is None else _by_keys(pairs, self._format.logfmt, line_object=None)
        values = json_object(line)
        if values is None or self._format.json_keys is None:
            return None
        return _by_keys({key: json_text(value) for key, value in values.items()}, self._format.json_keys, values)

    def _level(self, text: str | None) -> str | None:
        if not text and self._format.default_level is not None:
            return self._format.default_level
        if text is None:
            return None
        if self._format.level_is == "name":
            return self._levels.get(text.upper())
        number = int(text) if re.fullmatch(r"0|[1-9]\d{0,8}", text, re.ASCII) else -1
        if self._format.level_is == "priority":
            return SEVERITY[number % 8] if 0 <= number <= HIGHEST_PRIORITY else None
        if not 100 <= number <= 599:
            return self._format.default_level if re.fullmatch(NO_STATUS, text, re.ASCII) else None
        return "ERROR" if number >= 500 else "WARN" if number >= 400 else "INFO"


def _without_ansi(text: str) -> str:
    return _SEQUENCES.sub("", text) if ESCAPE in text else text


def _refuse_unknown(log_format: LogFormat) -> None:
    """Raise NeedsSparkError if a format says more than is known here."""
    set_here = log_format.model_fields_set - _KNOWN - {"columns"}
    if any(column.misfit == "quarantine" for column in log_format.columns.values()):
        set_here.add("columns")
    if log_format.record is not None:
        set_here |= {f"record.{name}" for name in log_format.record.model_fields_set - _KNOWN_OF_RECORD}
    if set_here:
        raise NeedsSparkError(f"the key {', '.join(sorted(set_here))}")


def _is_long(record: str, bounds: Records) -> bool:
    return record.count("\n") >= bounds.max_lines or len(record.encode()) > int(bounds.max_bytes)


def _is_full(lines: Sequence[str], line: str, bounds: Records) -> bool:
    return len(lines) > bounds.max_lines or sum(map(len, lines)) + len(line) > int(bounds.max_bytes)


def python_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Translate a Java regular expression; ASCII as in Java.

    Raises:
        NeedsSparkError: it has a part that Python lacks, or reads in another way.
    """
    whole = re.sub(r"\\x\{([\dA-Fa-f]{4})\}", r"\\u\1", pattern.removeprefix("(?s)"))
    if _JAVA_ONLY.search(whole.replace("\\\\", "")) or _has_nested_class(whole):
        raise NeedsSparkError(f"the regular expression {pattern[:60]}")  # guard: pattern-readable-in-python
    text = re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", whole).replace(r"\z", r"\Z")
    try:
        return re.compile(text, re.ASCII | flags | (re.DOTALL if pattern.startswith("(?s)") else 0))
    except re.error as error:
        raise NeedsSparkError(f"the regular expression {pattern[:60]} ({error})") from None


def _has_nested_class(pattern: str) -> bool:
    """Return True if a character class has another one inside, which Java reads and Python does not."""
    classes = re.finditer(r"\\.|\[\^?\]?((?:\\.|[^\]\\])*)\]", pattern, re.DOTALL)
    return any("[" in re.sub(r"\\.", "", class_[1]) for class_ in classes if class_[1])


class _Number(str):
    """A number of a JSON line, as it is written."""

    __slots__ = ()


class _WrittenObject(dict[str, Any]):
    """An object of a JSON line, with its text."""

    written = ""


class _WrittenList(list[Any]):
    """A list of a JSON line, with its text."""

    written = ""


def _json_decoder() -> Any:
    """Return a decoder that keeps the text of numbers, objects and lists."""
    decoder: Any = json.JSONDecoder(parse_float=_Number, parse_int=_Number)

    def parse_object(at: tuple[str, int], *more: Any) -> tuple[_WrittenObject, int]:
        value, end = JSONObject(at, *more)
        wrapped = _WrittenObject(value)
        wrapped.written = at[0][at[1] - 1 : end]
        return wrapped, end

    def parse_array(at: tuple[str, int], *more: Any) -> tuple[_WrittenList, int]:
        value, end = JSONArray(at, *more)
        wrapped = _WrittenList(value)
        wrapped.written = at[0][at[1] - 1 : end]
        return wrapped, end

    decoder.parse_object, decoder.parse_array = parse_object, parse_array
    decoder.scan_once = py_make_scanner(decoder)  # the one in C does not call them
    return decoder


_DECODER = _json_decoder()


def json_object(line: str) -> dict[str, Any] | None:
    """Return the JSON object that a line is, nested values and numbers with their text; None if it is not one."""
    try:
        value = _DECODER.decode(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def json_text(value: object) -> str | None:
    """Return a value of a JSON line as text, a nested one as it is written; None for null."""
    if value is None or isinstance(value, str):
        return value and _HALF.sub("\ufffd", value)
    return value.written if isinstance(value, _WrittenObject | _WrittenList) else json.dumps(value)


def _at(key: str, texts: Mapping[str, str | None], line_object: Mapping[str, Any] | None) -> str | None:
    if not is_path(key):
        return texts.get(key)
    value: Any = line_object
    for step in _STEP.finditer(key, 1):
        name = step[1] or step[3]
        if name is not None:
            value = value.get(name) if isinstance(value, dict) else None
        else:
            value = value[int(step[2])] if isinstance(value, list) and int(step[2]) < len(value) else None
    return json_text(value)


def _by_keys(texts: Mapping[str, str | None], keys: PartKeys, line_object: Mapping[str, Any] | None) -> _Parts:
    parts: dict[str, str | None] = {}
    used_keys = set()
    for part, names in {"time": keys.time, "level": keys.level, "message": keys.message}.items():
        name = next((candidate for candidate in names if _at(candidate, texts, line_object) is not None), None)
        parts[part] = _at(name, texts, line_object) if name is not None else None
        used_keys.add(name)
    others = {key: text for key, text in texts.items() if key not in used_keys}
    return _Parts(parts["time"], parts["level"], parts["message"] or "", others)


def logfmt_pairs(line: str) -> dict[str, str | None] | None:
    if not _PAIRS.fullmatch(line):
        return None
    return {key: _unquoted(value) for key, value in _PAIR.findall(line)}


def _unquoted(value: str) -> str:
    if not value.startswith('"') or "\\" not in value:
        return value[1:-1] if value.startswith('"') else value
    try:
        text = json.loads(value, strict=False)
    except ValueError:
        return re.sub(r'\\([nt"\\])', lambda match: _ESCAPES.get(match[1], match[1]), value[1:-1])
    if _HALF.search(text):
        raise NeedsSparkError("half of a character in a text")
    return str(text)


@contextmanager
def bounded(seconds: float, what: str) -> Iterator[None]:
    """Stop a regular expression that takes too long; nothing stops it outside of the main thread.

    Raises:
        NeedsSparkError: the time is over.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_: int, __: FrameType | None) -> None:
        raise NeedsSparkError(f"{what} takes longer than {seconds:g} s on these lines")

    before, timer = signal.signal(signal.SIGALRM, stop), signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *timer)  # that of the program that calls us goes on, with its own handler
