"""Registry of the kinds of source: each value of `source.kind` with its class."""

from collections.abc import Mapping

from oncelake.bronze.records import Records
from oncelake.bronze.settings import SourceSettings
from oncelake.bronze.sources.files import FilesKind
from oncelake.bronze.sources.kafka import KafkaKind
from oncelake.bronze.sources.kind import SourceKind
from oncelake.bronze.sources.tail import TailKind

KINDS: Mapping[str, type[SourceKind]] = {"files": FilesKind, "kafka": KafkaKind, "tail": TailKind}


def kind_of(source: SourceSettings, records: Records | None = None) -> SourceKind:
    """Return the configured source.

    Args:
        source: the section `source`.
        records: how the log format puts several lines together; only reading needs it.
    """
    return KINDS[source.kind](source, records)
