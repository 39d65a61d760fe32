"""Try log formats on the first lines of a file, without a lake: which lines parse and how, and which format fits.

Trying a format starts Spark, which decides. Finding one does not: it answers at once.
"""

import bz2
import gzip
import os
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from pydantic import ValidationError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.bronze.records import check_reader
from oncelake.bronze.transform import from_files, line_reader
from oncelake.common.errors import ConfigError
from oncelake.common.lake import BRONZE
from oncelake.common.wording import share
from oncelake.lab.drafted_format import Draft, NoDraftError, draft_format
from oncelake.lab.evidence import LONGEST, Evidence, counted, evidence, swallowed, unheld_in
from oncelake.quality.reasons import at_micros
from oncelake.quality.split import MARKS
from oncelake.silver.parsing.events import by_event
from oncelake.silver.parsing.format import LogFormat, column_rule, format_names, load_format
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.plain_reader import PlainReader, bounded
from oncelake.silver.plain_times import NeedsSparkError
from oncelake.silver.rules import Silver
from oncelake.silver.schema import EVENT_INDEX
from oncelake.silver.transform import TimeLimits, accepted, parse
from oncelake.sources.directory.listing import is_packed

# A sample is the first lines of a file, at most this many lines and about this many bytes.
MAX_LINES, MAX_BYTES = 5_000, 4 * 1024**2
_OPENED: Mapping[str, Callable[[Path], Any]] = {".gz": gzip.open, ".gzip": gzip.open, ".bz2": bz2.open}
# A trial shows at most this many lines that parse, one of each level if it can, and as many that do not.
_SHOWN = 5
# If no known format parses this share of the lines, one is drafted.
FITS = 0.5
# A format that reads none of this many lines is not tried on all of them.
_FEW = 200


@dataclass(frozen=True)
class ParsedLine:
    """A line, or a record of several lines, that a format parses; the fields and columns that are not null, as text."""

    line: str
    log_time: datetime
    level: str
    message: str
    fields: Mapping[str, str]
    columns: Mapping[str, str]


@dataclass(frozen=True)
class RefusedLine:
    """A line that a format refuses, with the rules that it breaks, each with the part of the line and its text."""

    line: str
    reasons: Sequence[Mapping[str, str | None]]


@dataclass(frozen=True)
class Trial:
    """The result of one format on a sample.

    Attributes:
        format: the format's name or path.
        records: True if the format puts several lines together; `lines` then counts records.
        lines: the lines of the sample.
        line_ends: how many lines these are, where a record has several.
        accepted: how many of `lines` parse.
        found: how many values the parsed lines have on average, besides time, level and message.
        rules: per rule, how many of the other lines break it.
        misfits: per column, how many values of the parsed lines do not fit its type and become null.
        parsed: a few lines that parse.
        refused: a few that do not.
        warnings: what a person should look at.
    """

    format: str
    records: bool
    lines: int
    line_ends: int
    accepted: int
    found: float
    rules: Mapping[str, int]
    misfits: Mapping[str, int]
    parsed: Sequence[ParsedLine]
    refused: Sequence[RefusedLine]
    warnings: Sequence[str]

    @property
    def counted(self) -> str:
        """The number of lines, or of records and of their lines, with its noun."""
        return counted(self.lines, self.line_ends, is_record=self.records)

    @property
    def share(self) -> float:
        """The share of lines that parse."""
        return self.accepted / self.lines if self.lines else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        parsed = [{**asdict(line), "log_time": line.log_time.isoformat()} for line in self.parsed]
        return {**asdict(self), "parsed": parsed, "share": round(self.share, 4)}


@dataclass(frozen=True)
class Sample:
    """The first lines of a file.

    Attributes:
        content: the lines, with their ends.
        modified: when the file was written; None for standard input.
    """

    content: bytes
    modified: datetime | None = None

    @property
    def text(self) -> str:
        """The lines as text."""
        return self.content.decode("utf-8", "replace")

    @contextmanager
    def file(self) -> Iterator[Path]:
        """Yield a file with the lines, of the same time."""
        with tempfile.TemporaryDirectory(prefix="oncelake-format-") as directory:
            copy = Path(directory) / "sample.log"
            copy.write_bytes(self.content)
            if self.modified is not None:  # a time without a year is near that of the file
                os.utime(copy, (self.modified.timestamp(), self.modified.timestamp()))
            yield copy


def sample_of(file: str, masked: Callable[[bytes], bytes] = bytes, most: int = MAX_LINES) -> Sample:
    """Return the first lines of a file.

    Args:
        file: the file; `-` is standard input.
        masked: returns a line as it may be stored and shown.
        most: how many lines.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = Path(file)
    try:
        if file == "-":
            content, modified = _first_lines(sys.stdin.buffer, most), None
        else:
            end = next((suffix for suffix in _OPENED if file.lower().endswith(suffix)), "")
            if is_packed(file) and not end:
                raise ConfigError(f"{file}: the format of {path.suffix} files is not read here; unpack it first")
            opened = _OPENED[end](path) if end else path.open("rb")
            with opened as stream:
                content = _first_lines(cast(BinaryIO, stream), most)
            modified = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not content:
        raise ConfigError(f"{file} is empty; give a file with lines of a log")
    return Sample(b"\n".join(map(masked, content.split(b"\n"))), modified)


def _first_lines(stream: BinaryIO, most: int) -> bytes:
    lines: list[bytes] = []
    room = MAX_BYTES
    while room > 0 and len(lines) < most and (line := stream.readline(MAX_BYTES)):
        lines.append(line)
        room -= len(line)
    return b"".join(lines)


def try_format(spark: SparkSession, sample: Path, name: str, parser: Parser, settings: Silver | None = None) -> Trial:
    """Return how the lines of a sample parse.

    Args:
        spark: the session.
        sample: the sample.
        name: the format's name or path.
        parser: the parser of the format.
        settings: the time limits, and the user's own code, whose columns are shown too.

    Raises:
        ConfigError: Java does not accept the format, the session cannot read records of several lines, or the user's
            own code cannot be used.
    """
    settings = settings or Silver({}, TimeLimits())
    if parser.record is not None:
        check_reader(spark)
    parser.check(spark)
    parsed = parse(_lines(spark, sample, parser), parser, settings.limits)
    rows = by_event(parsed).select(*read_columns(parser), MARKS).collect()
    lines = [row for row in rows if not row["event"]]
    good = [row for row in rows if not row["reasons"]]
    bad = [row for row in lines if row["reasons"]]
    first_of_level = {row["level"]: at for at, row in reversed([*enumerate(good)])}
    chosen = [*first_of_level.values(), *(at for at, row in enumerate(good) if at != first_of_level[row["level"]])]
    shown = [(at, good[at]) for at in sorted(chosen[:_SHOWN])]
    own = _own_columns(spark, parsed, replace(settings, parsers={BRONZE.name: parser})) or [{}] * len(good)
    broken = Counter(rule for row in good for rule in row[MARKS] or ())
    values = sum(value is not None for row in good for value in row["fields"].values())
    return Trial(
        name,
        parser.record is not None,
        len(lines),
        len(lines) + sum((row["line"] or "").count("\n") for row in lines),
        len(lines) - len(bad),
        values / len(good) if good else 0.0,
        dict(Counter(reason["rule"] for row in bad for reason in row["reasons"])),
        {name: broken[column_rule(name)] for name in parser.columns if broken[column_rule(name)]},
        [
            ParsedLine(
                row["line"] or f"event {row['event']} of its line",
                at_micros(row["at"]),
                row["level"],
                row["message"],
                {key: value for key, value in row["fields"].items() if value is not None},
                {name: text for name, text in (row["columns"].asDict() | own[at]).items() if text is not None},
            )
            for at, row in shown
        ],
        [RefusedLine(row["line"], [reason.asDict() for reason in row["reasons"]]) for row in bad[:_SHOWN]],
        swallowed([row["line"] for row in good]),
    )


def unheld_text(parser: Parser, content: str) -> dict[str, int]:
    """Return text that a pattern matches but no group holds, in how many lines; none if only Spark reads them."""
    try:
        reader = PlainReader(parser.declared)
        with bounded(LONGEST, "the pattern"):
            return unheld_in(reader, reader.records(content))
    except NeedsSparkError:
        return {}


def read_columns(parser: Parser) -> list[Column]:
    """Return what people see of parsed rows, of each event of a line.

    They are line, event, at in microseconds, level, message, fields, reasons and columns, the format's typed columns, a
    struct of texts. The line is null for its events after the first.
    """
    event = F.col(EVENT_INDEX) if parser.has_events else F.lit(None).cast("int")
    line = F.make_valid_utf8(F.col("value").cast("string"))
    columns = F.struct(*(F.col(name).cast("string").alias(name) for name in parser.columns))
    return [
        F.when(F.coalesce(event, F.lit(0)) == 0, line).alias("line"),
        event.alias("event"),
        F.unix_micros("log_time").alias("at"),
        *map(F.col, ("level", "message", "fields", "reasons")),
        columns.alias("columns"),
    ]


def _own_columns(spark: SparkSession, parsed: DataFrame, settings: Silver) -> list[dict[str, str | None]]:
    """Return the columns of the user's own code for each line that parses, as text; empty without such code."""
    if settings.transform is None:
        return []
    texts = [F.col(column.name).cast("string").alias(column.name) for column in settings.transform_fields(spark)]
    return [row.asDict() for row in settings.completed(accepted(parsed)).select(*texts).collect()]


def _lines(spark: SparkSession, sample: Path, parser: Parser) -> DataFrame:
    return from_files(line_reader(spark, spark.read, parser.record).load(f"file:{sample}"), parser.record)


@dataclass(frozen=True)
class Suggestion:
    """The known formats on a sample, and a draft if none of them fits.

    Attributes:
        known: what the known formats read, the best first.
        draft: a new format; None if a known one fits, or if none can be drafted.
        drafted: what the draft reads.
        reason: why there is no draft, if none of the known formats fits.
        unread: the formats that only Spark can try, each with the reason.
    """

    known: Sequence[Evidence]
    draft: Draft | None = None
    drafted: Evidence | None = None
    reason: str | None = None
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def best(self) -> Evidence | None:
        """The known format that fits best; None if none reads a line."""
        return self.known[0] if self.known and self.known[0].accepted else None

    @property
    def chosen(self) -> Evidence | None:
        """Return the evidence of a known format that reads half of the lines, or of the draft; None without one."""
        if self.drafted is None and self.best is not None and self.best.share >= FITS:
            return self.best
        return self.drafted

    def to_dict(self) -> dict[str, Any]:
        """Return the suggestion for JSON."""
        return {
            "formats": {known.format: round(known.share, 4) for known in self.known},
            "best": self.best.format if self.best is not None else None,
            "draft": self.draft.text if self.draft is not None else None,
            "reason": self.reason,
            "evidence": self.chosen.to_dict() if self.chosen is not None else None,
        }


def known_formats(places: Sequence[Path]) -> dict[str, LogFormat]:
    """Return the formats in some directories by name; the first directory that has a name counts."""
    return {name: load_format(name, places) for name in format_names(places)}


def suggest_format(sample: Sample, known: Mapping[str, LogFormat]) -> Suggestion:
    """Try every format on a sample, without Spark.

    Args:
        sample: the sample.
        known: the formats by name.

    Returns:
        What the formats read, ordered by the lines, then by the values, then by name; and a draft, or why there is
        none, if the best one reads less than half of the lines.
    """
    text = sample.text
    few = "\n".join(text.split("\n", _FEW)[:_FEW])
    readings, unread = list[Evidence](), dict[str, str]()
    for name, log_format in known.items():
        try:
            reader = PlainReader(log_format, sample.modified)
            tried = evidence(name, reader, few)
            readings.append(evidence(name, reader, text) if tried.accepted else tried)
        except NeedsSparkError as error:
            unread[name] = str(error)
    readings.sort(key=lambda reading: (-reading.share, -reading.values, reading.format))
    if readings and readings[0].share >= FITS:
        draft, drafted = _with_levels(sample, readings[0]) if len(readings[0].levels) == 1 else (None, None)
        return Suggestion(readings, draft, drafted, unread=unread)
    try:
        draft, drafted = _drafted(sample)
    except (NoDraftError, NeedsSparkError, ValidationError) as error:
        return Suggestion(readings, reason=str(error), unread=unread)
    if drafted.share < FITS:
        reason = f"a draft reads only {share(drafted.accepted, drafted.lines)} of the {drafted.counted}"
        return Suggestion(readings, reason=reason, unread=unread)
    return Suggestion(readings, draft, drafted, unread=unread)


def _drafted(sample: Sample) -> tuple[Draft, Evidence]:
    draft = draft_format(sample.text.split("\n"), sample.modified)
    reading = evidence("the draft", PlainReader(draft.log_format, sample.modified), sample.text)
    return draft, replace(reading, warnings=[*reading.warnings, *draft.doubts])


def _with_levels(sample: Sample, known: Evidence) -> tuple[Draft, Evidence] | tuple[None, None]:
    """Return a draft that reads several levels where a known format reads one, as of MySQL's log as syslog."""
    try:
        draft, drafted = _drafted(sample)
    except (NoDraftError, NeedsSparkError, ValidationError):
        return None, None
    return (draft, drafted) if len(drafted.levels) > 1 and drafted.share >= known.share else (None, None)
