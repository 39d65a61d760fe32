"""What the checkpoint of any query records of a batch's input, besides the range: its files, and where a topic begins.

Spark's position in a directory only counts lists of files, which are in `sources/0`. The range of the first batch has
no beginning; that of a topic is in `sources/0/0`. Source: FileStreamSourceLog and KafkaSourceInitialOffsetWriter.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping

from oncelake.common.errors import StateError
from oncelake.exactly_once.checkpoint import position, sound_text
from oncelake.exactly_once.files import Files, lines_of

PUT_BACK = "Put the checkpoint back that this query had, and leave it to Spark alone"
# The keys of what a commit records.
FILES, BEGINS = "files", "begins"


def input_of(files: Files, checkpoint: str, before: str | None, end: str | None) -> Mapping[str, str]:
    """Return a hash of the files of a batch; of the first batch of a topic, a hash of where it begins.

    Args:
        files: where the checkpoint is.
        checkpoint: the query's checkpoint directory.
        before: the position before the batch.
        end: the position after it.

    Raises:
        StateError: the checkpoint lacks a list of files.
    """
    first, last = (list_number(at) for at in (before, end))
    if last is None:
        begins = beginning(files, checkpoint) if before is None else None
        return {BEGINS: hashlib.sha256(begins.encode()).hexdigest()} if begins else {}
    known = hashlib.sha256()
    for number in range(-1 if first is None else first, last):
        for line in sorted(_listed(files, f"{checkpoint}/sources/0", number + 1)):
            known.update(f"{line}\n".encode())
    return {FILES: known.hexdigest()}


def beginning(files: Files, checkpoint: str) -> str | None:
    """Return where the first batch begins, as JSON; None if the checkpoint does not record it."""
    return sound_text(files, f"{checkpoint}/sources/0/0").partition("\n")[2].strip() or None


def begins_at(begins: str | None, end: str | None) -> bool:
    """Return True if a query begins at a position, in each of its partitions, or if that is not known."""
    first, last = (_partitions(at) for at in (begins, end))
    if first is None or last is None:
        return True
    return all(first.get(topic, {}).items() >= offsets.items() for topic, offsets in last.items())


def list_number(at: str | None) -> int | None:
    """Return the number of the last list of files that a position has; None if it is one of another source."""
    value = json.loads(at) if at else None
    return int(value["logOffset"]) if isinstance(value, dict) and value.keys() == {"logOffset"} else None


def refuse_several_sources(files: Files, checkpoint: str, batch_id: int, table: str) -> None:
    """Raise StateError if a query reads several sources that are not all Delta tables: their range is not compared."""
    text = sound_text(files, f"{checkpoint}/offsets/{batch_id}")
    if len(lines_of(text)) > 3 and position(text) is None:
        raise StateError(  # guard: own-query-reads-one
            f"{table}: the query reads several sources that are not all Delta tables, and only one can be compared. "
            "Nothing was written. Write a table for each, or write them as Delta tables first"
        )


def _partitions(at: str | None) -> Mapping[str, Mapping[str, int]] | None:
    """Return the offset of each partition of each topic; None for what is no position in topics."""
    try:
        value = json.loads(at) if at else None
    except ValueError:
        return None
    of_topics = isinstance(value, dict) and all(isinstance(offsets, dict) for offsets in value.values())
    return value if of_topics else None


def _listed(files: Files, lists: str, number: int) -> Iterator[str]:
    """Yield the files of a list, each with its time; every tenth list repeats those before it, which Spark removes.

    Raises:
        StateError: there is no such list.
    """
    text = sound_text(files, f"{lists}/{number}")
    if not text:
        stems = (name.removesuffix(".compact") for name in files.names(lists) if name.endswith(".compact"))
        compact = min((int(stem) for stem in stems if stem.isdigit() and int(stem) >= number), default=None)
        text = sound_text(files, f"{lists}/{compact}.compact")
    if not text:
        raise StateError(  # guard: own-batch-files-known
            f"{lists}/{number}, the list of the files of a batch, is missing. Nothing was written. {PUT_BACK}"
        )
    for line in lines_of(text)[1:]:
        entry = json.loads(line)
        if entry["batchId"] == number:
            yield json.dumps([entry["path"], entry["timestamp"]])
