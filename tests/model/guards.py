"""Switch off the chain's guards, one by one, to see which fault each prevents."""

from typing import Any

from oncelake.common.lake import SILVER
from oncelake.engine import chain as chains
from oncelake.exactly_once import diagnosis
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.delta_source import DeltaSource
from oncelake.exactly_once.state import Diagnosis, State
from oncelake.exactly_once.write import TableWriter
from oncelake.exactly_once.writers import spark as writes
from oncelake.quality.gate import BatchCounts
from oncelake.silver import stream as silver
from oncelake.silver.split import Split
from oncelake.sources.files.source import FilesSource
from oncelake.sources.kafka.source import KafkaSource
from tests.model import delta_model as delta
from tests.model.chain_model import Replaced


def _unlooked_receipt(writer: TableWriter, metadata: CommitMetadata) -> ChainCommit:
    """Assume that the write was made: return its own metadata as the newest commit."""
    newest = writer.log.commit(writer.log.versions()[-1])
    assert newest is not None
    writer.last = ChainCommit(**{**vars(newest), "metadata": metadata})
    return writer.last


def _any_winner(writer: TableWriter, commit: ChainCommit, *_: object) -> ChainCommit:
    writer.last = commit
    return commit


def _silver_alone(parsed: Split, rules: Any, batch: Batch, once: Any = silver.write_silver) -> BatchCounts:
    if batch.holds(SILVER):
        batch.append(SILVER, parsed.accepted())
        return BatchCounts(0, 0, {}, {}, batch.metadata(SILVER).planned)
    counted: BatchCounts = once(parsed, rules, batch)
    return counted


def _nothing(*_: object) -> None:
    return None


GUARDS: dict[str, Replaced] = {
    "transaction": {
        writes: {
            "append": lambda frame, path, metadata: delta.append(frame.process, path, frame.rows, metadata, None),
            "merge": lambda frame, path, said, *_, **__: delta.merge(frame.process, path, frame.rows, said, None),
        }
    },
    "confs": {
        writes: {
            "append": lambda frame, path, _: delta.append_unsaid(frame.process, path, frame.rows, "WRITE"),
            "merge": lambda frame, path, *_, **__: delta.append_unsaid(frame.process, path, frame.rows, "MERGE"),
        }
    },
    "query id in the application id": {
        CommitMetadata: {"app_id": property(lambda metadata: f"oncelake/{metadata.stage}/{metadata.table}")}
    },
    "table in the application id": {
        CommitMetadata: {"app_id": property(lambda metadata: f"oncelake/{metadata.stage}/{metadata.query_id}")}
    },
    "range of a batch": {TableWriter: {"holds": _nothing}},
    "no gap": {TableWriter: {"must_follow": _nothing}},
    "receipt": {TableWriter: {"receipt": _unlooked_receipt}},
    "alone before": {TableWriter: {"must_be_alone": lambda *_: 0}},
    "alone after": {TableWriter: {"must_be_ours": _any_winner}},
    "diagnosis": {chains: {"diagnose": lambda *_: Diagnosis(State.ALIGNED, "switched off")}},
    "other tables": {diagnosis: {"differing": _nothing}},
    "rows without a batch": {diagnosis: {"strange_table": _nothing}},
    "source": {each: {"trouble": _nothing} for each in (KafkaSource, FilesSource, DeltaSource)},
    "source's log": {each: {"damage": _nothing} for each in (KafkaSource, FilesSource)},
    "quarantine on replay": {silver: {"write_silver": _silver_alone}},
    "sum of a replay": {silver: {"rows_held": _nothing}},
    "same rules": {Batch: {"same_rules": lambda *_: True}},
}
