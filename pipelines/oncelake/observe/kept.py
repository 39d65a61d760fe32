"""This is where what was read of a table's log is kept, so that looking at it again costs only what is new.

A commit never changes once it is there. What can change is which table stands in a place (a rebuild makes it anew) and
how far back its log reaches; so the newest commit known is read again at every look, and the log is listed again from
time to time.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields

from oncelake.common.lake import Table
from oncelake.common.tables import is_name
from oncelake.engine.chain import Chain
from oncelake.exactly_once.delta_log import Commit, DeltaLog
from oncelake.exactly_once.files import Files, files_at

# After so many seconds the log is listed anew: Delta removes old commits by and by.
RELIST = 60.0


class KeptLog(DeltaLog):
    """A Delta table's log that remembers its commits."""

    def __init__(self, files: Files, table_path: str, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(files, table_path)
        self._clock = clock
        self._listed = clock()
        self._versions: list[int] = []
        self._last: str | None = None
        self._commits: dict[int, Commit] = {}
        self._table_id: str | None = None

    def versions(self) -> list[int]:
        """Give the versions whose commit files are still there, oldest first; none when there is no table."""
        if not self._versions or self._is_another() or self._clock() - self._listed > RELIST:
            self._commits, self._table_id, self._listed = {}, None, self._clock()
            self._versions = super().versions()
        else:
            self._versions += [commit.version for commit in self.since(self._versions[-1])]
        self._last = self._text(self._versions[-1]) if self._versions else None
        return list(self._versions)

    def newest(self) -> int | None:
        """Give the newest version; None when there is no table."""
        return next(reversed(self.versions()), None)

    def commit(self, version: int) -> Commit | None:
        """Read one commit; None when there is no such version, or its file was cleaned up."""
        if version not in self._commits:
            found = super().commit(version)
            if found is None:
                return None
            self._commits[version] = found
        return self._commits[version]

    def table_id(self) -> str | None:
        """Give the id that Delta gave the table when it was made; None when there is no table."""
        if self._table_id is None or self._is_another():
            self._table_id = super().table_id()
        return self._table_id

    def _is_another(self) -> bool:
        return bool(self._versions) and self._text(self._versions[-1]) != self._last


@dataclass(frozen=True)
class Kept(Chain):
    """A chain that is looked at again and again; tables in a catalog are asked anew each time."""

    known: dict[str, KeptLog] = field(default_factory=dict, compare=False)

    def commit_log(self, table: Table, *, at_one_moment: bool = False) -> DeltaLog:
        """Give a table's log, with all that was read of it before."""
        at = self.lake.at(table)
        if is_name(at):
            return super().commit_log(table, at_one_moment=at_one_moment)
        if at not in self.known:
            self.known[at] = KeptLog(files_at(self.lake.root, self.spark), at)
        return self.known[at]


def kept(chain: Chain) -> Kept:
    """Get ready to look at a chain again and again."""
    return Kept(**{each.name: getattr(chain, each.name) for each in fields(chain)})
