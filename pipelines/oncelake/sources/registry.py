"""Registry of the kinds of source, the one module that names them: each value of `source.kind` with its class."""

import json
from collections.abc import Mapping

from oncelake.bronze.records import Records
from oncelake.bronze.settings import SourceSettings
from oncelake.exactly_once.positions import SourcePosition, TablePosition, TablesPosition
from oncelake.sources.files.kind import FilesKind
from oncelake.sources.kafka.kind import KafkaKind
from oncelake.sources.kind import SourceKind
from oncelake.sources.tail.kind import TailKind

KINDS: Mapping[str, type[SourceKind]] = {"files": FilesKind, "kafka": KafkaKind, "tail": TailKind}


def kind_of(source: SourceSettings, records: Records | None = None) -> SourceKind:
    """Return the configured source.

    Args:
        source: the section `source`.
        records: how the log format puts several lines together; only reading needs it.
    """
    return KINDS[source.kind](source, records)


def position_of(at: str | None) -> SourcePosition | None:
    """Return a position in tables or in a source of any kind; None for no position.

    Raises:
        ValueError: the text is not a position.
    """
    if not at:
        return None
    value = json.loads(at)
    of_sources = (position for kind in KINDS.values() for position in kind.positions)
    classes: tuple[type[SourcePosition], ...] = (TablePosition, TablesPosition, *of_sources)
    result = next(filter(None, (class_.of(value) for class_ in classes)), None)
    if result is None:
        raise ValueError(f"{at} is not a position")
    return result


def shared_parts(recorded: Mapping[str, str]) -> Mapping[str, str]:
    """Return the parts of a recorded source that no other source may read, by their IDs."""
    return {part: name for kind in KINDS.values() for part, name in kind.shared_parts(recorded).items()}
