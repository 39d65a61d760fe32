"""This is where it is declared what a report knows: plain values, so that a page is made and tested without Spark."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from oncelake.proof.link import Link

# The levels whose share the page tells as errors.
ERRORS = ("ERROR", "FATAL")


@dataclass(frozen=True)
class TableFacts:
    """One table of the lake as it is now.

    Attributes:
        rows: rows that are in it; None where they could not be counted.
        version: its newest version.
        committed_ms: when that was committed, in milliseconds since 1970.
        files: data files of that version, and `size` their bytes.
    """

    name: str
    rows: int | None
    version: int
    committed_ms: int
    files: int | None = None
    size: int | None = None


@dataclass(frozen=True)
class Partition:
    """Where a stage stands in one Kafka partition; `end` is None where the broker does not answer."""

    number: int
    next_offset: int
    end: int | None


@dataclass(frozen=True)
class StageFacts:
    """One stage: what `status` and `doctor` say of it, and its position in words.

    Attributes:
        state: the state's name, `source away` where the source does not answer.
        may_start: whether `run` would start it.
        detail: what was seen; where it may not start, what to do.
        rows: rows that the chain put into its first table.
        committed_ms: when its last batch was committed.
        position: up to where it has read its input, in words.
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
        starts: the bins' starts that have lines, in seconds since 1970, ascending.
        levels: per level the lines in each of these bins.
    """

    table: str
    seconds: int
    starts: tuple[int, ...]
    levels: Mapping[str, tuple[int, ...]]

    @property
    def totals(self) -> dict[str, int]:
        """Lines per level."""
        return {level: sum(counts) for level, counts in self.levels.items()}

    @property
    def errors(self) -> list[int]:
        """Lines of level ERROR or FATAL per bin."""
        found = [counts for level, counts in self.levels.items() if level in ERRORS]
        return [sum(each) for each in zip(*found, strict=True)] if found else [0] * len(self.starts)

    @property
    def all(self) -> list[int]:
        """Lines of all levels per bin."""
        return [sum(each) for each in zip(*self.levels.values(), strict=True)]


@dataclass(frozen=True)
class LateFacts:
    """Lines whose time is before the latest that an earlier batch had taken in.

    Attributes:
        lines: all lines of silver.
        by: per span of lateness, in words, how many lines.
        most_seconds: how late the latest line was.
        batches: in how many batches there were late lines.
    """

    lines: int
    by: Mapping[str, int]
    most_seconds: int
    batches: int

    @property
    def late(self) -> int:
        """Late lines."""
        return sum(self.by.values())


@dataclass(frozen=True)
class ProofFacts:
    """What a proof came to.

    Attributes:
        made: whether one was made to its end, was left out on request, or could not be made.
        at_ms: when it ended.
        said: why it could not be made.
        behind: whether tables have commits that came after it.
    """

    made: Literal["made", "left out", "not possible"]
    at_ms: int = 0
    seconds: float = 0
    lines: int = 0
    links: tuple[Link, ...] = ()
    said: str = ""
    behind: bool = False

    @property
    def holds(self) -> bool:
        """Whether no link was found that does not hold."""
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
    """One rule that lines in quarantine broke, with a few of them."""

    rule: str
    column: str
    lines: int
    samples: tuple[str, ...]


@dataclass(frozen=True)
class Facts:
    """All that a page tells of one lake at one moment.

    Attributes:
        at_ms: when the lake was looked at.
        writing: who is writing the lake: a process, `` when nobody is, None where that cannot be told.
        tables: those that are there, in the data's order.
        look: how many commits of each table were read for `batches`.
        begun: what was begun and not finished, and what finishes it.
        troubles: per part of the page that could not be looked at, why not.
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
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    begun: str | None = None
    troubles: Mapping[str, str] = field(default_factory=dict)

    def table(self, name: str) -> TableFacts | None:
        """Find a table by its name, as `silver.quarantine`."""
        return next((each for each in self.tables if each.name == name), None)

    def rows(self, name: str) -> int | None:
        """Give a table's rows, 0 where there is no table; None where they could not be counted."""
        found = self.table(name)
        return found.rows if found else 0

    @property
    def last_commit_ms(self) -> int | None:
        """When the newest batch of any stage was committed."""
        return max((stage.committed_ms for stage in self.stages if stage.committed_ms), default=None)

    def to_dict(self) -> dict[str, Any]:
        """Give the facts for JSON."""
        return asdict(self)
