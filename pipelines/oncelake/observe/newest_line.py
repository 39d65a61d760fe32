"""Find the time of the newest line that a stage has counted, from the statistics of silver's files in its Delta log."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from oncelake.common.lake import SILVER, Table, listed_files, micros, opened_by_delta_rs
from oncelake.common.wording import utc
from oncelake.engine.chain import Chain, StageState
from oncelake.exactly_once.delta_log import ChainCommit
from oncelake.exactly_once.positions import TablePosition
from oncelake.gold.declaration import LOG_TIME
from oncelake.observe.status import StageStatus, seconds_between


@dataclass(frozen=True)
class NewestLines:
    """The newest lines of the stages of a lake on a local disk; those of another lake are not known.

    Attributes:
        chain: the chain.
        now: the current time; None for that of the clock.
    """

    chain: Chain
    now: datetime | None = None
    _known: dict[int, int | None] = field(default_factory=dict, repr=False)

    def added(self, row: StageStatus, state: StageState | None) -> StageStatus:
        """Return the status of a stage with the time and the age of its newest line."""
        version = self._silver_version(state) if state is not None else None
        newest_ms = self._newest_ms(version) if version is not None else None
        if newest_ms is None:
            return row
        now_ms = (self.now or datetime.now(UTC)).timestamp() * 1000
        return replace(row, newest_line=utc(newest_ms), newest_line_seconds=seconds_between(newest_ms, now_ms))

    def _silver_version(self, state: StageState) -> int | None:
        """Return the version of silver whose lines a stage has counted; None before the first batch, and of bronze."""
        last = state.first.last
        if last is None or state.stage.layer == "bronze":
            return None
        return last.version if SILVER in state.stage.tables else self._read(state.stage.reads[0], last.metadata.end)

    def _read(self, table: Table, end: str | None) -> int | None:
        """Return the version of silver that a position in a table covers: in gold, by the commit that it has read."""
        position = TablePosition.parse(end)
        if position is None or table == SILVER:
            return position.version - 1 if position is not None and position.is_whole else None
        for commit, stands in self.chain.commit_log(table).newest_first():
            if stands and commit.version < position.version and isinstance(commit, ChainCommit):
                return self._read(SILVER, commit.metadata.end)
        return None

    def _newest_ms(self, version: int) -> int | None:
        if version not in self._known:
            self._known[version] = _newest_ms(self.chain.lake.at(SILVER), version)
        return self._known[version]


def _newest_ms(path: str, version: int) -> int | None:
    """Return the greatest time of a line in a version of silver, in milliseconds; None if the log does not say it."""
    opened = opened_by_delta_rs(path, version) if version >= 0 else None
    if opened is None:
        return None
    files = listed_files(opened)
    name = f"max.{LOG_TIME}"
    if name not in files.column_names or files[name].null_count:  # the log lacks the times of a file
        return None
    newest = max(micros(files[name]), default=None)
    return newest // 1000 if newest is not None else None
