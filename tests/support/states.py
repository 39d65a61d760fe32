"""Define sources and cases for tests of a stage's state."""

from collections.abc import Mapping

from oncelake.exactly_once.checkpoint import read_checkpoint
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.delta_source import DeltaSource
from oncelake.exactly_once.diagnosis import diagnose
from oncelake.exactly_once.recovery import Case
from oncelake.exactly_once.source import Backlog, Source
from tests.support.memory import MemoryFiles, commit


def source_table(files: MemoryFiles, versions: int) -> DeltaSource:
    for version in range(versions):
        commit(files, "source", version)
    return DeltaSource("bronze.access_log", DeltaLog(files, "source"))


class Silent(Source):
    """A source that reports nothing."""

    def backlog(self, at: str | None, *, changes: bool = False) -> Backlog:
        del at, changes
        return Backlog(None, "rows")

    def identity(self) -> dict[str, str]:
        return {}

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> None:
        del start, end, recorded


def case(files: MemoryFiles, source: Source | None = None, beside: tuple[str, ...] = ()) -> Case:
    commit_logs = {path: DeltaLog(files, path) for path in ("table", *beside)}
    states = {path: commit_log.state() for path, commit_log in commit_logs.items()}
    read, source = read_checkpoint(files, "ckpt"), source or Silent()
    return Case("silver", diagnose(read, states, source), read, commit_logs, source, "run")
