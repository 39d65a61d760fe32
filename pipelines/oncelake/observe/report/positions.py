"""This is where each stage is looked at for the page: its state, and its position in words.

A source or a database that does not answer is a state like another: what is there is told all the same.
"""

from collections.abc import Mapping
from dataclasses import replace

from oncelake.common.errors import SourceError
from oncelake.engine.chain import Chain, View
from oncelake.engine.graph import Stage
from oncelake.exactly_once.delta_log import Standing
from oncelake.exactly_once.kafka_source import KafkaSource, Topic
from oncelake.exactly_once.positions import FilesPosition, KafkaPosition, TablePosition
from oncelake.observe.report.facts import Partition, StageFacts
from oncelake.observe.status import stage_status

AWAY = "source away"


def stage_facts(chain: Chain, stage: Stage) -> StageFacts:
    """Look at one stage."""
    try:
        return _seen(chain.view(stage))
    except SourceError as error:
        told = StageFacts(stage.name, AWAY, may_start=False, detail=f"{stage.name}: {AWAY}: {error}")
        return _standing(told, stage, chain.commit_log(stage.tables[0]).standing(), None)


def _seen(view: View) -> StageFacts:
    status = stage_status(view)
    topic = view.source.describe() if isinstance(view.source, KafkaSource) else None
    standing = next(iter(view.standings.values()))
    told = StageFacts(status.stage, status.state, status.may_start, status.detail)
    waits = replace(told, backlog=status.backlog, backlog_unit=status.backlog_unit, warnings=tuple(status.warnings))
    return _standing(waits, view.stage, standing, topic)


def _standing(told: StageFacts, stage: Stage, standing: Standing, topic: Topic | None) -> StageFacts:
    """Add where a stage stands, as its first table tells it."""
    if standing.last is None or standing.metadata is None:
        return replace(told, position="" if standing.last else "before the first batch")
    at, committed = standing.metadata.end, standing.last.timestamp
    partitions = _partitions(at, topic)
    position = _words(stage, at, partitions)
    here = replace(told, batch_id=standing.metadata.batch_id, committed_ms=committed or None, rows=standing.rows)
    return replace(here, position=position, partitions=partitions)


def _partitions(at: str | None, topic: Topic | None) -> tuple[Partition, ...]:
    """Give the offsets of a position in Kafka, none for another source."""
    position = KafkaPosition.parse(at)
    offsets: Mapping[str, int] = next(iter(position.topics.values()), {}) if position else {}
    ends = topic.latest if topic else {}
    found = ((int(number), int(offset), ends.get(number)) for number, offset in offsets.items())
    return tuple(Partition(*each) for each in sorted(found))


def _words(stage: Stage, at: str | None, partitions: tuple[Partition, ...]) -> str:
    table = TablePosition.parse(at)
    if table is not None:
        if table.is_whole:
            return f"version {table.version - 1} of {stage.reads}, read to its end"
        return f"within version {table.version} of {stage.reads}, at file {table.index + 1:,}"
    if partitions:
        return f"offsets of {len(partitions):,} partitions"
    listed = FilesPosition.parse(at)
    return f"entry {listed.entry} of the query's list of files" if listed else at or ""
