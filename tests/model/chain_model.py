"""Run the chain's own code on the model: diagnosis, refusal, batches, metadata, writes and receipts.

Only the code that would use Spark is replaced. The chain is bronze → silver + quarantine → gold, over numbers:
odd ones go to quarantine, gold counts the even ones per remainder of three.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from pyspark.sql import SparkSession

from oncelake.bronze.settings import SourceSettings
from oncelake.common.errors import OncelakeError
from oncelake.common.lake import BRONZE, QUARANTINE, SILVER, Lake, Table
from oncelake.common.models import Strict
from oncelake.engine import chain as chains
from oncelake.engine import graph as graphs
from oncelake.engine import markers
from oncelake.engine import runner as runs
from oncelake.engine import start_gate as refusals
from oncelake.engine.chain import Chain
from oncelake.engine.graph import Stage, Target
from oncelake.engine.runner import Run
from oncelake.engine.settings import MetricsSettings, Settings
from oncelake.exactly_once import checkpoint as checkpoints
from oncelake.exactly_once import delta_log
from oncelake.exactly_once import write as writes
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from oncelake.exactly_once.writers import MergeSql
from oncelake.exactly_once.writers import spark as spark_writes
from oncelake.gold import stream as gold
from oncelake.quality.gate import BatchCounts
from oncelake.serving.settings import ServingSettings
from oncelake.silver import spark_count, spark_split
from oncelake.silver import stream as silver
from oncelake.silver.rules import Silver
from oncelake.sources.files import source as files_source
from oncelake.sources.kafka import kind as kafka
from oncelake.sources.kafka.kind import KafkaKind
from oncelake.sources.registry import kind_of
from tests.model import delta_model as delta
from tests.model.process import Died, Process, Texts
from tests.model.source_model import (
    DIRECTORY,
    NAME,
    FilesInput,
    KafkaInput,
    TableInput,
    compare_last,
    describe,
    produced,
)
from tests.model.spark_model import Frame, Stream

GOLD = Table("gold", "by_rest")
TABLES = (BRONZE, SILVER, QUARANTINE, GOLD)
Replaced = Mapping[Any, Mapping[str, Any]]
STAGES = ("bronze", "silver", "gold.by_rest")


def place(table: Table) -> str:
    return f"lake/{table.layer}/{table.name}"


def checkpoint(stage: str, root: str = "ckpt") -> str:
    return f"{root}/{stage.replace('.', '/')}"


READ_BY_MODEL = KafkaKind(SourceSettings(kind="kafka", bootstrap_servers="made:1"))


def chain(process: Process, kind: str, rules: str) -> tuple[Stage, ...]:
    """Return the chain's stages, reading the model's sources."""

    def take(path: str) -> KafkaInput | FilesInput:
        return KafkaInput(process, path) if kind == "kafka" else FilesInput(process, path)

    def stage(name: str, reads: Table | None, writes: tuple[Table, ...], work: Callable[..., None]) -> Stage:
        opened = take if reads is None else (lambda _: TableInput(process, place(reads)))
        tables = () if reads is None else (reads,)
        targets = tuple(Target(table, cast(Any, None), {}) for table in writes)
        return Stage(name, tables, targets, lambda _: cast(Any, Stream(opened, process)), work, (Declared(name=rules),))

    return (
        # the model reads its own files, so Spark has no plan to compare them with
        stage("bronze", None, (BRONZE,), partial(READ_BY_MODEL.write, checkpoint="")),
        stage("silver", BRONZE, (SILVER, QUARANTINE), silver.write(cast(Any, Rules(rules)))),
        stage("gold.by_rest", SILVER, (GOLD,), gold.write(GOLD.name, cast(Any, None))),
    )


class Declared(Strict):
    """The settings that the model's rules come from."""

    name: str


@dataclass(frozen=True)
class Rules:
    """The rules of the model's silver; its frames compute by themselves what silver computes with columns."""

    name: str
    counts_first = False
    has_events = False
    measures = ()
    aggregates = ()
    named = False
    transform = None
    deduplicate = None

    def parse(self, frame: Frame) -> Frame:
        return replace(frame, rules=self.name)

    def prepared(self) -> Callable[[Frame], Frame]:
        return self.parse

    def breaches(self, *_: object) -> dict[str, str]:
        return {}

    def counted(self, seen: Mapping[str, int], batch: Batch) -> BatchCounts:
        rules = {"odd": seen["refused"]} if seen["refused"] else {}
        return BatchCounts(seen["lines"], seen["refused"], rules, {}, batch.metadata(SILVER).planned)


def survey_of(process: Process, kind: str, rules: str = "rules") -> Chain:
    """Return the chain on the model's lake, as the chain's own code builds it."""
    source = SimpleNamespace(kind=kind, path="/model", topics=(NAME,), topic_pattern=None, group_id=None)
    run, serving = SimpleNamespace(trigger=timedelta(0), small_batch=0, lock_wait=timedelta(0)), ServingSettings()
    kinds = {"access_log": kind_of(cast(SourceSettings, source))}
    settings = SimpleNamespace(
        by_name={"access_log": source},
        kinds=lambda _: kinds,
        local_paths={},
        run=run,
        serving=serving,
        metrics=MetricsSettings(),
    )
    lake = Lake("lake", process.root, per_host=process.per_host)
    parser = SimpleNamespace(declared=SimpleNamespace(assumes_utc=False))
    return Chain(
        cast(Settings, settings),
        lake,
        chain(process, kind, rules),
        cast(SparkSession, process),
        suites={},
        silver=cast(Silver, SimpleNamespace(records={"access_log": None}, named=False, parsers={"access_log": parser})),
    )


@dataclass
class Ending:
    """How a run ended: `done`, or the name and text of its error."""

    kind: str = "done"
    said: str = ""


def run(process: Process, kind: str, rules: str = "rules") -> Ending:
    """Run the chain once, over all available input."""
    progress = cast(Any, Silent())
    chain = survey_of(process, kind, rules)
    with on_model(process):
        try:
            Run(chain, cast(SparkSession, process), progress, threading.Event()).once()
        except Died:
            return Ending("died")
        except OncelakeError as error:
            return Ending("died" if process.dead else type(error).__name__, str(error))
    return Ending()


class Silent:
    """Receives reports and shows nothing."""

    def __call__(self, report: object) -> None:
        del report

    def show(self) -> None:
        pass

    def tell(self, text: str) -> None:
        """Fail: in the model no stage waits for anything."""
        raise AssertionError(text)


def append(frame: Frame, path: str, metadata: CommitMetadata) -> None:
    delta.append(frame.process, path, frame.rows, metadata, metadata.app_id)


def merge(frame: Frame, path: str, metadata: CommitMetadata, *_: object, **__: object) -> None:
    delta.merge(frame.process, path, frame.rows, metadata, metadata.app_id)


@contextmanager
def modelled() -> Iterator[None]:
    """Replace the code that would use Spark, for a test that runs many processes."""
    replaced: Replaced = {
        spark_writes: {"append": append, "merge": merge},
        writes.again_on_conflict.retry: {"sleep": lambda _: None},
        silver: {"Prepared": lambda build: build},
        spark_split: {"quarantined": lambda frame: frame.quarantined},
        spark_count: {"accepted": lambda frame: frame.accepted, "Observation": lambda: SimpleNamespace(get={})},
        gold: {
            "Prepared": lambda build: build,
            "aggregate": _aggregate,
            "windows": str,
            "merge_into": lambda *_: MergeSql("", {}),
        },
        chains: {"files_at": lambda _place, process: process},
        graphs: {"files_at": lambda _place, process: process},
        kafka: {
            "describe": lambda process, _client, _topics: {NAME: describe(process.texts)},
            "kafka_client": lambda _: {},
            "compare_last": lambda _bronze, _client, versions: partial(compare_last, versions.spark.texts),
        },
        refusals: {"way_out": lambda _: ""},
        markers: {"files_at": lambda _place, process: process},
        # pure functions of a text, called again and again: cached, to visit more states in the same time
        delta_log: {"json": SimpleNamespace(loads=cache(json.loads))},
        checkpoints: {"json": SimpleNamespace(loads=cache(json.loads), dumps=json.dumps)},
        CommitMetadata: {"from_json": cache(CommitMetadata.from_json)},
        runs: {
            "time": SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic),
            "make_tables": make_tables,
            "record_rules": lambda *_: None,  # they decide nothing
            "explain": lambda error: f"{type(error).__name__}: {error}",
        },
    }
    with replacing(replaced):
        yield


@contextmanager
def replacing(replaced: Replaced) -> Iterator[None]:
    """Replace parts of modules and classes inside the block."""
    with ExitStack() as stack:
        for owner, parts in replaced.items():
            for name, part in parts.items():
                stack.enter_context(patch.object(owner, name, part))
        yield


@contextmanager
def on_model(process: Process) -> Iterator[None]:
    """Show one process to the chain's code: its run ID, and the directory of its files."""

    def is_gone(uri: str) -> bool:
        return f'"{uri}"' not in process.texts.get(DIRECTORY, "")

    with patch.object(runs, "RUN_ID", process.name), patch.object(files_source, "is_gone", is_gone):
        yield


def make_tables(process: Process, chain: Chain, stage: Stage, **_: bool) -> None:
    for table in stage.tables:
        delta.make(process, chain.lake.at(table))


def _aggregate(frame: Frame, declared: object, *, counting: bool) -> Frame:
    del declared, counting
    return Frame(frame.process, frame.counts)


@dataclass(frozen=True)
class Faults:
    """What is wrong in the tables, compared with all that was ever produced."""

    lost: Mapping[str, Counter[int]]
    doubled: Mapping[str, Counter[int]]
    twice: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.twice)

    def __str__(self) -> str:
        parts = [f"{table} lost {dict(found)}" for table, found in self.lost.items()]
        parts += [f"{table} doubled {dict(found)}" for table, found in self.doubled.items()]
        return "; ".join([*parts, *self.twice]) or "exact"


def faults(texts: Texts) -> Faults:
    """Compare the tables with the truth: every number in bronze, then in silver or in quarantine, then in gold."""
    truth = Counter(produced(texts))
    taken, good, refused = (Counter(row[0] for row in delta.rows(texts, place(table))) for table in TABLES[:3])
    counted = delta.counted(delta.rows(texts, place(GOLD)))
    recount = delta.counted([[number % 3, count] for number, count in (truth - refused).items()])
    pairs = {"bronze": (truth, taken), "silver and quarantine": (truth, good + refused), "gold": (recount, counted)}
    return Faults(
        {name: must - held for name, (must, held) in pairs.items() if must - held},
        {name: held - must for name, (must, held) in pairs.items() if held - must},
        tuple(line for table in TABLES for line in _twice(texts, table)),
    )


def _twice(texts: Texts, table: Table) -> list[str]:
    """Return the batches of which a table has two commits."""
    batches = Counter(
        (metadata.query_id, metadata.batch_id)
        for metadata in delta.notes(texts, place(table))
        if metadata.event is not CommitKind.RECOVERY
    )
    return [f"{table} has two commits of batch {batch}" for (_, batch), count in batches.items() if count > 1]
