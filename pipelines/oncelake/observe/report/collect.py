"""Collection of a report's facts from a lake, without a lock and without changes.

If a part cannot be read, such as a table whose files are gone, the page shows the error in addition to all other parts.
A source or a database that does not answer is a state of its stage, not an error.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from oncelake.bronze.mask import MASKED
from oncelake.common import tables
from oncelake.common.errors import OncelakeError, SourceError
from oncelake.common.explain import cause_of, jvm_ended
from oncelake.common.lake import QUARANTINE, Table
from oncelake.common.table_rows import FileStatistics, TableRows, TableVersion
from oncelake.engine.chain import Chain
from oncelake.engine.graph import Stage
from oncelake.engine.preflight import built_by
from oncelake.engine.start_gate import unfinished
from oncelake.exactly_once.batch import CommittedBatch
from oncelake.exactly_once.lease import writing
from oncelake.exactly_once.link import Link
from oncelake.observe.alerts.alert_watch import alert_states
from oncelake.observe.record import LOOK, record
from oncelake.observe.report.facts import (
    BatchFacts,
    Facts,
    MeasureFacts,
    Partition,
    PeriodFacts,
    ProofFacts,
    ReasonFacts,
    StageFacts,
    TableFacts,
)
from oncelake.observe.report.late import late_lines
from oncelake.observe.report.lines import lines_over_time
from oncelake.observe.report.measures import PLOTS, Measures
from oncelake.observe.report.period import Period
from oncelake.observe.report.period_events import PeriodEvents
from oncelake.observe.report.remembered import Remembered
from oncelake.observe.report.versions import masked, settings_summary, versions
from oncelake.observe.status import AWAY, stage_status
from oncelake.proof.prove import Proof
from oncelake.quality.reasons import reasons
from oncelake.silver.parsing.events import IS_FIRST
from oncelake.silver.schema import EVENT_INDEX
from oncelake.sources.registry import position_of

T = TypeVar("T")
LEFT_OUT = ProofFacts("left out")
_FIRST_ROWS = f"SELECT count(*) AS lines FROM {{rows}} t WHERE {IS_FIRST}"
_MATCHES = f"""
SELECT e.entry.key AS rule, CAST(sum(e.entry.value) AS BIGINT) AS matches
FROM (SELECT explode(map_entries(t.{MASKED})) AS entry FROM {{rows}} t) e GROUP BY e.entry.key
"""


@dataclass
class Collector:
    """Collects the facts of a lake at one moment.

    Attributes:
        chain: the chain.
        rows: answers queries over the tables as they are now; it starts Spark for what needs it.
        period: the period to report on; None for all that is in the lake.
        remembered: what earlier looks found in the tables' data files.
        troubles: per part that could not be read, the reason.
    """

    chain: Chain
    rows: TableRows
    period: Period | None = None
    remembered: Remembered = field(default_factory=Remembered)
    troubles: dict[str, str] = field(default_factory=dict)

    def facts(self, proof: ProofFacts) -> Facts:
        """Collect all facts of a page, with a given proof.

        The last tables are read first: a running chain moves rows forward while the tables are read.
        """
        chain = self.chain
        declared = [target.table for stage in chain.stages for target in stage.writes]
        table_facts = [self._table(table) for table in reversed(declared)]
        batches = self._try("batches", lambda: tuple(_batches(record(chain)))) or ()
        drawn = Measures(chain, self.rows, self.period)
        measures = tuple(self._measures(drawn))
        facts = Facts(
            at_ms=_now_ms(),
            lake=chain.lake.root if chain.lake.catalog is None else chain.lake.catalog,
            source=", ".join(kind.words_with_place for kind in chain.kinds.values()),
            proof=proof,
            writing=writing(chain.lake),
            tables=tuple(table for table in reversed(table_facts) if table),
            stages=tuple(self._stages()),
            lines=self._try("lines over time", lambda: lines_over_time(chain, self.rows, self.period)),
            late=self._try("late lines", lambda: late_lines(chain, self.rows, self.remembered)),
            batches=batches,
            look=LOOK,
            reasons=self._try("quarantine", self._reasons) or (),
            masked=self._try("masked data", self._masked) or {},
            versions=versions(chain.spark),
            settings=settings_summary(chain),
            period=self._period(batches),
            measures=measures,
            not_drawn=tuple(drawn.not_drawn),
            begun=unfinished(chain),
            alerts=tuple(self._try("alerts", lambda: alert_states(chain)) or ()),
            troubles=self.troubles,
        )
        shown: Facts = masked(facts)
        return shown

    def _try(self, part: str, look: Callable[[], T]) -> T | None:
        try:
            return look()
        except Exception as error:
            self.troubles[part] = why(error)
            return None

    def _period(self, batches: Sequence[BatchFacts]) -> PeriodFacts | None:
        period = self.period
        if period is None:
            return None
        return self._try("what happened", lambda: PeriodEvents(self.chain, self.rows, period).facts(batches))

    def _measures(self, drawn: Measures) -> Iterator[MeasureFacts]:
        room = PLOTS
        for name in self.chain.settings.gold:
            measures = self._try(f"measures of gold.{name}", partial(self._drawn, drawn, name, room)) or ()
            room -= len(measures)
            yield from measures

    def _drawn(self, drawn: Measures, name: str, room: int) -> tuple[MeasureFacts, ...]:
        return tuple(drawn.of(name, built_by(self.chain, name), room))

    def _stages(self) -> Iterator[StageFacts]:
        for stage in self.chain.stages:
            facts = self._try(stage.name, partial(_stage_facts, self.chain, stage))
            if facts is not None:
                yield facts

    def _table(self, table: Table) -> TableFacts | None:
        commit_log = self.chain.commit_log(table, at_one_moment=True)
        version = commit_log.newest()
        if version is None:
            return None
        commit = commit_log.commit(version)
        facts = TableFacts(str(table), None, version, commit.timestamp if commit else 0)
        return self._try(str(table), lambda: self._measured(facts, table)) or facts

    def _measured(self, facts: TableFacts, table: Table) -> TableFacts:
        at = self.chain.lake.at(table)
        files, version = self.rows.files(at, facts.version), (at, facts.version)
        lines = None
        if EVENT_INDEX in self.rows.columns(*version):
            lines = sum(row["lines"] for row in self._added_up(f"lines of {table}", _FIRST_ROWS, version, files))
        counts = [file.rows for file in files] if files is not None else [None]
        if files is None or None in counts:
            detail = tables.opened(self.rows.spark(), at).detail().select("numFiles", "sizeInBytes").collect()[0]
            rows = self.rows.frame(*version).count()
            return replace(facts, rows=rows, files=detail[0], size=detail[1], lines=lines)
        size = sum(file.size for file in files)
        return replace(facts, rows=sum(filter(None, counts)), files=len(files), size=size, lines=lines)

    def _added_up(
        self, question: str, text: str, table: TableVersion, files: Sequence[FileStatistics] | None
    ) -> list[dict[str, Any]]:
        """Return the answers to a query over parts of a table's data files, each read only once."""

        def read(names: frozenset[str]) -> list[dict[str, Any]] | None:
            return self.rows.without_spark(text, {"rows": table}, files=names)

        names = [file.name for file in files] if files is not None else None
        parts = self.remembered.of(question, names, read) if names is not None else None
        if parts is None:
            return self.rows.records(text, {"rows": table})
        return [row for part in parts.values() for row in part]

    def _masked(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for table, kind in self.chain.kinds.items():
            at = self.chain.lake.at(table)
            if not kind.rules or self.chain.commit_log(table).newest() is None or MASKED not in self.rows.columns(at):
                continue
            for row in self._added_up(f"matches in {table}", _MATCHES, (at, None), self.rows.files(at)):
                counts[row["rule"]] += row["matches"]
        return dict(sorted(counts.items()))

    def _reasons(self) -> tuple[ReasonFacts, ...]:
        if self.chain.commit_log(QUARANTINE).newest() is None:
            return ()
        broken_rules = reasons(self.rows, self.chain.lake.at(QUARANTINE))
        return tuple(
            ReasonFacts(broken.rule, broken.column, broken.lines, tuple(broken.samples)) for broken in broken_rules
        )


def why(error: Exception) -> str:
    """Return in one line why something could not be read.

    Raises:
        Py4JError: Spark itself is gone, so nothing more can be read.
    """
    if jvm_ended(error):
        raise error
    return str(error) if isinstance(error, OncelakeError) else cause_of(error)


def _now_ms() -> int:
    """Return the current time in milliseconds since 1970."""
    return int(datetime.now(UTC).timestamp() * 1000)


def _batches(records: dict[str, list[CommittedBatch]]) -> Iterator[BatchFacts]:
    for batch in (batch for batches in records.values() for batch in batches):
        yield BatchFacts(
            stage=batch.stage,
            batch_id=batch.batch_id,
            committed_ms=batch.committed_ms,
            seconds=batch.seconds,
            rows=sum(batch.rows.values()),
            freshness=batch.freshness,
            waiting=batch.waiting,
            refused=batch.refused,
            lines=batch.refused_lines,
            warned=tuple(batch.warned),
            lost=tuple(batch.lost),
        )


def _stage_facts(chain: Chain, stage: Stage) -> StageFacts:
    """Return the facts of one stage; its position comes from the newest batch in its first table."""
    ends: Mapping[str, int] = {}
    try:
        state = chain.stage_state(stage)
    except SourceError as error:
        facts = StageFacts(stage.name, AWAY, may_start=False, detail=f"{stage.name}: {AWAY}: {error}")
        table_state = chain.commit_log(stage.tables[0]).state()
    else:
        status, table_state, ends = stage_status(state), state.first, state.source.ends()
        facts = StageFacts(status.stage, status.state, status.may_start, status.detail, warnings=tuple(status.warnings))
        facts = replace(facts, backlog=status.backlog, backlog_unit=status.backlog_unit)
    if table_state.last is None:
        return replace(facts, position="before the first batch")
    at = table_state.end
    position = position_of(at)
    offsets = position.partitions() if position else {}
    topics = {name.rpartition("/")[0] for name in offsets}
    numbers = {name: int(name.rpartition("/")[2]) if len(topics) == 1 else name for name in offsets}
    return replace(
        facts,
        batch_id=table_state.batch_id,
        committed_ms=table_state.last.timestamp or None,
        rows=table_state.rows,
        position=(position.words(", ".join(map(str, stage.reads))) if position else None) or at or "",
        partitions=tuple(
            Partition(numbers[name], offsets[name], ends.get(name)) for name in sorted(offsets, key=_by_number)
        ),
    )


def _by_number(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("/")
    return topic, int(number)


def prove(chain: Chain, rows: TableRows) -> ProofFacts:
    """Run a proof of all that no earlier proof covers; see `oncelake.proof.prove`."""
    began, links, failure = time.monotonic(), list[Link](), ""
    proof = Proof(chain, rows)
    try:
        for link in proof.links():
            links.append(link)
    except Exception as error:
        failure = why(error)
    seconds = round(time.monotonic() - began, 1)
    return ProofFacts(
        "not possible" if failure else "made",
        _now_ms(),
        seconds,
        proof.lines,
        tuple(links),
        failure,
        in_records=proof.in_records,
    )
