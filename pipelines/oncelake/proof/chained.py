"""This is where each batch of a table is held against the one before it, or against the stage's first table."""

from bisect import bisect_left
from collections.abc import Iterator

from oncelake.exactly_once.commit import Note
from oncelake.exactly_once.positions import same_position
from oncelake.proof.link import batch_words, named
from oncelake.proof.ranges import between, goes_back, is_offsets
from oncelake.proof.record import Proven
from oncelake.proof.span import Span


def chained(span: Span, source: str) -> Iterator[str]:
    """Hold each batch of a stage's first table against the one before it."""
    last: Note | Proven | None = span.start
    for commit in span.commits:
        note = commit.note
        assert note is not None
        yield from (f"{named(commit)} {what}" for what in _misfits(last, note, source))
        last = note


def _misfits(last: Note | Proven | None, note: Note, source: str) -> Iterator[str]:
    end = last.end if last else None
    batch_id = last.batch_id if last else -1
    if note.carries:
        if (note.batch_id, True) != (batch_id, same_position(note.end, end)):
            where = between(end, note.end, source)
            yield f"goes on from batch {note.batch_id}, {where}; the last one was batch {batch_id}"
        return
    if note.batch_id == batch_id:
        yield f"applies batch {batch_id} a second time: {between(end, note.before, source)}"
        return
    if note.batch_id != batch_id + 1:
        yield f"{f'follows batch {batch_id}' if last else 'is the first'}: {_ids(batch_id, note.batch_id)}"
    if last and note.query_id != last.query_id:
        yield f"is of query {note.query_id}; the last batch was of query {last.query_id}, and no recovery is between"
    if (last or not is_offsets(note.before)) and not same_position(note.before, end):
        yield f"does not begin where {f'batch {batch_id}' if last else source} {'ended' if last else 'begins'}: " + (
            f"it {between(end, note.before, source)}"
        )
    if goes_back(note.before, note.end, source):
        yield f"ends before it begins: it {between(note.before, note.end, source)}"


def _ids(last: int, batch_id: int) -> str:
    if batch_id <= last:
        return f"batch {batch_id} was there before"
    return f"{batch_words(list(range(last + 1, batch_id)))} missing"


def listed_beside(span: Span, first: Span) -> Iterator[str]:
    """Hold the batches of a table that only some write to against what the stage's first table says of it."""
    covered = {each.note.batch_id: each.note for each in first.commits if each.note}
    ids: list[int] = []
    for commit in span.commits:
        note = commit.note
        assert note is not None
        if not note.carries:
            before = ids[-1] if ids else (span.start.batch_id if span.start else -1)
            if note.batch_id <= before:
                yield f"{named(commit)} follows batch {before}: {_ids(before, note.batch_id)}"
            if not _is_of(covered.get(note.batch_id), note):
                yield f"{named(commit)} is of no batch in {first.table}, or covers another range than there"
        ids.append(note.batch_id)
    yield from _lacking(span, first, ids)


def _is_of(one: Note | None, note: Note) -> bool:
    """Tell whether two tables' commits are of one batch; after a recovery the first's may carry another query id."""
    return one is not None and same_position(one.end, note.end)


def _lacking(span: Span, first: Span, ids: list[int]) -> Iterator[str]:
    """Find batches that the first table knows of and the other one does not hold, or the other way round."""
    name, known = str(span.table), sorted(ids)
    earlier = span.start.batch_id if span.start else None
    for commit in first.commits:
        note = commit.note
        if note is None or note.carries or name not in note.beside:
            continue
        place = bisect_left(known, note.batch_id)
        held, expected = known[place - 1] if place else None, note.beside[name]
        covered = held is None and earlier is not None and (expected is None or expected <= earlier)
        if expected != held and not covered:
            last, there = ("none" if each is None else each for each in (expected, held))
            yield f"{named(commit)} of {first.table} says that batch {last} was the last before it in {name}, " + (
                f"which holds batch {there}"
            )
