"""This is where a lake is looked at for a report. It takes no lock, and changes nothing.

What cannot be looked at, such as a table whose files are gone, is said on the page, beside all that can be. A source or
a database that does not answer is a state like another.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from pyspark.sql import SparkSession

from oncelake.common import tables
from oncelake.common.errors import OncelakeError, SourceError
from oncelake.common.explain import explain, jvm_ended
from oncelake.common.lake import QUARANTINE, Table
from oncelake.engine.chain import Chain
from oncelake.engine.graph import Stage
from oncelake.engine.start_gate import unfinished
from oncelake.exactly_once.lease import writing
from oncelake.exactly_once.positions import SourcePosition
from oncelake.observe.record import LOOK, BatchRecord, record
from oncelake.observe.report.facts import BatchFacts, Facts, Partition, ProofFacts, ReasonFacts, StageFacts, TableFacts
from oncelake.observe.report.lines import late_lines, lines_over_time
from oncelake.observe.report.versions import masked, settings_summary, versions
from oncelake.observe.status import stage_status
from oncelake.proof.link import Link
from oncelake.proof.prove import Proof
from oncelake.quality.reasons import reasons

T = TypeVar("T")
AWAY = "source away"
LEFT_OUT = ProofFacts("left out")


@dataclass
class Collector:
    """Collects the facts of a lake at one moment.

    Attributes:
        troubles: what could not be looked at, and why.
    """

    chain: Chain
    spark: SparkSession
    troubles: dict[str, str] = field(default_factory=dict)

    def facts(self, proof: ProofFacts) -> Facts:
        """Collect all that a page tells beside the proof; the last tables first, as rows go on while it is looked."""
        chain = self.chain
        there = [target.table for stage in chain.stages for target in stage.writes]
        found = [self._table(table) for table in reversed(there)]
        facts = Facts(
            at_ms=now_ms(),
            lake=chain.lake.root if chain.lake.catalog is None else chain.lake.catalog,
            source=chain.kind.words_with_place,
            proof=proof,
            writing=writing(chain.lake),
            tables=tuple(each for each in reversed(found) if each),
            stages=tuple(self._stages()),
            lines=self._try("lines over time", lambda: lines_over_time(chain, self.spark)),
            late=self._try("late lines", lambda: late_lines(chain, self.spark)),
            batches=self._try("batches", lambda: tuple(_batches(record(chain)))) or (),
            look=LOOK,
            reasons=self._try("quarantine", self._reasons) or (),
            versions=versions(self.spark),
            settings=settings_summary(chain),
            begun=unfinished(chain),
            troubles=self.troubles,
        )
        told: Facts = masked(facts)
        return told

    def _try(self, part: str, look: Callable[[], T]) -> T | None:
        try:
            return look()
        except Exception as error:
            self.troubles[part] = why(error)
            return None

    def _stages(self) -> Iterator[StageFacts]:
        for stage in self.chain.stages:
            found = self._try(stage.name, partial(stage_facts, self.chain, stage))
            if found is not None:
                yield found

    def _table(self, table: Table) -> TableFacts | None:
        commit_log = self.chain.commit_log(table, at_one_moment=True)
        version = commit_log.newest()
        if version is None:
            return None
        commit = commit_log.commit(version)
        told = TableFacts(str(table), None, version, commit.timestamp if commit else 0)
        return self._try(str(table), lambda: self._measured(told, table)) or told

    def _measured(self, told: TableFacts, table: Table) -> TableFacts:
        at = self.chain.lake.at(table)
        detail = tables.opened(self.spark, at).detail().select("numFiles", "sizeInBytes").collect()[0]
        rows = tables.read_version(self.spark, at, told.version).count()
        return replace(told, rows=rows, files=detail[0], size=detail[1])

    def _reasons(self) -> tuple[ReasonFacts, ...]:
        if self.chain.commit_log(QUARANTINE).newest() is None:
            return ()
        found = reasons(tables.read(self.spark, self.chain.lake.at(QUARANTINE)))
        return tuple(ReasonFacts(each.rule, each.column, each.lines, tuple(each.samples)) for each in found)


def why(error: Exception) -> str:
    """Say in one line why something could not be looked at.

    Raises:
        Py4JError: Spark itself is gone, so nothing more can be looked at.
    """
    if jvm_ended(error):
        raise error
    return str(error) if isinstance(error, OncelakeError) else explain(error).split("; ")[0]


def now_ms() -> int:
    """Give the time, in milliseconds since 1970."""
    return int(datetime.now(UTC).timestamp() * 1000)


def _batches(found: dict[str, list[BatchRecord]]) -> Iterator[BatchFacts]:
    for each in (batch for batches in found.values() for batch in batches):
        quality = each.quality
        yield BatchFacts(
            stage=each.stage,
            batch_id=each.batch_id,
            committed_ms=each.committed_ms,
            seconds=each.seconds,
            rows=sum(each.rows.values()),
            freshness=each.freshness,
            waiting=each.waiting,
            refused=quality.get("rules", {}),
            lines=quality.get("lines", 0),
            warned=tuple(quality.get("warned", ())),
            lost=each.lost,
        )


def stage_facts(chain: Chain, stage: Stage) -> StageFacts:
    """Look at one stage, and where it stands as its first table tells it."""
    ends: Mapping[str, int] = {}
    try:
        state = chain.stage_state(stage)
    except SourceError as error:
        told = StageFacts(stage.name, AWAY, may_start=False, detail=f"{stage.name}: {AWAY}: {error}")
        table_state = chain.commit_log(stage.tables[0]).state()
    else:
        status, table_state, ends = stage_status(state), state.first, state.source.ends()
        told = StageFacts(status.stage, status.state, status.may_start, status.detail, warnings=tuple(status.warnings))
        told = replace(told, backlog=status.backlog, backlog_unit=status.backlog_unit)
    if table_state.last is None:
        return replace(told, position="before the first batch")
    at = table_state.end
    found = SourcePosition.parse(at)
    offsets = sorted((int(number), int(offset)) for number, offset in (found.partitions() if found else {}).items())
    return replace(
        told,
        batch_id=table_state.batch_id,
        committed_ms=table_state.last.timestamp or None,
        rows=table_state.rows,
        position=(found.words(str(stage.reads)) if found else None) or at or "",
        partitions=tuple(Partition(number, offset, ends.get(str(number))) for number, offset in offsets),
    )


def prove(chain: Chain, spark: SparkSession) -> ProofFacts:
    """Follow every link that no earlier proof covers; see `oncelake.proof.prove`."""
    began, links, said = time.monotonic(), list[Link](), ""
    proof = Proof(chain, spark)
    try:
        for link in proof.links():
            links.append(link)
    except Exception as error:
        said = why(error)
    seconds = round(time.monotonic() - began, 1)
    return ProofFacts("not possible" if said else "made", now_ms(), seconds, proof.lines, tuple(links), said)
