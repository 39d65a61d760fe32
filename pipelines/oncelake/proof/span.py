"""This is where it is said which part of a table a proof covers."""

from dataclasses import dataclass

from oncelake.common.lake import Table
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.delta_log import Commit
from oncelake.proof.record import Proven


@dataclass(frozen=True)
class Span:
    """The part of one table that a proof covers, at a version that later commits do not change.

    A start is never inside a snapshot or a version of the source, and neither is the end. The bronze span
    that `balance` gets is cut to what the silver span read: the bronze versions from the one at which
    silver's start stands up to the one before silver's end.

    Attributes:
        path: where the table is.
        version: the version that is read.
        commits: the chain's commits whose rows are still there, after the start, oldest first; recoveries,
            losses and replays among them.
        start: where an earlier proof ended, or what the proof is limited to begins; None from the beginning.
    """

    table: Table
    path: str
    version: int
    commits: tuple[Commit, ...]
    start: Proven | None = None

    @property
    def whole(self) -> bool:
        """Whether it covers the table from its beginning."""
        return self.start is None

    @property
    def batches(self) -> tuple[Commit, ...]:
        """The commits that hold batches of rows."""
        return tuple(each for each in self.commits if each.metadata and each.metadata.event is CommitKind.BATCH)

    @property
    def replays(self) -> tuple[Commit, ...]:
        """The commits that moved rows from a stage's second table to its first."""
        return tuple(each for each in self.commits if each.metadata and each.metadata.event is CommitKind.REPLAY)

    @property
    def before(self) -> str | None:
        """The source's position where it begins; None from the source's beginning."""
        if self.start is not None:
            return self.start.end
        first = self.commits[0].metadata if self.commits else None
        return first.before if first else None

    @property
    def end(self) -> str | None:
        """The source's position where it ends; None when it holds nothing and nothing came before."""
        last = self.commits[-1].metadata if self.commits else None
        return last.end if last else self.before

    @property
    def rows(self) -> int:
        """Rows that its commits put into the table."""
        return sum(each.rows_added for each in self.commits)

    @property
    def rows_in_all(self) -> int:
        """Rows that the chain put into the table, up to the span's end."""
        return (self.start.rows if self.start else 0) + self.rows

    def planned_ms(self) -> set[int]:
        """Give when its batches were planned, in milliseconds: `ingested_at` of a bronze batch's rows."""
        return {planned_ms(each) for each in self.batches}


def planned_ms(commit: Commit) -> int:
    """Give when a commit's batch was planned, in milliseconds."""
    assert commit.metadata is not None
    return commit.metadata.planned_ms
