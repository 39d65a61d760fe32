"""What the links of a source's proof are made from, and the link of a source that only answers for itself."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from oncelake.bronze.mask_versions import MaskVersions
from oncelake.common.lake import BRONZE, Table, bronze_stage
from oncelake.common.table_rows import TableRows
from oncelake.common.wording import count_of
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.delta_log import DeltaLog
from oncelake.exactly_once.files import Files, files_by
from oncelake.exactly_once.link import Link, Uncompared
from oncelake.exactly_once.source import Backlog, Source
from oncelake.exactly_once.span import Span
from oncelake.exactly_once.state import Diagnosis

# The stage is looked at again after these seconds: a concurrent run may be between two of its writes.
_PAUSES = (0.0, 0.2, 0.5, 1.0)


@dataclass(frozen=True)
class StageView:
    """A stage of bronze at one moment: its source, the metadata of its last batch, and whether it may start."""

    source: Source
    metadata: CommitMetadata | None
    diagnosis: Diagnosis


@dataclass(frozen=True)
class Ingestion:
    """A bronze table beside its source, for those who compare the two.

    Attributes:
        rows: answers queries over the table; it starts Spark where that is needed.
        root: the lake's root.
        table: the bronze table.
        place: its path, or its quoted name in a catalog.
        log: its Delta log.
        source: the source.
        look: looks at the stage as it is now.
        versions: the versions of the rules that mask data.
        span: the commits to check; None if the table does not exist.
        deep: True to read the source again.
    """

    rows: TableRows
    root: str
    table: Table
    place: str
    log: DeltaLog
    source: Source
    look: Callable[[], StageView]
    versions: MaskVersions
    span: Span | None = None
    deep: bool = False

    @property
    def stage(self) -> str:
        """The name of the stage that reads the source."""
        return bronze_stage(self.table.name)

    @property
    def spark(self) -> SparkSession:
        """The session; starts Spark if there is none yet."""
        return self.rows.spark()

    @property
    def files(self) -> Files:
        """The access to the lake's files."""
        return files_by(self.root, self.rows.spark)

    def diagnosis(self) -> Diagnosis:
        """Return whether the stage would start; look again if it would not."""
        for pause in _PAUSES:
            time.sleep(pause)
            diagnosis = self.look().diagnosis
            if diagnosis.may_start:
                break
        return diagnosis


def source_link(name: str, ingestion: Ingestion) -> Link:
    """Return the link of a source whose kind has no links of its own: it compares no row."""
    metadata = ingestion.log.state().metadata
    may_start = ingestion.diagnosis().may_start
    link = what_waits(name, ingestion.source, metadata, ingestion.table, may_start=may_start)
    rows = ingestion.span.rows_in_all if ingestion.span is not None else 0
    return link.without(*Uncompared.of_lines(rows, "whose source is of a kind that the proof cannot read"))


def what_waits(
    name: str, source: Source, metadata: CommitMetadata | None, bronze: Table = BRONZE, *, may_start: bool
) -> Link:
    """Prove that bronze can continue from its position, and that the next run reads the waiting input.

    Args:
        name: the source's name.
        source: the source.
        metadata: the commit metadata of bronze's last batch.
        bronze: the bronze table of the source.
        may_start: True if the next run of bronze would start.
    """
    at = metadata.end if metadata else None
    trouble, waits = source.trouble(at, None, metadata.source if metadata else {}), source.backlog(at)
    state = "read up to the end"
    if waits.count != 0:
        state = _waiting(waits, "waits for the next run", "wait for the next run")
    if trouble is not None:
        state = trouble.seen
    elif waits.count != 0 and not may_start:
        words = _waiting(waits, "waits and no run reads it", "wait and no run reads them")
        state = f"{words}, as bronze would not start"
    holds = trouble is None and (waits.count == 0 or may_start)  # guard: any-source-can-continue
    link = Link(f"{name} → {bronze}", str(bronze), holds, state)
    if waits.count is None:
        return link.without(Uncompared(1, f"an unknown number of {waits.unit} that wait for the next run", waits=True))
    return link.without(*Uncompared.waiting(waits.count, waits.unit.removesuffix("s"), "for the next run"))


def _waiting(waits: Backlog, one: str, several: str) -> str:
    if waits.count is None:
        return f"an unknown number of {waits.unit} {several}"
    return count_of(waits.count, f"{waits.unit.removesuffix('s')} {one}", f"{waits.unit} {several}")
