"""Estimate how much a stage reads to build its table, and how long this takes by the lake's own batches."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from oncelake.common.lake import Table, is_name, listed_files, opened_by_delta_rs
from oncelake.common.wording import count_of, duration, size
from oncelake.engine.chain import Chain, StageState
from oncelake.engine.graph import Stage
from oncelake.exactly_once.batch import CommittedBatch
from oncelake.exactly_once.positions import TablePosition
from oncelake.observe.record import record


@dataclass(frozen=True)
class Work:
    """What a stage reads.

    Attributes:
        reads: the table that it reads, or `the source`.
        count: how much, in `unit`; None if it is not known.
        unit: rows of a table, or what the source counts.
        versions: the versions of the table; None for a source.
        bytes: the size of the table's files, or of the source's text; None if it is not known.
        seconds: how long this takes without Spark's start, at the rate of the largest batch; None if there was none.
    """

    reads: str
    count: int | None
    unit: str
    versions: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        """Return the work in words."""
        if not self.count:
            return f"{self.reads}, {time_words(self.seconds)}"
        parts = [count_of(self.count, self.unit.removesuffix("s"))]
        parts += [count_of(self.versions, "version")] if self.versions is not None else []
        parts += [size(self.bytes)] if self.bytes is not None else []
        return f"{', '.join(parts)} of {self.reads}, {time_words(self.seconds)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the work for JSON."""
        return asdict(self)


def time_words(seconds: float | None) -> str:
    """Return how long work takes."""
    return "time not known" if seconds is None else f"about {duration(round(max(seconds, 1)))}"


@dataclass(frozen=True)
class Rate:
    """How fast a stage was in its largest batch: rows of its input, and seconds."""

    rows: int
    seconds: float

    def of(self, rows: int | None) -> float | None:
        """Return the seconds for a number of rows; None for an unknown number."""
        return None if rows is None else rows * self.seconds / self.rows


@dataclass(frozen=True)
class Estimates:
    """The work of stages, by what the lake has measured."""

    chain: Chain

    @cached_property
    def rates(self) -> Mapping[str, Rate]:
        """The rate of each stage that has one, by name."""
        return _rates(self.chain)

    def of_stage(self, stage: Stage, state: StageState | None = None) -> Work:
        """Return the work of building the tables of a stage from all of its input."""
        rate = self._rate(stage)
        if not stage.reads:
            read = self.chain.commit_log(stage.tables[0]).state().rows
            seconds = rate.of(read) if rate is not None and read else None
            if state is None:
                return Work("the source", None, "files", seconds=seconds)
            held, text = state.source.backlog(None), state.source.waiting_bytes(None)
            return Work("the source", held.count, held.unit, None, text if held.unit != "bytes" else None, seconds)
        works = [self.of_table(table) for table in stage.reads]
        first, *others = works
        count, sizes = sum(work.count or 0 for work in works), [work.bytes for work in works]
        work = replace(
            first,
            reads=", ".join(map(str, stage.reads)),
            count=count,
            versions=first.versions if not others else None,
            bytes=sum(size or 0 for size in sizes) if None not in sizes else None,
        )
        return replace(work, seconds=rate.of(count) if rate is not None and count else None)

    def of_table(self, table: Table) -> Work:
        """Return a table as what a stage reads; the time is not known."""
        log, at = self.chain.commit_log(table), self.chain.lake.at(table)
        newest = log.newest()
        opened = opened_by_delta_rs(at) if newest is not None and not is_name(at) else None
        total = None
        if opened is not None:
            total = sum(listed_files(opened)["size_bytes"].to_pylist())
        return Work(str(table), log.state().rows, "rows", None if newest is None else newest + 1, total)

    def together(self, stages: Sequence[Stage], states: Mapping[str, StageState]) -> Work:
        """Return the work of building the tables of several stages, as the first one's, with the time of all.

        The stages of one layer run beside each other.
        """
        works = [self.of_stage(stage, states.get(stage.name)) for stage in stages]
        by_layer: dict[str, list[float | None]] = {}
        for stage, work in zip(stages, works, strict=True):
            by_layer.setdefault(stage.layer, []).append(work.seconds)
        seconds: float | None = 0.0
        for times in by_layer.values():
            known = [time for time in times if time is not None]
            seconds = None if seconds is None or len(known) < len(times) else seconds + max(known)
        return replace(works[0], seconds=seconds)

    def _rate(self, stage: Stage) -> Rate | None:
        """Return the rate of a stage; of a new gold table, that of the slowest other one."""
        own = self.rates.get(stage.name)
        if own is not None or stage.layer != "gold":
            return own
        others = [rate for name, rate in self.rates.items() if name.startswith("gold.")]
        return max(others, key=lambda rate: rate.seconds / rate.rows, default=None)


def _rates(chain: Chain) -> dict[str, Rate]:
    batches = record(chain)
    rows = {batch.version: sum(batch.rows.values()) for batch in batches.get("silver", ())}
    passed = {
        batch.version: next(iter(batch.rows.values()), 0)
        for batch in batches.get("silver", ())
        if batch.version is not None
    }
    rates = {}
    for name, own in batches.items():
        read = [rows[batch.version] for batch in own] if name == "silver" else _input(own, passed, name)
        measured = [Rate(count, batch.seconds) for batch, count in zip(own, read, strict=True) if count]
        if measured:
            rates[name] = max(measured, key=lambda rate: rate.rows)
    return rates


def _input(batches: Sequence[CommittedBatch], passed: Mapping[int, int], stage: str) -> list[int]:
    """Return the rows that each batch of a stage read: of bronze its own, of gold those of silver's versions."""
    if not stage.startswith("gold."):
        return [sum(batch.rows.values()) for batch in batches]
    rows, first = list[int](), None
    for batch in batches:
        at = TablePosition.parse(batch.position)
        first = 0 if batch.batch_id == 0 else first
        versions = range(first, at.version) if first is not None and at is not None else range(0)
        rows.append(sum(count for version, count in passed.items() if version in versions))
        first = None if at is None else at.version
    return rows
