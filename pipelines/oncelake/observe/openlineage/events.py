"""Describe a batch as OpenLineage's run events: START and COMPLETE, or FAIL."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyspark
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    dataset_version_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
)

from oncelake.common.version import __version__
from oncelake.exactly_once.batch import CommittedBatch
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.observe.openlineage.datasets import DatasetName

PRODUCER = f"urn:oncelake:{__version__}"
# The name of oncelake's own facet, and the schema that describes it: BatchRunFacet.json in this folder.
FACET = "oncelake_batch"
SCHEMA_URL = "urn:oncelake:openlineage:BatchRunFacet:1-0-0#/$defs/BatchRunFacet"
_BATCHES = uuid.uuid5(uuid.NAMESPACE_URL, "urn:oncelake:batch")


@dataclass(frozen=True)
class StageJob:
    """A stage as OpenLineage's job.

    Attributes:
        namespace: the namespace of the lake's jobs.
        stage: the stage's name, which is the job's.
        inputs: what it reads.
        outputs: what it writes, by table.
        versioned: the tables that have versions: those of the lake.
    """

    namespace: str
    stage: str
    inputs: Sequence[DatasetName]
    outputs: Mapping[str, DatasetName]
    versioned: frozenset[str] = frozenset()


def run_id(query_id: str, batch_id: int, attempt: str = "") -> str:  # guard: lineage-run-is-batch
    """Return the ID of a batch's run, the same each time it is told; a failed attempt has an ID of its own."""
    return str(uuid.uuid5(_BATCHES, f"{query_id}/{batch_id}/{attempt}" if attempt else f"{query_id}/{batch_id}"))


def committed(job: StageJob, batch: CommittedBatch) -> list[RunEvent]:
    """Return the events of a committed batch; they are equal each time the batch is told, also after a crash.

    Args:
        job: the stage.
        batch: the batch, with its commits.
    """
    first = next(iter(batch.commits.values()))
    metadata = first.metadata
    assert metadata is not None, "a commit of the chain"
    facet = {
        "queryId": metadata.query_id,
        "batchId": metadata.batch_id,
        "before": metadata.before,
        "after": metadata.end,
        "tables": {table: _written(job, table, commit) for table, commit in batch.commits.items()},
        "refused": dict(metadata.quality.get("rules", {})),
        "rules": metadata.rules,
    }
    run = _run(job, run_id(metadata.query_id, metadata.batch_id), facet)
    return [
        _event(RunState.START, metadata.planned_ms, run, job, {}),
        _event(RunState.COMPLETE, max(first.timestamp, metadata.planned_ms), run, job, batch.commits),
    ]


def failed(job: StageJob, facts: Mapping[str, Any], why: str, attempt: str, at_ms: int) -> list[RunEvent]:
    """Return the events of a batch in which a stage stopped.

    The batch is repeated later, and that run is another one: no event follows a FAIL.

    Args:
        job: the stage.
        facts: the query, batch_id and position, as far as they are known.
        why: the error.
        attempt: which start of the program failed.
        at_ms: when.
    """
    query_id, batch_id = facts.get("query"), facts.get("batch_id")
    known = query_id is not None and batch_id is not None
    identity = run_id(str(query_id or job.stage), batch_id if known and batch_id is not None else -1, attempt)
    facet = {"queryId": query_id, "batchId": batch_id} if known else {}
    error = error_message_run.ErrorMessageRunFacet(message=why, programmingLanguage="PYTHON", producer=PRODUCER)
    run, ended = (_run(job, identity, facet, more) for more in ({}, {"errorMessage": error}))
    return [_event(RunState.START, at_ms, run, job, {}), _event(RunState.FAIL, at_ms, ended, job, {})]


def _written(job: StageJob, table: str, commit: ChainCommit) -> dict[str, int]:
    version = {"version": commit.version} if table in job.versioned else {}
    return {"rows": commit.rows_changed, "lines": commit.lines_added, **version}


def _run(job: StageJob, identity: str, facet: Mapping[str, Any], more: Mapping[str, Any] | None = None) -> Run:
    own = {"_producer": PRODUCER, "_schemaURL": SCHEMA_URL, "stage": job.stage, **facet}
    engine = processing_engine_run.ProcessingEngineRunFacet(
        version=pyspark.__version__, name="spark", openlineageAdapterVersion=__version__, producer=PRODUCER
    )
    facets: dict[str, Any] = {FACET: own, "processing_engine": engine, **(more or {})}
    return Run(runId=identity, facets=facets)


def _event(state: RunState, at_ms: int, run: Run, job: StageJob, commits: Mapping[str, ChainCommit]) -> RunEvent:
    kind = job_type_job.JobTypeJobFacet(
        processingType="BATCH", integration="ONCELAKE", jobType="BATCH", producer=PRODUCER
    )
    return RunEvent(
        eventType=state,
        eventTime=datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        run=run,
        job=Job(namespace=job.namespace, name=job.stage, facets={"jobType": kind}),
        inputs=[InputDataset(namespace=name.namespace, name=name.name) for name in job.inputs],
        outputs=[_output(job, table, name, commits.get(table)) for table, name in job.outputs.items()],
        producer=PRODUCER,
    )


def _output(job: StageJob, table: str, name: DatasetName, commit: ChainCommit | None) -> OutputDataset:
    if commit is None:
        return OutputDataset(namespace=name.namespace, name=name.name)
    rows = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=commit.rows_changed, producer=PRODUCER
    )
    version = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(commit.version), producer=PRODUCER)
    return OutputDataset(
        namespace=name.namespace,
        name=name.name,
        facets={"version": version} if table in job.versioned else {},
        outputFacets={"outputStatistics": rows},
    )
