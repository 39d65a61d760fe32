"""Run a proof: check its links in order, from the source to the last table."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from oncelake.bronze.records import COUNT_OF_LINE_ENDS
from oncelake.common.errors import StateError
from oncelake.common.lake import QUARANTINE, SILVER, Lake, Table, bronze_of, is_local, is_name
from oncelake.common.spark.runtime import has_delta_log, is_given
from oncelake.common.table_rows import TableRows
from oncelake.engine.before_spark import SMALL_BACKLOG
from oncelake.engine.chain import Chain, StageState
from oncelake.engine.gone_files import gone_file
from oncelake.engine.graph import Stage
from oncelake.engine.markers import emptied
from oncelake.engine.preflight import built_by, is_changed
from oncelake.engine.sources import bronze_tables, refused_change
from oncelake.engine.start_gate import log_way_out, refuse_unless_finished, stage_of
from oncelake.exactly_once.files import Files, files_by
from oncelake.exactly_once.link import Link, Uncompared
from oncelake.exactly_once.log_damage import LogDamage
from oncelake.exactly_once.positions import version_of
from oncelake.exactly_once.proven import ProvenTable, read_record, write_record
from oncelake.exactly_once.span import Span, rows_in
from oncelake.proof.balance import balance, rows_read, same_lines, version_in
from oncelake.proof.data_files import data_files, exact_bounds, list_local
from oncelake.proof.events import events
from oncelake.proof.pin import PinnedLake, PinnedTable, pin_lake
from oncelake.proof.positions import PositionOrigin, follow
from oncelake.proof.recount import recount
from oncelake.proof.repeats import repeats
from oncelake.proof.result import ProofResult
from oncelake.silver.schema import EVENT_INDEX

if TYPE_CHECKING:
    from oncelake.serving.served import Served


# The size of bronze's compressed files whose text is a small backlog.
SMALL_LAKE = SMALL_BACKLOG // 4
# Settings for the proof of such a lake: planning again after each exchange would take a tenth of its time.
WHOLE_PLAN = {"spark.sql.adaptive.enabled": "false"}


def is_small(lake: Lake, sources: Iterable[str]) -> bool:
    """Return True if a lake is known to hold at most `SMALL_LAKE` bytes in bronze: its proof then takes seconds."""
    local = lake.catalog is None and is_local(lake.root)
    files = (stored for name in sources for stored in (list_local(lake.at(bronze_of(name))) if local else {}).values())
    return local and sum(file.size for file in files) <= SMALL_LAKE


@dataclass
class Proof:
    """One proof of a lake. It holds no lock and changes no table.

    Attributes:
        rows: answers queries over the tables; it starts Spark for the links that need it.
        since_ms: prove only commits made from this time on; None for all commits that no earlier proof covers.
        full: prove everything, also what was proven before.
        deep: read the source's files, or the topics' records, again.
        warn: called with a warning that does not stop the proof.
        lines: lines or records that bronze holds up to the end of the proof.
        in_records: the lines that its records have; None if no row is a record of several lines.
    """

    chain: Chain
    rows: TableRows
    since_ms: int | None = None
    full: bool = False
    deep: bool = False
    warn: Callable[[str], None] = lambda _: None
    lines: int = 0
    in_records: int | None = None
    _states: dict[str, str] = field(default_factory=dict)
    # tables that a later proof must compare from where this one did
    _unproven: set[Table] = field(default_factory=set)
    _line_ends: dict[Table, int] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        """The session; starts Spark if there is none yet."""
        return self.rows.spark()

    def result(self, link: Callable[[Link], None], began: float) -> ProofResult:
        """Return the result; raise as `links` does.

        Args:
            link: called with each link as soon as it is checked.
            began: when the work for the proof began, by the monotonic clock.
        """
        links = list[Link]()
        for checked in self.links():
            links.append(checked)
            link(checked)
        return ProofResult(links, self.lines, time.monotonic() - began, self.in_records)

    def links(self) -> Iterator[Link]:
        """Yield the links in order; stop after the first link that does not hold.

        Raises:
            StateError: a rebuild or a replay is unfinished, or the sources do not fit the lake.
            SourceError: Kafka cannot be reached.
        """
        refuse_unless_finished(self.chain)  # guard: no-proof-during-change
        changed = refused_change(self.chain)
        if changed:
            raise StateError(changed)  # guard: no-proof-of-early-change
        damaged = self._damaged_log()
        if damaged is not None:
            yield damaged
            return
        self._states = {state.stage.name: _state(state) for state in self.chain.states()}
        record = read_record(self._files, self.chain.lake.root)
        lake = pin_lake(self.chain, record, self.since_ms, full=self.full)
        self.lines = sum(pinned.span.rows_in_all for pinned in lake.bronze.values() if pinned)
        lasting: dict[str, list[Uncompared]] = {}
        for link in self._follow(lake):
            lasting.setdefault(link.table, []).extend(part for part in link.uncompared if part.lasting)
            yield link
            if not link.holds:  # guard: first-fault-ends-proof
                return
        self._count_line_ends(lake)
        self._keep(lake, record, lasting)

    def _damaged_log(self) -> Link | None:
        """Return a link for the first table whose log Spark cannot read; warn of what only others cannot read."""
        for table in (target.table for stage in self.chain.stages for target in stage.writes):
            damage = self.chain.damage(table)
            if damage:
                refuse_unless_finished(self.chain)  # a rebuild that has just begun removes tables
            if damage.stops_spark:
                return Link(f"log of {table}", str(table), False, _damaged(table, damage))
            if damage.spare:
                self.warn(_damaged(table, damage))
        return None

    def _nothing_yet(self, stage: Stage, table: Table, waits: tuple[Uncompared, ...]) -> Iterator[Link]:
        """Yield a link for lines that wait for a table that is not there; it does not hold if a rebuild removed it."""
        link = Link(f"positions of {table}", str(table), True, "no batch yet", uncompared=waits)
        if waits:
            # guard: removed-table-fails-proof
            yield replace(link, holds=False, said=_without_batch(table, waits)) if self._is_emptied(stage) else link

    # guard: emptied-table-fails-proof
    def _begun(self, stage: Stage, link: Link, pinned: PinnedTable, waits: tuple[Uncompared, ...]) -> Link:
        """Return the link of a table's positions with what waits; it does not hold if a rebuild emptied the table."""
        if not waits or pinned.span.end is not None or not link.holds or not self._is_emptied(stage):
            return link.without(*waits)
        return replace(link, holds=False, said=_without_batch(pinned.span.table, waits))

    def _is_emptied(self, stage: Stage) -> bool:
        return stage.name in emptied(self.chain)

    def _count_line_ends(self, lake: PinnedLake) -> None:
        """Count the lines of the records in bronze: the new ones, and those that an earlier proof counted."""
        kinds = {stage.tables[0]: self.chain.kind(stage) for stage in self.chain.stages if not stage.reads}
        for table, pinned in lake.bronze.items():
            if pinned is None or (table in kinds and kinds[table].records_of_lines is None):
                continue
            if not pinned.span.rows_in_all:
                continue
            span = pinned.span
            earlier = span.start.line_ends if span.start is not None and not span.whole else None
            condition = rows_in(span if earlier is not None else replace(span, includes_earlier=True))
            ends = self.rows.total(COUNT_OF_LINE_ENDS, "value", (span.path, span.version), condition)
            self._line_ends[table] = (earlier or 0) + ends
        if any(self._line_ends.values()):  # guard: proof-counts-record-lines
            self.in_records = self.lines + sum(self._line_ends.values())

    def _follow(self, lake: PinnedLake) -> Iterator[Link]:
        if not lake.all():
            notes = tuple(state for state in self._states.values() if state)
            yield Link("the lake", "", True, "no line is ingested yet: there is no table", notes)
        yield from self._removed(lake)
        for stage in self.chain.stages:
            try:
                yield from self._stage(stage, lake)
            except Exception as error:
                gone = gone_file(error, self.chain, stage)
                if gone is None:
                    raise
                refuse_unless_finished(self.chain)
                yield Link(f"rows of {stage.name}", str(stage.tables[0]), False, gone)
                return

    def _stage(self, stage: Stage, lake: PinnedLake) -> Iterator[Link]:
        if not stage.reads:
            yield from self._bronze(stage, lake.bronze[stage.tables[0]])
        elif SILVER in stage.tables:
            yield from self._silver(stage, lake)
        elif stage.served is not None:
            yield from self._served(stage, stage.served)
        else:
            yield from self._gold(stage, lake)

    def _bronze(self, stage: Stage, bronze: PinnedTable | None) -> Iterator[Link]:
        if bronze is not None:
            yield from self._table(stage, bronze)
        span = bronze.span if bronze is not None else None
        ingestion = self.chain.ingestion(stage, self.rows, span, deep=self.deep)
        yield from self.chain.kind(stage).links(ingestion)

    def _removed(self, lake: PinnedLake) -> Iterator[Link]:
        """Check the bronze tables of sources that are no longer in the settings; what they read is not compared."""
        declared = {stage.tables[0] for stage in self.chain.stages if not stage.reads}
        for table, pinned in lake.bronze.items():
            if table not in declared and pinned is not None:
                self._unproven.add(table)
                link, *files = self._checked(pinned, PositionOrigin("its source"), ())
                note = f"sources.{table.name} is not in the settings, so {table} is not compared with its source"
                span = pinned.span
                why = f"of {table}, whose source is not in the settings"
                # guard: removed-source-is-number
                parts = Uncompared.of_lines(span.rows_in_all if span.whole else span.rows, why)
                yield replace(link, notes=(*link.notes, note)).without(*parts)
                yield from files

    def _silver(self, stage: Stage, lake: PinnedLake) -> Iterator[Link]:
        silver, quarantine, duplicates = lake.silver, lake.quarantine, lake.duplicates
        waits = self._waiting_for_silver(lake)
        if silver is None:
            yield from self._nothing_yet(stage, SILVER, waits)
            return
        links = self._table(stage, silver)
        yield self._begun(stage, next(links), silver, waits).without(*self._earlier(lake))
        yield from links
        if quarantine is None:
            if silver.span.commits:
                # guard: quarantine-table-exists
                yield Link(f"positions of {QUARANTINE}", str(QUARANTINE), False, f"there is no table {QUARANTINE}")
            return
        yield from self._table(stage, quarantine, silver.span)
        if duplicates is not None:
            yield from self._table(stage, duplicates, silver.span)
        if silver.span.commits:
            beside = [quarantine.span, *([duplicates.span] if duplicates is not None else [])]
            same = same_lines(self.chain, silver.span, *beside)
            yield balance(self.rows, same.bronze, same.silver, *same.beside)
            at = same.silver.path, same.silver.version
            columns = self.rows.columns(*at)
            if EVENT_INDEX in columns:
                condition = rows_read(same.silver, same.bronze, columns).condition
                yield events(self.rows, same.silver, condition)
            if duplicates is not None:
                yield repeats(self.rows, same.bronze, same.silver, same.beside[-1])

    def _waiting_for_silver(self, lake: PinnedLake) -> tuple[Uncompared, ...]:  # guard: waiting-for-silver-is-number
        """Return the lines of bronze that silver has not read yet."""
        end, named = lake.silver.span.end if lake.silver else None, self.chain.silver.named
        ingested = [pinned for pinned in lake.bronze.values() if pinned]
        read = [
            self.chain.commit_log(pinned.span.table).rows_before(version_in(end, pinned.table_id if named else None))
            for pinned in ingested
        ]
        written = (pinned.span.lines_in_all for pinned in (lake.silver, lake.quarantine, lake.duplicates) if pinned)
        # without a commit that says how many rows silver has read, there are as many as it has written
        known = sum(written) if None in read else sum(rows or 0 for rows in read)
        return _waiting_for(SILVER, self.lines - known)

    # guard: waiting-for-gold-is-number
    def _waiting_for_gold(
        self, table: Table, gold: PinnedTable | None, silver: PinnedTable | None
    ) -> tuple[Uncompared, ...]:
        """Return the lines of silver that a gold table has not read yet."""
        read = self.chain.commit_log(SILVER).lines_up_to(version_of(gold.span.end if gold else None))
        return _waiting_for(table, silver.span.lines_in_all - read if silver else 0)

    def _earlier(self, lake: PinnedLake) -> tuple[Uncompared, ...]:  # guard: since-proof-claims-less
        """Return the lines that were committed before the time from which this proof starts."""
        if self.since_ms is None:
            return ()
        silver = sum(_lines_before(pinned) for pinned in (lake.silver, lake.quarantine, lake.duplicates))
        lines = max(sum(map(_lines_before, lake.bronze.values())), silver)
        at = datetime.fromtimestamp(self.since_ms / 1000, UTC)
        return Uncompared.of_lines(lines, f"from before {at:%Y-%m-%d %H:%M:%S} UTC")

    def _gold(self, stage: Stage, lake: PinnedLake) -> Iterator[Link]:
        gold, table = lake.gold[stage.name], stage.writes[0].table
        waits = self._waiting_for_gold(table, gold, lake.silver)
        if gold is None:
            yield from self._nothing_yet(stage, table, waits)
            return
        links = self._table(stage, gold)
        yield self._begun(stage, next(links), gold, waits)
        yield from links
        at, commit_log = version_of(gold.span.end), self.chain.commit_log(SILVER)
        is_gone = at > 0 and not commit_log.holds(commit_log.last_alike(at - 1))
        if gold.span.commits or is_gone:
            name = gold.span.table.name
            link = recount(self.rows, self.chain.lake.at(SILVER), commit_log, gold.span, built_by(self.chain, name))
            if link.uncompared:
                self._unproven.add(table)  # guard: uncompared-gold-not-recorded
            changed = (f"gold.{name} is declared otherwise now: oncelake rebuild gold.{name}",)
            yield replace(link, notes=(*link.notes, *(changed if is_changed(self.chain, name) else ())))

    def _served(self, stage: Stage, served: "Served") -> Iterator[Link]:
        if self.chain.commit_log(served.follows).newest() is None:
            return
        from oncelake.proof.served import ServedProof  # noqa: PLC0415 - SQLAlchemy, which only a served lake needs

        state = self._states[stage.name]
        # guard: served-proof-by-built-declaration
        counted = replace(served, declared=built_by(self.chain, served.table.name))
        for link in ServedProof(self.chain, self.spark, counted).links():
            yield replace(link, notes=(*link.notes, *([state] if state and link.name.startswith("position") else [])))

    def _table(self, stage: Stage, pinned: PinnedTable, first: Span | None = None) -> Iterator[Link]:
        """Check a table's positions and its data files."""
        state = self._states[stage.name]
        notes = [state] if state and first is None else []
        return self._checked(pinned, self._source(stage), notes, first)

    def _checked(
        self, pinned: PinnedTable, source: PositionOrigin, stage_notes: Iterable[str], first: Span | None = None
    ) -> Iterator[Link]:
        link, notes = follow(pinned, source, first), [*stage_notes]
        listed = not is_name(pinned.span.path) and (not is_given() or has_delta_log(self.spark))
        if not listed:
            notes.append(
                "data files are not checked: Delta does not list them here. A missing one shows when it is read"
            )
        yield replace(link, notes=(*link.notes, *notes))
        if pinned.span.version >= 0 and listed:
            yield data_files(self.rows.spark, pinned.span, self._files)
            bounds = exact_bounds(pinned.span) if self.deep else None
            if bounds is not None:
                yield bounds

    def _source(self, stage: Stage) -> PositionOrigin:
        if not stage.reads:
            return PositionOrigin(self.chain.kind(stage).name)
        of_silver = SILVER in stage.tables
        tables = tuple(self._read_table(table) for table in (bronze_tables(self.chain) if of_silver else stage.reads))
        return tables[0] if len(tables) == 1 else PositionOrigin("bronze", tables=tables)

    def _read_table(self, table: Table) -> PositionOrigin:
        commit_log = self.chain.commit_log(table)
        return PositionOrigin(str(table), commit_log.table_id(), commit_log.newest())

    def _keep(
        self, lake: PinnedLake, record: Mapping[str, ProvenTable], lasting: Mapping[str, Sequence[Uncompared]]
    ) -> None:
        """Record how far each table is proven, so that the next proof starts there."""
        proven = (pinned for pinned in lake.all() if pinned.joins and pinned.span.table not in self._unproven)
        joined = {str(pinned.span.table): pinned for pinned in proven}
        reached = {
            name: _reached(pinned, lasting.get(name, ()), self._line_ends.get(pinned.span.table))
            for name, pinned in joined.items()
        }
        tables = {**record, **{table: proven_table for table, proven_table in reached.items() if proven_table}}
        if tables == record:
            return
        try:
            write_record(self._files, self.chain.lake.root, tables, datetime.now(UTC))
        except (OSError, Py4JJavaError) as error:
            message = str(error).splitlines()[0]
            self.warn(f"the proof is not recorded, so the next proof starts where this one started: {message}")

    @property
    def _files(self) -> Files:
        return files_by(self.chain.lake.root, self.rows.spark)


def _reached(pinned: PinnedTable, lasting: Sequence[Uncompared], line_ends: int | None) -> ProvenTable | None:
    span = pinned.span
    reached = ProvenTable.up_to(pinned.table_id, span.commits[-1]) if span.commits else span.start
    if reached is None:
        return None
    uncompared = tuple(dict.fromkeys(lasting))
    return replace(reached, gaps=pinned.gaps, uncompared=uncompared, line_ends=line_ends)


def _lines_before(pinned: PinnedTable | None) -> int:
    """Return the lines of a table that are not compared, because its span begins later."""
    return pinned.span.lines_before if pinned and not pinned.span.whole else 0


def _waiting_for(table: Table, lines: int) -> tuple[Uncompared, ...]:
    return Uncompared.waiting(lines, "line", f"for {table}", lines=lines)


def _without_batch(table: Table, waits: tuple[Uncompared, ...]) -> str:
    return f"{table} has no batch: {waits[0].said}. Run: oncelake run"


def _damaged(table: Table, damage: LogDamage) -> str:
    if damage.lost is not None:
        return f"{damage.lost}. {log_way_out(table, damage)}"
    return f"{damage.warning_of(table)}. Set it aside: oncelake recover {stage_of(table)}"


def _state(state: StageState) -> str:
    if state.diagnosis.may_start or state.recovers:
        return ""
    return f"{state.stage.name} would not start: {state.diagnosis.state}: {state.diagnosis.seen}; see oncelake doctor"
