"""Several Delta tables of the lake as the source of one stage.

Spark writes the stage's position in each table into one line of `offsets`. Spark refuses a query that reads more or
fewer tables than its checkpoint has lines, and takes the lines in the order of the query's tables. So the lines are
matched to their tables before each start, by the table ID in each line. A table that is read for the first time gets
`-`, which is how Spark writes "not read yet". No line of a table that was read ever goes: a table that the settings no
longer name stays, so every commit of the stage holds the position in it, and it can come back.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from oncelake.common.errors import StateError
from oncelake.common.lake import BRONZE
from oncelake.exactly_once.checkpoint import NOT_READ, last_batch, offset_log, position
from oncelake.exactly_once.delta_source import DeltaSource
from oncelake.exactly_once.files import Files, lines_of
from oncelake.exactly_once.positions import in_table, in_tables
from oncelake.exactly_once.source import Backlog, Source
from oncelake.exactly_once.state import Diagnosis, State


@dataclass(frozen=True)
class DeltaSources(Source):
    """Tables of the lake that one stage reads together.

    Attributes:
        declared: the tables that the settings name, by name.
        recorded: returns the source that the stage's last commit recorded.
        other: returns a table that the settings no longer name.
    """

    declared: Mapping[str, DeltaSource]
    recorded: Callable[[], Mapping[str, str]]
    other: Callable[[str], DeltaSource]

    def identity(self) -> Mapping[str, str]:
        """Return the ID of each table; one that the settings no longer name keeps the ID that was recorded."""
        ids = {name: table.commit_log.table_id() or "" for name, table in self.declared.items()}
        return {"kind": "delta", **table_ids(self.recorded()), **ids}

    def former(self) -> Mapping[str, DeltaSource]:  # guard: removed-source-keeps-reading
        """Return the tables that the stage has read and the settings no longer name, by name."""
        return {name: self.other(name) for name in table_ids(self.recorded()) if name not in self.declared}

    def trouble(self, start: str | None, end: str | None, recorded: Mapping[str, str]) -> Diagnosis | None:
        """Return a diagnosis of the first table that the stage cannot continue in; None if it can in all."""
        names = {table_id: name for name, table_id in table_ids(recorded).items()}
        starts, ends = in_tables(start), in_tables(end)
        known = dict(self._by_id())
        for table_id in starts.keys() | ends.keys():
            table = known.get(table_id) or self._named(names.get(table_id))
            if table is None:
                seen = f"a batch was planned with table {table_id}, which is none of {', '.join(self.declared)}"
                return Diagnosis(State.SOURCE_REPLACED, seen)
            diagnosis = table.trouble(starts.get(table_id), ends.get(table_id), {})
            if diagnosis is not None:
                return diagnosis
        return None

    def trouble_again(self, before: str | None, start: str | None) -> Diagnosis | None:
        """Return a diagnosis of the first table in which Spark cannot read the last batch again."""
        befores, starts = in_tables(before), in_tables(start)
        tables = ((table_id, table) for table_id, table in self._by_id() if table_id in starts)
        diagnoses = (table.trouble_again(befores.get(table_id), starts[table_id]) for table_id, table in tables)
        return next(filter(None, diagnoses), None)

    def backlog(self, at: str | None, *, changes: bool = False) -> Backlog:
        """Count the rows that were committed to the tables after a position."""
        backlogs = [table.backlog(reached, changes=changes) for table, reached in self._positions(at)]
        counts = [backlog.count for backlog in backlogs if backlog.count is not None]
        oldest = min((backlog.since_ms for backlog in backlogs if backlog.since_ms is not None), default=None)
        return Backlog(sum(counts) if len(counts) == len(backlogs) else None, "rows", oldest)

    def exhausted(self, at: str) -> bool:
        """Return True if every table is read to its end."""
        return all(_is_read(table, reached) for table, reached in self._positions(at))

    def rows_between(self, start: str | None, end: str | None) -> int | None:
        """Count the rows that the versions between two positions added."""
        starts, rows = in_tables(start), 0
        known = dict(self._by_id())
        for table_id, reached in in_tables(end).items():
            table = known.get(table_id)
            if table is None:
                if starts.get(table_id) != reached:
                    return None
                continue
            added = table.rows_between(starts.get(table_id), reached)
            if added is None:
                return None
            rows += added
        return rows

    def unread(self, at: str | None) -> list[str]:
        """Return the tables that the settings no longer name and that the stage has not read to their end."""
        ids, reached = table_ids(self.recorded()), in_tables(at)
        return [name for name, table in self.former().items() if not _is_read(table, reached.get(ids[name]))]

    def fit(self, files: Files, checkpoint: str) -> Mapping[str, DeltaSource]:
        """Match the last two `offsets` of a checkpoint to the tables, and return the tables in the order of its lines.

        Nothing changes if they match. Otherwise each file is replaced on its own. Its position stays the same, so a
        process can be killed in between, and a planned batch keeps its range.

        Raises:
            StateError: a position is of another table.
        """
        last = last_batch(files, f"{checkpoint}/offsets")
        texts = {} if last is None else {n: offset_log(files, checkpoint, n) for n in (last - 1, last) if n >= 0}
        known = {table_id: (name, table) for name, table_id, table in self._all()}
        ids = dict.fromkeys(table_id for text in texts.values() for table_id in in_tables(position(text or "")))
        for table_id in known:
            if known[table_id][0] in self.declared:
                ids.setdefault(table_id)
        for number, text in texts.items():
            fitted = _fitted(text, list(ids)) if text else None  # guard: checkpoint-lines-by-table
            if fitted is not None and fitted != text:
                files.write(f"{checkpoint}/offsets/{number}", fitted)
        unknown = [table_id for table_id in ids if table_id not in known]
        if unknown:
            # guard: checkpoint-of-known-tables
            raise StateError(f"{checkpoint}/offsets has a position in table {unknown[0]}. Run: oncelake doctor")
        return {known[table_id][0]: known[table_id][1] for table_id in ids}

    def _all(self) -> Iterator[tuple[str, str, DeltaSource]]:
        """Yield the name, the ID and the table: first those that the settings name."""
        for name, table in self.declared.items():
            yield name, table.commit_log.table_id() or "", table
        ids = table_ids(self.recorded())
        for name, table in self.former().items():
            yield name, ids[name], table

    def _by_id(self) -> Iterator[tuple[str, DeltaSource]]:
        return ((table_id, table) for _, table_id, table in self._all())

    def _named(self, name: str | None) -> DeltaSource | None:
        return self.declared.get(name) if name is not None else None

    def _positions(self, at: str | None) -> Iterator[tuple[DeltaSource, str | None]]:
        reached = in_tables(at)
        return ((table, reached.get(table.commit_log.table_id() or "")) for table in self.declared.values())


def table_ids(recorded: Mapping[str, str]) -> Mapping[str, str]:
    """Return the IDs of the tables that a commit was read from, by name; a lake with one source records no name."""
    if "table_id" in recorded:
        return {str(BRONZE): recorded["table_id"]}
    return {name: table_id for name, table_id in recorded.items() if name != "kind"}


def first_is_whole(files: Files, checkpoint: str, table_id: str | None) -> bool:  # guard: first-batch-of-several-tables
    """Return False if a query may plan again a first batch that ends within a version or snapshot of a table.

    Spark asks again only for the last batch. It is the first one of a table if the position before it has none.
    """
    last = last_batch(files, f"{checkpoint}/offsets")
    if last is None:
        return True
    before, at = (position(offset_log(files, checkpoint, n) or "") if n >= 0 else None for n in (last - 1, last))
    reached = in_table(at, table_id)
    return in_table(before, table_id) is not None or reached is None or reached.is_whole


def _is_read(table: DeltaSource, at: str | None) -> bool:
    """Return True if a table is read to its end, or is gone or empty."""
    if at is not None:
        return table.exhausted(at)
    return table.commit_log.newest() is None or not table.commit_log.state().rows


def _fitted(text: str, ids: list[str]) -> str:
    """Return the text of an `offsets` file with one line for each table."""
    reached = in_tables(position(text))
    return "\n".join([*lines_of(text)[:2], *(reached.get(table_id, NOT_READ) for table_id in ids)])
