"""This is where the positions in a table's commits are followed: no gap, no overlap, nobody else's rows.

Only the log is read. Each commit of the chain says where its batch began and ended, which batch it was, and
how many rows came before; so two commits that follow each other must fit, and a batch that is missing, was
applied twice, or covers another range is seen without looking at a row.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.ledger import Commit
from oncelake.exactly_once.positions import TablePosition
from oncelake.proof.chained import chained, listed_beside
from oncelake.proof.link import Link, listed, named
from oncelake.proof.others import by_others, explained
from oncelake.proof.pin import Entry, Pinned
from oncelake.proof.span import Span


@dataclass(frozen=True)
class Followed:
    """What a table's positions point into.

    Attributes:
        name: the source, or the table that is read.
        table_id: the table's id, None for a source that is no table.
        newest: the table's newest version, None for a source that is no table.
    """

    name: str
    table_id: str | None = None
    newest: int | None = None


def follow(pinned: Pinned, source: Followed, first: Span | None = None) -> Link:
    """Follow the positions of a table.

    Args:
        pinned: the table.
        source: what its stage reads.
        first: the stage's first table, for one that only some batches write to.
    """
    span = pinned.span
    broken = list(_broken(pinned, source, first))
    said = listed(broken, separator="; ")
    notes = (*pinned.gaps, *pinned.notes, *explained(pinned.entries))
    return Link(f"positions of {span.table}", str(span.table), not broken, said or _counted(span), notes)


def _broken(pinned: Pinned, source: Followed, first: Span | None) -> Iterator[str]:
    span = pinned.span
    yield from _missing_versions(pinned.entries)
    yield from list(by_others(pinned.entries)) or ([pinned.strange] if pinned.strange and first is None else [])
    for commit in span.commits:
        yield from _receipt(commit, span)
    yield from _rows(span)
    yield from chained(span, source.name) if first is None else listed_beside(span, first)
    yield from _out_of_source(span, source)


def _counted(span: Span) -> str:
    if not span.commits:
        return f"nothing new since batch {span.start.batch_id}" if span.start else "no batch yet"
    ids = [commit.note.batch_id for commit in span.commits if commit.note]
    count = len(span.batches)
    what = "1 batch" if count == 1 else f"{count:,} batches"
    numbers = f"{ids[0]:,}" if ids[0] == ids[-1] else f"{ids[0]:,} to {ids[-1]:,}"
    rows = "1 row" if span.rows == 1 else f"{span.rows:,} rows"
    return f"{what} ({numbers}) without gap or overlap, {rows} recorded"


def _missing_versions(entries: Iterable[Entry]) -> Iterator[str]:
    for (one, _), (other, _) in pairwise(entries):
        if other.version != one.version + 1:
            yield f"the log has no commit file between versions {one.version} and {other.version}"


def _receipt(commit: Commit, span: Span) -> Iterator[str]:
    """Hold a commit against its own transaction, and against the table that it is in."""
    note = commit.note
    assert note is not None
    if note.table != str(span.table):
        yield f"{named(commit)} is a commit of {note.table}"
    if note.event is not CommitKind.RECOVERY and commit.txns.get(note.app_id) != note.txn_version:
        found = commit.txns.get(note.app_id, "none")
        yield f"{named(commit)} records transaction {found} of {note.app_id}, not {note.txn_version}"


def _rows(span: Span) -> Iterator[str]:
    rows = span.start.rows if span.start else 0
    for commit in span.commits:
        assert commit.note is not None
        if commit.note.rows != rows:
            said = f"says that {commit.note.rows:,} rows came before it"
            yield f"{named(commit)} {said}; the commits before hold {rows:,}"
            rows = commit.note.rows
        rows += commit.rows_added


def _out_of_source(span: Span, source: Followed) -> Iterator[str]:
    """Hold positions in a table against the table that is there."""
    for commit in span.commits:
        at = TablePosition.parse(commit.note.end if commit.note else None)
        if at and at.table_id != source.table_id:
            yield f"{named(commit)} read table {at.table_id}; {source.name} is table {source.table_id or 'none'}"
            return
    at, newest = TablePosition.parse(span.end), source.newest
    if at and at.table_id == source.table_id and newest is not None and at.version > newest + 1:
        yield f"{span.table} has read {source.name} up to version {at.version - 1}, which ends at version {newest}"
