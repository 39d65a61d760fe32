"""This is where a lake is looked at for a report. It takes no lock, and changes nothing.

What cannot be looked at, such as a table whose files are gone, is said on the page, beside all that can be.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from pyspark.sql import SparkSession

from oncelake.common import tables
from oncelake.common.errors import OncelakeError
from oncelake.common.explain import explain, jvm_ended
from oncelake.common.lake import QUARANTINE, Table
from oncelake.engine.chain import Chain
from oncelake.engine.start_gate import unfinished
from oncelake.exactly_once.lease import writing
from oncelake.observe.record import LOOK, BatchRecord, record
from oncelake.observe.report.facts import BatchFacts, Facts, ProofFacts, ReasonFacts, StageFacts, TableFacts
from oncelake.observe.report.late import late_lines
from oncelake.observe.report.lines import lines_over_time
from oncelake.observe.report.positions import stage_facts
from oncelake.observe.report.versions import masked, settings_summary, versions
from oncelake.quality.reasons import reasons

T = TypeVar("T")


@dataclass
class Look:
    """One look at a lake.

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
        return TableFacts(told.name, rows, told.version, told.committed_ms, detail[0], detail[1])

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
