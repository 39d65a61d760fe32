"""This is where it is found what others did to a table: rows they changed, and batches they took away."""

from collections.abc import Iterable, Iterator

from oncelake.common.lake import QUARANTINE, SILVER
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.ledger import Commit
from oncelake.proof.link import batch_words, named
from oncelake.proof.pin import Entry


def by_others(entries: tuple[Entry, ...]) -> Iterator[str]:
    """Find commits that changed rows and are not the chain's, and undone batches that nothing recovered."""
    for index, (commit, stands) in enumerate(entries):
        if commit.note is not None or not stands or not _matters(commit, entries[:index]):
            continue
        undone = _undone(entries[:index])
        if not commit.takes_away or (commit.operation != "RESTORE" and not undone):
            yield f"{named(commit)} changed rows and is not the chain's"
        elif undone and not _recovered(entries[index + 1 :]):
            yield f"{named(commit)} took away {batch_words(undone)}, and nothing was recovered after it"


def _matters(commit: Commit, earlier: tuple[Entry, ...]) -> bool:
    return commit.changes_data or (commit.takes_away and bool(_undone(earlier)))


def _undone(earlier: tuple[Entry, ...]) -> list[int]:
    """Give the batches that a commit took away: those that are gone since the last one that took some away."""
    gone: list[int] = []
    for commit, stands in reversed(earlier):
        if commit.note is None and stands and commit.takes_away:
            break
        if commit.note and not stands and commit.note.event is not CommitKind.RECOVERY:
            gone.append(commit.note.batch_id)
    return gone[::-1]


def _recovered(later: Iterable[Entry]) -> bool:
    following = next((each.note for each, stands in later if stands and each.note), None)
    return following is not None and following.event is CommitKind.RECOVERY


def explained(entries: tuple[Entry, ...]) -> Iterator[str]:
    """Say what was recovered or moved, what was lost with the user's leave, and what others undid again."""
    for index, (commit, stands) in enumerate(entries):
        note = commit.note
        if note is None and stands and commit.takes_away and commit.changes_data:
            undone = _undone(entries[:index])
            what = f"took away {batch_words(undone)}, which came again" if undone else "took away no batch"
            yield f"{named(commit)} {what}"
        elif note and stands and note.event is CommitKind.RECOVERY:
            yield f"{named(commit)} recovers: the query goes on as {note.query_id}"
        elif note and stands and note.event is CommitKind.REPLAY:
            yield f"{named(commit)} moved {abs(commit.rows_added):,} rows from {QUARANTINE} to {SILVER}"
        elif note and stands and note.event is CommitKind.LOSS:
            yield f"{named(commit)} accepts a loss: {', '.join(note.lost) or 'not said what'}"
