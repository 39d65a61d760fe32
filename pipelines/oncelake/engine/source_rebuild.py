"""Rebuild of the lines of one source: those of the other sources stay in silver and gold as they are.

Silver and quarantine are each replaced, in one commit, by their rows of the other sources. Then each gold table is
replaced by its windows without a line of the source, and by the others, counted again from these rows. Each of these
commits is batch 0 of a new query, as after a change of a gold table: it holds all that the stage had read of the other
sources. The stages' checkpoints are written from these commits. So silver reads the lines of the source as those of a
new one, and gold adds them.

The marker of the rebuild names the new queries and the windows. A second run continues with what has none of them yet.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from oncelake.common import tables
from oncelake.common.errors import ConfigError, StoppedError
from oncelake.common.lake import DUPLICATES, QUARANTINE, SILVER, Table, bronze_of, bronze_stage, identifier
from oncelake.common.wording import count_of
from oncelake.engine.chain import Chain, StageState
from oncelake.engine.graph import Stage
from oncelake.engine.make_table import replace_rows
from oncelake.engine.markers import of_one_source, unfinished_rebuild
from oncelake.engine.preflight import check_columns, is_changed
from oncelake.engine.rebuild import Rebuild, lost_for_good
from oncelake.engine.recover import replace_checkpoint
from oncelake.engine.rules import record_kept_rules
from oncelake.engine.runner import RUN_ID
from oncelake.engine.settings import Settings
from oncelake.engine.sources import declared_kind
from oncelake.engine.start_gate import unfinished_replay
from oncelake.engine.table_changes import APPEND_ONLY
from oncelake.exactly_once.checkpoint import offsets_text
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.delta_sources import table_ids
from oncelake.exactly_once.link import Range, joined, merged
from oncelake.exactly_once.positions import in_tables, is_whole
from oncelake.exactly_once.recovery import checkpoint_texts
from oncelake.gold.declaration import LOG_TIME, GoldTable
from oncelake.gold.transform import aggregate, matching
from oncelake.gold.window import MOST_RANGES, in_ranges, span_of
from oncelake.silver.parsing.events import is_first
from oncelake.silver.rules import source_name
from oncelake.silver.schema import EVENT_INDEX, SOURCE

# Of more windows with lines of the source, all from the first to the last are counted again.
MOST_WINDOWS = 100_000


@dataclass(frozen=True)
class SourceRebuild(Rebuild):
    """A rebuild of the rows that the lines of one source gave; see `whole_reason` for when it can work.

    Attributes:
        source: the name of the source.
    """

    source: str

    @cached_property
    def staying(self) -> tuple[Stage, ...]:
        """The stages whose rows of other sources stay: silver, and the gold tables that the settings still declare."""
        return tuple(
            stage
            for stage in self.stages
            if stage.layer == SILVER.layer or (stage.layer == "gold" and _goes_on(self.chain, stage))
        )

    @property
    def emptied(self) -> tuple[Stage, ...]:
        """The stages whose tables are emptied."""
        return tuple(stage for stage in self.stages if stage not in self.staying)

    @property
    def before(self) -> tuple[Stage, ...]:
        """The stages that read all available input first: those whose rows stay."""
        return self.staying

    @property
    def of_source(self) -> str | None:
        """The source whose lines are made again."""
        return self.source

    def removed(self) -> str | None:
        """Return None: the lines of removed sources stay."""
        return None

    def losses(self) -> Iterator[tuple[Stage, str | None]]:
        """Yield which lines bronze holds and would not read again; silver reads all that bronze holds."""
        head = self.stages[0]
        yield head, lost_for_good(self.chain, self.spark, head) if not head.reads else None

    def plan(self) -> list[str]:
        """Return the steps of `go` as text."""
        replaced_tables = [str(target.table) for stage in self.staying for target in stage.writes]
        emptied_tables = [str(table) for stage in self.emptied for table in stage.tables]
        steps = [
            f"take the lines of {self.source} out of {', '.join(replaced_tables)}; the rows of the other sources stay, "
            "and the tables' old versions have the old rows until oncelake maintain removes them after 7 days"
        ]
        if emptied_tables:
            aside = "" if self.stages[0].reads else " (the old bronze is kept under another name)"
            steps.append(f"empty {', '.join(emptied_tables)}{aside}")
        origin = str(bronze_of(self.source)) if self.stages[0].reads else f"the source {self.source}"
        return [*steps, f"replay {', '.join(stage.name for stage in self.stages)} from {origin}"]

    def record(self) -> Mapping[str, Any]:
        """Return the new queries and the windows of the gold tables that have lines of the source."""
        begun = of_one_source(self.chain, self.source)
        if begun is not None:
            return begun
        states = [self.chain.stage_state(stage) for stage in self.staying]
        silver = next(state for state in states if state.stage.layer == SILVER.layer)
        if silver.first.batch_id != silver.checkpoint.committed or not is_whole(silver.first.end):
            raise StoppedError(  # guard: rows-kept-of-whole-batches
                "silver's last batch is not finished, so nothing was changed. Finish it: oncelake run --once"
            )
        rows, lines = self._read(SILVER), self._read(SILVER).where(self._is_of_source())
        # a gold table that could not read all lines is built from all of silver
        gold = [state.stage for state in states if state.stage.layer == "gold" and state.up_to_date]
        names = [stage.tables[0].name for stage in gold]
        windows = {name: _windows(lines, self.chain.settings.gold[name]) for name in names}
        for stage in gold:  # what cannot work fails before anything is changed
            self._without(stage.tables[0], rows, windows[stage.tables[0].name])
        queries = {stage.name: str(uuid.uuid4()) for stage in (silver.stage, *gold)}
        return {"source": self.source, "queries": queries, "windows": windows}

    def clear(self) -> None:
        """Take the rows of the source out of the tables, and empty the others."""
        record = of_one_source(self.chain, self.source)
        assert record is not None, "the marker was just written"
        for stage in self.staying:
            query_id = record["queries"].get(stage.name)
            if query_id is None:
                self.empty(stage)
                continue
            if stage.layer == SILVER.layer:
                first = self._replace_silver(stage, query_id)
            else:
                first = self._replace_gold(stage, query_id, record["windows"][stage.tables[0].name])
            old = replace_checkpoint(self.chain, stage, checkpoint_texts(first))
            if old is not None:
                self.chain.checkpoint_files.remove(old)
        for stage in reversed(self.emptied):
            self.empty(stage)

    def _replace_silver(self, stage: Stage, query_id: str) -> CommitMetadata:
        """Replace silver and quarantine by their rows of the other sources; return the metadata of silver's commit."""
        state = self.chain.stage_state(stage)
        first = state.table_states[SILVER].metadata
        assert first is not None, "silver has a batch"
        if first.query_id != query_id:
            rows = self._read(SILVER).where(~self._is_of_source())
            first = self._first_of_silver(state, first, rows, query_id)
            self._allow_replacement()
            self._replace(stage, SILVER, rows, first)
        quarantine = self.chain.commit_log(QUARANTINE).state().metadata
        if quarantine is None or quarantine.query_id != query_id:
            rows = self._read(QUARANTINE).where(~self._is_of_source())
            self._replace(stage, QUARANTINE, rows, replace(first, table=str(QUARANTINE), beside={}, lines={}))
        return first

    def _first_of_silver(
        self, state: StageState, last: CommitMetadata, rows: DataFrame, query_id: str
    ) -> CommitMetadata:
        ids = dict(table_ids(last.source))
        gone = ids.pop(str(bronze_of(self.source)), None)
        reached = [at for table_id, at in in_tables(last.end).items() if table_id != gone]
        has_events = EVENT_INDEX in rows.columns
        count = (rows.where(is_first()) if has_events else rows).count()
        return _first(
            last,
            query_id,
            f"[{','.join(reached)}]",
            source={"kind": "delta", **ids},
            beside={str(QUARANTINE): None},
            lines={"before": 0, "added": count} if has_events else {},
            quality=self._quality(count),
            rules=record_kept_rules(self.chain.lake, state.stage, self._rules(), self.spark),
        )

    def _quality(self, accepted: int) -> Mapping[str, Any]:
        """Return how many lines of the other sources broke each rule, as a batch records it; empty if none did."""
        refused = self._read(QUARANTINE).where(~self._is_of_source())
        rows = (
            refused.select(F.explode(F.array_distinct("reasons.rule")).alias("rule")).groupBy("rule").count().collect()
        )
        rules = {row["rule"]: row["count"] for row in sorted(rows)}
        return {"lines": accepted + refused.count(), "rules": rules, "warned": []} if rules else {}

    def _rules(self) -> list[str]:
        """Return the fingerprints of the rules that made silver's rows, newest first."""
        commits = self.chain.commit_log(SILVER).newest_first()
        known = (commit.metadata.rules for commit, stands in commits if stands and isinstance(commit, ChainCommit))
        return [*dict.fromkeys(known)]

    def _allow_replacement(self) -> None:
        """Let silver's rows be replaced: only appends may change it otherwise. The new table has the property again."""
        log = self.chain.commit_log(SILVER)
        if log.properties().get(APPEND_ONLY, "").lower() == "true":
            name = identifier(self.chain.lake.at(SILVER))
            self.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('{APPEND_ONLY}' = 'false')")

    def _replace_gold(self, stage: Stage, query_id: str, ranges: list[Range] | None) -> CommitMetadata:
        """Replace a gold table by its rows without the lines of the source; return the metadata of the commit."""
        table = stage.tables[0]
        last, silver = self.chain.commit_log(table).state().metadata, self.chain.commit_log(SILVER)
        assert last is not None, "a table that stays has a batch"
        if last.query_id == query_id:
            return last
        newest, table_id = silver.newest(), silver.table_id()
        assert newest is not None, "silver was just replaced"
        at = {
            **json.loads(last.end or "{}"),
            "reservoirId": table_id,
            "reservoirVersion": newest + 1,
            "index": -1,
            "isStartingVersion": False,
        }
        source = {"kind": "delta", "table_id": table_id or ""}
        first = _first(last, query_id, json.dumps(at, separators=(",", ":")), source=source)
        silver_rows = tables.read_version(self.spark, self.chain.lake.at(SILVER), newest)
        self._replace(stage, table, self._without(table, silver_rows, ranges), first)
        return first

    def _without(self, table: Table, others: DataFrame, ranges: list[Range] | None) -> DataFrame:
        """Return a gold table's rows, those of some windows counted again from silver's rows of the other sources."""
        chosen = in_ranges(LOG_TIME, ranges) if ranges is not None else "TRUE"
        counted = aggregate(others.where(chosen), self.chain.settings.gold[table.name])
        # a column of the user's own is empty in what is counted again
        return self._read(table).where(f"NOT ({chosen})").unionByName(counted, allowMissingColumns=True)

    def _replace(self, stage: Stage, table: Table, rows: DataFrame, first: CommitMetadata) -> None:
        self.fence()
        target = next(target for target in stage.writes if target.table == table)
        state = replace_rows(self.chain, target, rows, first)
        self.say(f"{table} keeps {count_of(state.rows, 'row')} of the other sources")

    def _read(self, table: Table) -> DataFrame:
        return tables.read(self.spark, self.chain.lake.at(table))

    def _is_of_source(self) -> Column:
        return source_name() == self.source


def refuse_no_source_of(settings: Settings, source: str, stage: str) -> None:
    """Raise ConfigError if a source is not declared, or a stage is not the one whose lines of a source are made again.

    Args:
        settings: the settings.
        source: the name of the source.
        stage: the stage.
    """
    declared_kind(settings, source)
    if stage != SILVER.layer:
        raise ConfigError(
            f"--source goes with the stage silver, not with {stage}; to read {source} itself again: oncelake rebuild "
            f"{bronze_stage(source)}"
        )


def whole_reason(chain: Chain, source: str) -> str | None:
    """Return why the lines of a source cannot be rebuilt without those of the others; None if they can."""
    return None if of_one_source(chain, source) is not None else next(_obstacles(chain, source), None)


def _obstacles(chain: Chain, source: str) -> Iterator[str]:
    if begun := unfinished_rebuild(chain):
        yield f"a rebuild of {', '.join(begun)} is unfinished"
    stage = chain.silver_stage
    if stage is None or not chain.silver.named or SOURCE.name not in chain.commit_log(SILVER).columns():
        yield f"{SILVER} does not name the source of a line"
        return
    # guard: repeats-of-all-sources
    if chain.silver.deduplicate is not None or chain.commit_log(DUPLICATES).newest() is not None:
        yield "silver drops repeats, and a line of another source may repeat one of this source"
    if unfinished_replay(chain) is not None:
        yield f"a replay of {QUARANTINE} is unfinished"
    try:
        check_columns(chain, chain.spark)
    except ConfigError:
        yield "a column of silver gets another type"
    state = chain.stage_state(stage)
    last = state.first.metadata
    if not state.diagnosis.may_start:
        yield f"silver cannot go on: {state.diagnosis.seen}"
    mine = table_ids(last.source).get(str(bronze_of(source))) if last is not None else None
    if not any(table_id != mine for table_id in in_tables(last.end if last is not None else None)):
        yield "silver has read no other source"


def _windows(lines: DataFrame, declared: GoldTable) -> list[Range] | None:
    """Return the ranges of windows in which a gold table counts some lines, in microseconds since 1970.

    None for all windows.
    """
    starts = matching(lines, declared).select(F.unix_micros(F.expr(declared.window.sql)).alias("start")).distinct()
    windows = [row["start"] for row in starts.limit(MOST_WINDOWS + 1).collect()]
    if len(windows) > MOST_WINDOWS:
        ((first, last),) = starts.agg(F.min("start"), F.max("start")).collect()
        spans = [(first, last)]
    else:
        spans = [(start, start) for start in sorted(windows)]
    try:
        return joined(merged(span_of(*span, declared.window) for span in spans), MOST_RANGES)
    except OverflowError:  # a window outside the years 1 to 9999
        return None


def _goes_on(chain: Chain, stage: Stage) -> bool:
    """Return True if a gold table has rows of the declaration in the settings."""
    table = stage.tables[0]
    return not is_changed(chain, table.name) and chain.commit_log(table).state().metadata is not None


def _first(last: CommitMetadata, query_id: str, at: str, **changed: Any) -> CommitMetadata:
    """Return the metadata of the commit that takes the place of all batches up to a stage's last one."""
    return replace(
        last,
        query_id=query_id,
        batch_id=0,
        before=None,
        after=offsets_text(last.after, at),
        rows=0,
        run=RUN_ID,
        event=CommitKind.BATCH,
        lost=(),
        replay={},
        deduplicated={},
        **{"quality": {}, **changed},
    )
