"""This is where each batch of a table is held against the one before it, or against the stage's first table."""

from bisect import bisect_left
from collections.abc import Iterator

from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.positions import same_position
from oncelake.proof.naming import batch_words, named, or_none
from oncelake.proof.ranges import between, goes_back, is_offsets
from oncelake.proof.record import Proven
from oncelake.proof.span import Span


def chained(span: Span, source: str) -> Iterator[str]:
    """Hold each batch of a stage's first table against the one before it."""
    last: CommitMetadata | Proven | None = span.start
    for commit in span.commits:
        metadata = commit.metadata
        assert metadata is not None
        yield from (f"{named(commit)} {what}" for what in _misfits(last, metadata, source))
        last = metadata


def _misfits(last: CommitMetadata | Proven | None, metadata: CommitMetadata, source: str) -> Iterator[str]:
    end = last.end if last else None
    batch_id = last.batch_id if last else -1
    if metadata.carries:
        if (metadata.batch_id, True) != (batch_id, same_position(metadata.end, end)):
            where = between(end, metadata.end, source)
            yield f"goes on from batch {metadata.batch_id}, {where}; the last one was batch {batch_id}"
        return
    if metadata.batch_id == batch_id:
        yield f"applies batch {batch_id} a second time: {between(end, metadata.before, source)}"
        return
    if metadata.batch_id != batch_id + 1:
        yield f"{f'follows batch {batch_id}' if last else 'is the first'}: {_ids(batch_id, metadata.batch_id)}"
    if last and metadata.query_id != last.query_id:
        was = f"the last batch was of query {last.query_id}"
        yield f"is of query {metadata.query_id}; {was}, and no recovery is between"
    if (last or not is_offsets(metadata.before)) and not same_position(metadata.before, end):
        yield f"does not begin where {f'batch {batch_id}' if last else source} {'ended' if last else 'begins'}: " + (
            f"it {between(end, metadata.before, source)}"
        )
    if goes_back(metadata.before, metadata.end, source):
        yield f"ends before it begins: it {between(metadata.before, metadata.end, source)}"


def _ids(last: int, batch_id: int) -> str:
    if batch_id <= last:
        return f"batch {batch_id} was there before"
    return f"{batch_words(list(range(last + 1, batch_id)))} missing"


def listed_beside(span: Span, first: Span) -> Iterator[str]:
    """Hold the batches of a table that only some write to against what the stage's first table says of it."""
    covered = {each.metadata.batch_id: each.metadata for each in first.commits if each.metadata}
    ids: list[int] = []
    for commit in span.commits:
        metadata = commit.metadata
        assert metadata is not None
        if not metadata.carries:
            before = ids[-1] if ids else (span.start.batch_id if span.start else -1)
            if metadata.batch_id <= before:
                yield f"{named(commit)} follows batch {before}: {_ids(before, metadata.batch_id)}"
            if not _is_of(covered.get(metadata.batch_id), metadata):
                yield f"{named(commit)} is of no batch in {first.table}, or covers another range than there"
        ids.append(metadata.batch_id)
    yield from _lacking(span, first, ids)


def _is_of(one: CommitMetadata | None, metadata: CommitMetadata) -> bool:
    """Tell whether two tables' commits are of one batch; after a recovery the first's may carry another query id."""
    return one is not None and same_position(one.end, metadata.end)


def _lacking(span: Span, first: Span, ids: list[int]) -> Iterator[str]:
    """Find batches that the first table knows of and the other one does not hold, or the other way round."""
    name, known = str(span.table), sorted(ids)
    earlier = span.start.batch_id if span.start else None
    for commit in first.commits:
        metadata = commit.metadata
        if metadata is None or metadata.carries or name not in metadata.beside:
            continue
        place = bisect_left(known, metadata.batch_id)
        held, expected = known[place - 1] if place else None, metadata.beside[name]
        covered = held is None and earlier is not None and (expected is None or expected <= earlier)
        if expected != held and not covered:
            yield (
                f"{named(commit)} of {first.table} says that batch {or_none(expected)} was the last before it in "
                f"{name}, which holds batch {or_none(held)}"
            )
