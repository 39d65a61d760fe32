"""This is where each stage is looked at for the page: its state, and its position in words.

A source or a database that does not answer is a state like another: what is there is told all the same.
"""

from collections.abc import Mapping
from dataclasses import replace

from oncelake.common.errors import SourceError
from oncelake.engine.chain import Chain, StageState
from oncelake.engine.graph import Stage
from oncelake.exactly_once.delta_log import TableState
from oncelake.exactly_once.positions import SourcePosition
from oncelake.observe.report.facts import Partition, StageFacts
from oncelake.observe.status import stage_status

AWAY = "source away"


def stage_facts(chain: Chain, stage: Stage) -> StageFacts:
    """Look at one stage."""
    try:
        return _seen(chain.stage_state(stage))
    except SourceError as error:
        told = StageFacts(stage.name, AWAY, may_start=False, detail=f"{stage.name}: {AWAY}: {error}")
        return _with_position(told, stage, chain.commit_log(stage.tables[0]).state(), {})


def _seen(state: StageState) -> StageFacts:
    status = stage_status(state)
    table_state = next(iter(state.table_states.values()))
    told = StageFacts(status.stage, status.state, status.may_start, status.detail)
    waits = replace(told, backlog=status.backlog, backlog_unit=status.backlog_unit, warnings=tuple(status.warnings))
    return _with_position(waits, state.stage, table_state, state.source.ends())


def _with_position(told: StageFacts, stage: Stage, table_state: TableState, ends: Mapping[str, int]) -> StageFacts:
    """Add where a stage stands, as its first table tells it."""
    if table_state.last is None or table_state.metadata is None:
        return replace(told, position="" if table_state.last else "before the first batch")
    at, committed = table_state.metadata.end, table_state.last.timestamp
    found = SourcePosition.parse(at)
    position = (found.words(str(stage.reads)) if found else None) or at or ""
    offsets = sorted((int(number), int(offset)) for number, offset in (found.partitions() if found else {}).items())
    partitions = tuple(Partition(number, offset, ends.get(str(number))) for number, offset in offsets)
    here = replace(told, batch_id=table_state.metadata.batch_id, committed_ms=committed or None, rows=table_state.rows)
    return replace(here, position=position, partitions=partitions)
