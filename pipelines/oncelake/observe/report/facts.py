"""Facts of a report, as plain values, so a page can be rendered and tested without Spark."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from oncelake.common.lake import BRONZE
from oncelake.exactly_once.link import Link
from oncelake.observe.alerts.state import AlertStatus

# The levels that the page counts as errors.
ERRORS = ("ERROR", "FATAL")
# At most this many groups of a measure are drawn one by one.
GROUPS = 5


@dataclass(frozen=True)
class TableFacts:
    """One table of the lake in its newest version.

    Attributes:
        rows: its number of rows; None if they could not be counted.
        version: the newest version.
        committed_ms: when that version was committed, in milliseconds since 1970.
        files: the number of its data files; None if not known.
        size: their total size in bytes; None if not known.
        lines: the lines that the rows come from; None if each row is one.
    """

    name: str
    rows: int | None
    version: int
    committed_ms: int
    files: int | None = None
    size: int | None = None
    lines: int | None = None


@dataclass(frozen=True)
class Partition:
    """A stage's position in one Kafka partition; `end` is None if the broker does not answer.

    Attributes:
        number: the partition; of several topics, `topic/partition`.
    """

    number: int | str
    next_offset: int
    end: int | None


@dataclass(frozen=True)
class StageFacts:
    """One stage: its state as in `status` and `doctor`, and its position in words.

    Attributes:
        state: the state's name; `source away` if the source does not answer.
        may_start: True if `run` would start it.
        detail: what was found; if it may not start, also what to do.
        rows: rows that the chain wrote to its first table.
        committed_ms: when its last batch was committed, in milliseconds since 1970.
        position: how far it has read its input, in words.
    """

    stage: str
    state: str
    may_start: bool
    detail: str
    batch_id: int | None = None
    rows: int = 0
    backlog: int | None = None
    backlog_unit: str = "rows"
    committed_ms: int | None = None
    position: str = ""
    partitions: tuple[Partition, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class LinesFacts:
    """Lines over time.

    Attributes:
        table: the table that was counted.
        seconds: the length of a bin.
        starts: the start of each bin that has lines, in seconds since 1970, ascending.
        levels: per level, the number of lines in each of these bins.
        key: the gold table's column of the level, if a bin is one of its windows; otherwise empty.
    """

    table: str
    seconds: int
    starts: tuple[int, ...]
    levels: Mapping[str, tuple[int, ...]]
    key: str = ""

    @property
    def totals(self) -> dict[str, int]:
        """Lines per level."""
        return {level: sum(counts) for level, counts in self.levels.items()}

    @property
    def errors(self) -> list[int]:
        """Lines of level ERROR or FATAL per bin."""
        of_errors = [counts for level, counts in self.levels.items() if level in ERRORS]
        return [sum(counts) for counts in zip(*of_errors, strict=True)] if of_errors else [0] * len(self.starts)

    @property
    def all(self) -> list[int]:
        """Lines of all levels per bin."""
        return [sum(bin_counts) for bin_counts in zip(*self.levels.values(), strict=True)]


@dataclass(frozen=True)
class LateFacts:
    """Lines whose time is before the latest time in an earlier batch.

    Attributes:
        lines: the number of lines in silver.
        by: the number of late lines per span of lateness; the key is the span in words.
        most_seconds: the largest lateness, in seconds.
        batches: the number of batches with late lines.
    """

    lines: int
    by: Mapping[str, int]
    most_seconds: int
    batches: int

    @property
    def late(self) -> int:
        """The number of late lines."""
        return sum(self.by.values())


@dataclass(frozen=True)
class ProofFacts:
    """The result of a proof.

    Attributes:
        made: `made` if the proof ran to its end, `left out` if it was skipped, `not possible` if it did not finish.
        at_ms: when it ended, in milliseconds since 1970.
        seconds: how long it took.
        lines: the number of lines that it counted.
        links: the links that it checked.
        said: why it did not finish.
        behind: True if tables have commits that it does not cover.
        in_records: the lines that the records have; None if each is one line.
    """

    made: Literal["made", "left out", "not possible"]
    at_ms: int = 0
    seconds: float = 0
    lines: int = 0
    links: tuple[Link, ...] = ()
    said: str = ""
    behind: bool = False
    in_records: int | None = None

    @property
    def holds(self) -> bool:
        """Return True if every checked link holds."""
        return all(link.holds for link in self.links)


@dataclass(frozen=True)
class BatchFacts:
    """One batch of one stage; see `oncelake.observe.record`."""

    stage: str
    batch_id: int
    committed_ms: int
    seconds: float
    rows: int
    freshness: float | None
    waiting: int | None
    refused: Mapping[str, int] = field(default_factory=dict)
    lines: int = 0
    warned: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / max(self.seconds, 0.001)


@dataclass(frozen=True)
class ReasonFacts:
    """One rule that lines in quarantine broke, with sample lines."""

    rule: str
    column: str
    lines: int
    samples: tuple[str, ...]


# The time that decides in which period something counts.
By = Literal["log time", "ingest time", "commit time"]


@dataclass(frozen=True)
class ChangeFacts:
    """One figure in the period and in the period of the same length before it.

    Attributes:
        name: what was counted or measured.
        meaning: the same in words for a reader who does not know the terms.
        unit: of both values.
        by: which time of a line or batch decides the period in which it counts.
        value: in the period; None if there is none, or if it is not known.
        before: in the period before.
    """

    name: str
    meaning: str
    unit: Literal["lines", "percent", "seconds"]
    by: By
    value: float | None
    before: float | None


@dataclass(frozen=True)
class MessageFacts:
    """The messages of one template in a peak.

    Attributes:
        template: the text that they share, with placeholders for what differs.
        lines: how many of the peak's read lines they are.
        example: one of these messages.
        trace: the command that shows the way of one of these lines; None if the line cannot be written on a page.
    """

    template: str
    lines: int
    example: str
    trace: str | None = None


@dataclass(frozen=True)
class PeakFacts:
    """A span of time with many errors.

    Attributes:
        start: its start, in seconds since 1970.
        seconds: its length.
        errors: its lines of level ERROR or FATAL.
        lines: its lines of all levels.
        read: how many of its errors were read and grouped by template; at most a fixed number.
        messages: their most frequent templates.
    """

    start: int
    seconds: int
    errors: int
    lines: int
    read: int = 0
    messages: tuple[MessageFacts, ...] = ()


@dataclass(frozen=True)
class PeriodFacts:
    """What happened in a period, against the period of the same length before it.

    Attributes:
        since_ms: the period's start, in milliseconds since 1970.
        until_ms: its end, which is not part of it.
        before_ms: the start of the period before, which ends at `since_ms`.
        table: the table whose lines were counted.
        seconds: the length of that table's windows; a window counts in the period in which it starts.
        changes: what changed.
        peaks: the spans with the most errors, the highest first.
    """

    since_ms: int
    until_ms: int
    before_ms: int
    table: str
    seconds: int
    changes: tuple[ChangeFacts, ...] = ()
    peaks: tuple[PeakFacts, ...] = ()


@dataclass(frozen=True)
class MeasureFacts:
    """One measure of a gold table over time, for the groups with the most, and for all other groups together.

    Attributes:
        table: the gold table.
        measure: the measure's name.
        how: the measure as declared, with the table's windows and keys.
        function: the measure's function, such as `count`.
        seconds: the length of a bin.
        starts: the start of each bin with rows, in seconds since 1970, ascending.
        groups: per group, its keys in words, and its value in each of these bins; None where it has none.
        others: the same of all other groups together; empty if there are none.
    """

    table: str
    measure: str
    how: str
    function: str
    seconds: int
    starts: tuple[int, ...]
    groups: Mapping[str, tuple[float | None, ...]]
    others: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Facts:
    """All facts of one lake at one moment.

    Attributes:
        at_ms: when the facts were collected, in milliseconds since 1970.
        writing: the process that holds the lock, empty if there is none, None if the store has no lock.
        tables: the existing tables, in the order in which the data passes them.
        look: at most this many commits of each table were read for `batches`.
        masked: per rule that masks personal data, how many matches bronze's lines had.
        period: what happened in the period that was asked for; None if none was.
        measures: the measures of the user's gold tables; with a period, in that period.
        not_drawn: measures that are not among them, each with the reason.
        begun: an unfinished rebuild or replay, and the command that finishes it.
        alerts: the declared alerts, as the last look at each left them.
        troubles: per part of the page that could not be read, the reason.
    """

    at_ms: int
    lake: str
    source: str
    proof: ProofFacts
    writing: str | None = None
    tables: tuple[TableFacts, ...] = ()
    stages: tuple[StageFacts, ...] = ()
    lines: LinesFacts | None = None
    late: LateFacts | None = None
    batches: tuple[BatchFacts, ...] = ()
    look: int = 0
    reasons: tuple[ReasonFacts, ...] = ()
    masked: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    period: PeriodFacts | None = None
    measures: tuple[MeasureFacts, ...] = ()
    not_drawn: tuple[str, ...] = ()
    begun: str | None = None
    alerts: tuple[AlertStatus, ...] = ()
    troubles: Mapping[str, str] = field(default_factory=dict)

    def table(self, name: str) -> TableFacts | None:
        """Return the table with a name, such as `silver.quarantine`; None if it does not exist."""
        return next((table for table in self.tables if table.name == name), None)

    def rows(self, name: str) -> int | None:
        """Return a table's number of rows: 0 if the table does not exist, None if they could not be counted."""
        table = self.table(name)
        return table.rows if table else 0

    def lines_of(self, name: str) -> int | None:
        """Return the lines that a table's rows come from: 0 if it does not exist, None if they could not be counted."""
        table = self.table(name)
        return self.rows(name) if table is None or table.lines is None else table.lines

    @property
    def ingested(self) -> int | None:
        """The number of lines in all tables of bronze; None if they could not be counted in one of them."""
        rows = [table.rows for table in self.tables if table.name.startswith(f"{BRONZE.layer}.")]
        return None if None in rows else sum(count or 0 for count in rows)

    @property
    def last_commit_ms(self) -> int | None:
        """When the newest batch of any stage was committed, in milliseconds since 1970."""
        return max((stage.committed_ms for stage in self.stages if stage.committed_ms), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as a dict for JSON."""
        return asdict(self)
