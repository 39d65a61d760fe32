"""Run `recover` on the model: its plan and every step of its work are the chain's own code."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from pyspark.sql import SparkSession

from oncelake.common.lake import BRONZE
from oncelake.engine import recover as recoveries
from oncelake.engine.recover import RecoveryResult, recover
from oncelake.exactly_once import recovery as plans
from oncelake.exactly_once.commit import CommitKind, CommitMetadata
from tests.model import delta_model as delta
from tests.model.chain_model import Replaced, on_model, place, replacing, survey_of
from tests.model.process import Process

_RESTORE = re.compile(r"RESTORE TABLE delta\.`(.+)` TO VERSION AS OF (\d+)")


class RecoverProcess(Process):
    """A start of `oncelake recover`."""

    __hash__ = Process.__hash__

    def sql(self, text: str) -> Any:
        """Restore a table; recover uses SQL for nothing else."""
        found = _RESTORE.fullmatch(text)
        assert found is not None, text
        self.step(text)
        delta.restore(self.texts, found.group(1), int(found.group(2)))
        return SimpleNamespace(collect=list)

    def new_query_id(self) -> str:
        """Return an unused query ID."""
        number = int(self.texts.get("made/query", "0"))
        self.texts["made/query"] = str(number + 1)
        return f"recovered#{number}"


def recover_all(
    process: RecoverProcess, kind: str, *, accept_loss: bool = False, dry_run: bool = False
) -> list[RecoveryResult]:
    """Recover every stage, as `oncelake recover` does."""
    chain, spark = survey_of(process, kind), cast(SparkSession, process)
    with on_model(process), on_recovery(process), patch.object(recoveries, "RUN_ID", process.name):
        return [recover(chain, spark, stage, accept_loss=accept_loss, dry_run=dry_run) for stage in chain.stages]


@contextmanager
def on_recovery(process: RecoverProcess) -> Iterator[None]:
    """Replace what needs Spark in a recovery; `process` makes the query IDs."""
    replaced: Replaced = {
        recoveries: {
            "commit_note": _commit_note,
            "make_table": lambda process, _target, path, _ledger: delta.make(process, path),
            "files_read": lambda process, *_: _seen(process),
            "files_at": lambda _place, process: process,
        },
        plans: {"uuid": SimpleNamespace(uuid4=process.new_query_id)},
    }
    with replacing(replaced):
        yield


def _commit_note(process: Process, path: str, metadata: CommitMetadata) -> None:
    delta.append(process, path, [], metadata, metadata.app_id if metadata.event is CommitKind.LOSS else None)


def _seen(process: Process) -> list[tuple[str, int]]:
    """Return the files that bronze holds numbers of, each with the model's one modification time."""
    return sorted({(row[1].rsplit("/", 1)[0], 1) for row in delta.rows(process.texts, place(BRONZE))})
