"""A cache of Delta log commits, so that repeated checks read only what is new.

A commit never changes after it is written. Two things can change: the table at a path (a rebuild recreates it), and how
far back its log reaches. So every check reads the newest known commit again, and the log is listed again periodically.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields

from oncelake.common.lake import Table, is_name
from oncelake.engine.chain import Chain
from oncelake.exactly_once.delta_log import Commit, DeltaLog
from oncelake.exactly_once.files import Files, files_at

# The log is listed again after this many seconds, because Delta removes old commits over time.
RELIST = 60.0


class CachedLog(DeltaLog):
    """A Delta table's log that caches its commits."""

    def __init__(self, files: Files, table_path: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(files, table_path)
        self._clock = clock
        self._listed = clock()
        self._versions: list[int] = []
        self._last: str | None = None
        self._commits: dict[int, Commit] = {}
        self._table_id: str | None = None

    def versions(self) -> list[int]:
        """Return the versions whose commit files still exist, oldest first; an empty list if there is no table."""
        if not self._versions or self._is_another() or self._clock() - self._listed > RELIST:
            self._commits, self._table_id, self._listed = {}, None, self._clock()
            self._versions = super().versions()
        else:
            self._versions += [commit.version for commit in self.since(self._versions[-1])]
        self._last = self._text(self._versions[-1]) if self._versions else None
        return list(self._versions)

    def newest(self) -> int | None:
        """Return the newest version; None if there is no table."""
        return next(reversed(self.versions()), None)

    def commit(self, version: int) -> Commit | None:
        """Return one commit; None if there is no such version, or its file was cleaned up."""
        if version not in self._commits:
            commit = super().commit(version)
            if commit is None:
                return None
            self._commits[version] = commit
        return self._commits[version]

    def table_id(self) -> str | None:
        """Return the ID that Delta assigned when the table was created; None if there is no table."""
        if self._table_id is None or self._is_another():
            self._table_id = super().table_id()
        return self._table_id

    def _is_another(self) -> bool:
        return bool(self._versions) and self._text(self._versions[-1]) != self._last


@dataclass(frozen=True)
class CachedChain(Chain):
    """A chain whose Delta logs are cached for repeated checks; tables in a catalog are read each time."""

    known: dict[str, CachedLog] = field(default_factory=dict, compare=False)

    def commit_log(self, table: Table, *, at_one_moment: bool = False) -> DeltaLog:
        """Return a table's log, with its cached commits."""
        at = self.lake.at(table)
        if is_name(at):
            return super().commit_log(table, at_one_moment=at_one_moment)
        if at not in self.known:
            self.known[at] = CachedLog(files_at(self.lake.root, self.spark), at)
        return self.known[at]


def cached(chain: Chain) -> CachedChain:
    """Return a chain with cached Delta logs, for repeated checks."""
    return CachedChain(**{attribute.name: getattr(chain, attribute.name) for attribute in fields(chain)})
