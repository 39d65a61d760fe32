"""This is where silver's batches are matched with the bronze versions that they read."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.ledger import Commit
from oncelake.exactly_once.positions import is_whole, version_of
from oncelake.proof.link import batch_words
from oncelake.proof.span import Span


@dataclass(frozen=True)
class BatchGroup:
    """Batches of silver that read whole versions of bronze together; mostly one batch.

    Attributes:
        batch_ids: the batches.
        versions: the first version of bronze that they read, and the one after the last.
        taken: when the rows of these versions were taken in, in milliseconds.
        bronze: rows that bronze recorded in these versions.
        silver: rows that silver recorded in these batches.
        quarantine: rows that quarantine recorded in them.
    """

    batch_ids: tuple[int, ...]
    versions: tuple[int, int]
    taken: frozenset[int]
    bronze: int
    silver: int
    quarantine: int

    def __str__(self) -> str:
        """Name the batches."""
        return batch_words(self.batch_ids)


def groups(bronze: Span, silver: Span, quarantine: Span) -> Iterator[BatchGroup]:
    """Give silver's batches, joined until each group ends at a version's end."""
    refused: Counter[int] = Counter()
    for commit, note in quarantine.noted(CommitKind.BATCH):
        refused[note.batch_id] += commit.rows_added
    read, open_group = version_of(silver.before), []
    for commit, note in silver.noted():
        if note.event is CommitKind.BATCH:
            open_group.append(commit)
        if is_whole(note.end):
            end = version_of(note.end)
            if open_group:
                yield _group(open_group, (read, end), bronze, refused)
            read, open_group = end, []


def _group(commits: list[Commit], versions: tuple[int, int], bronze: Span, refused: Counter[int]) -> BatchGroup:
    ids = tuple(commit.note.batch_id for commit in commits if commit.note)
    sources = [each for each in bronze.noted(CommitKind.BATCH) if versions[0] <= each[0].version < versions[1]]
    return BatchGroup(
        ids,
        versions,
        frozenset(note.planned_ms for _, note in sources),
        sum(commit.rows_added for commit, _ in sources),
        sum(each.rows_added for each in commits),
        sum(refused[each] for each in set(ids)),
    )
