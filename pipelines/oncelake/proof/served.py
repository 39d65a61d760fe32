"""Compare a served table with the table that it follows: its position, and every row up to it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from oncelake.common import tables
from oncelake.common.errors import OvertakenError, TargetAwayError, TargetError
from oncelake.common.lake import SILVER, Table
from oncelake.common.wording import HANDFUL, count_of, listed, shown
from oncelake.engine.chain import Chain
from oncelake.exactly_once.delta_log import ChainCommit, DeltaLog
from oncelake.exactly_once.delta_source import DeltaSource
from oncelake.exactly_once.link import Link, Uncompared
from oncelake.exactly_once.positions import TablePosition, is_whole, same_position, version_of
from oncelake.gold.declaration import LOG_TIME
from oncelake.gold.schema import schema_over
from oncelake.gold.transform import aggregate
from oncelake.proof.positions import goes_back
from oncelake.serving.rows import Rows, computed_rows, meanwhile
from oncelake.serving.served import Served
from oncelake.serving.sink import KEY, SinkBatch, SinkContent
from oncelake.serving.values import equal

Values = Sequence[Any]
# How often rows are read again because a batch was stored meanwhile.
_TRIES = 3


@dataclass(frozen=True)
class ServedProof:
    """The last links: the position recorded in the sink, and every row up to it.

    The rows and their position are of one moment, so a concurrent run changes no result.
    """

    chain: Chain
    spark: SparkSession
    served: Served

    def links(self) -> Iterator[Link]:
        """Check the position, then compare the rows.

        Raises:
            TargetError: the sink refuses the connection, or does not answer.
        """
        last = self.served.state().last
        waits = self._waits(last)
        yield self._position(last, waits).without(*waits)
        gold = Table("gold", self.served.table.name)
        if last is None and self.chain.commit_log(gold).newest() is None:
            return  # the next run makes the table, and perhaps columns of silver that it needs
        yield compare(
            self.served,
            schema_over(tables.read(self.spark, self.chain.lake.at(SILVER)), self.served.declared),
            self._gold,
        )

    def _position(self, last: ChainCommit | None, waits: Sequence[Uncompared]) -> Link:
        name, follows = f"position of {self.served.table}", str(self.served.follows)
        if last is None:  # an empty table is right only if there is nothing to serve: a rebuild may have emptied it
            empty = [f"{self.served.place} has no batch of it: {part.said}. Run: oncelake run" for part in waits]
            # guard: served-nothing-yet-fails
            return Link.of(name, self.served.table, empty, "no batch has been served yet")
        metadata, commit_log = last.metadata, self.chain.commit_log(self.served.follows)
        faults, position, newest = [], TablePosition.parse(metadata.end), commit_log.newest() or 0
        if position is None or position.table_id != commit_log.table_id():
            faults.append(  # guard: served-source-table-id
                f"it is of table {position.table_id if position else 'none'}, but {follows} is {commit_log.table_id()}"
            )
        elif position.version > newest + 1:
            # guard: served-source-table-reaches
            faults.append(f"it is at version {position.version}, but {follows} ends at {newest}")
        elif goes_back(metadata.before, metadata.end, follows):
            # guard: served-batch-goes-forward
            faults.append(f"batch {metadata.batch_id} goes from {metadata.before} back to {metadata.end}")
        elif same_position(metadata.before, metadata.end):
            # guard: served-batch-covers-something
            faults.append(f"batch {metadata.batch_id} ends where it begins, at {metadata.end}")
        elif self.served.mode == "transactional":
            faults.extend(self._uncounted(last, commit_log))
        batches, rows = count_of(metadata.batch_id + 1, "batch"), count_of(last.rows_in_all, "row")
        end = self._read(metadata.end)
        up_to = f"version {end} of" if end is not None else f"a position inside version {version_of(metadata.end)} of"
        return Link.of(name, self.served.table, faults, f"{batches}, {rows} read, up to {up_to} {follows}")

    def _waits(self, last: ChainCommit | None) -> tuple[Uncompared, ...]:  # guard: unserved-changes-are-number
        """Return what is not served yet: lines of silver, or versions of gold that change rows."""
        follows = self.served.follows
        commit_log = self.chain.commit_log(follows)
        at = TablePosition.parse(last.metadata.end if last else None)
        first = (self._source.first_unread(at) or at.version) if at else 0
        if follows == SILVER:
            lines = commit_log.state().lines - commit_log.lines_up_to(first)
            return Uncompared.waiting(lines, "line", f"for {self.served.table}", lines=lines)
        commits = map(commit_log.commit, range(first, (commit_log.newest() or 0) + 1))
        count = sum(1 for commit in commits if commit is None or commit.changes_data)
        return Uncompared.waiting(count, "change", f"in {follows} for {self.served.table}")

    def _read(self, at: str | None) -> int | None:
        """Return the last version that is read up to a position, -1 for none; None if a version is read in part."""
        position = TablePosition.parse(at)
        if position is None:
            return -1
        first = self._source.first_unread(position)
        return first - 1 if first is not None else None

    @property
    def _source(self) -> DeltaSource:
        follows = self.served.follows
        return DeltaSource(str(follows), self.chain.commit_log(follows), self.served.follows_changes)

    def _uncounted(self, last: ChainCommit, commit_log: DeltaLog) -> Iterator[str]:
        """Compare the row count of all batches with that of the source up to the position: no gap, no overlap."""
        if not is_whole(last.metadata.end):
            return
        source_rows, counted = commit_log.rows_before(version_of(last.metadata.end)), last.rows_in_all
        if source_rows is not None and source_rows != counted:
            read = count_of(counted, "row was read", "rows were read")
            # guard: served-batches-cover-source
            yield f"{read} in all batches, but {self.served.follows} has {source_rows:,} up to the position"

    def _gold(self, last: SinkBatch | None) -> DataFrame | str:
        """Return the rows that the served table must hold, or why they cannot be read."""
        after = last.after if last is not None and last.batch_id is not None else None
        end, follows = self._read(after), self.served.follows
        if end is None and self.chain.commit_log(follows).commit(version_of(after)) is not None:
            return "at a position inside a version"
        table, version = self._version_of(end) if end is not None else (follows, version_of(after))
        commit_log = self.chain.commit_log(table)
        # guard: served-at-available-gold
        if end is None or (version >= 0 and not commit_log.holds(commit_log.last_alike(version))):
            return f"at version {version} of {table}, which is gone from its log"
        rows = self._rows_of(table, version)
        return aggregate(rows, self.served.declared, wide=True) if table == SILVER else rows

    def _version_of(self, version: int) -> tuple[Table, int]:
        """Return the table and version to compare with: of gold, or of silver if gold has not read the same."""
        gold = Table("gold", self.served.table.name)
        if self.served.follows_changes:
            return gold, version
        table_state = self.chain.commit_log(gold).state()
        end = table_state.end
        if table_state.last and is_whole(end) and version_of(end) == version + 1:
            return gold, table_state.last.version
        return SILVER, version

    def _rows_of(self, table: Table, version: int) -> DataFrame:
        """Return a table's rows at a version, read at the last version with the same rows.

        Compaction may have replaced the files of the older one, and VACUUM removed them.
        """
        path = self.chain.lake.at(table)
        if version < 0:  # nothing is read yet; version 0 may have other columns than the table has now
            return tables.read(self.spark, path).where(F.lit(False))
        # guard: proof-at-same-rows
        return tables.read_version(self.spark, path, self.chain.commit_log(table).last_alike(version))


def compare(served: Served, schema: StructType, expected: Callable[[SinkBatch | None], DataFrame | str]) -> Link:
    """Compare a served table with gold's rows.

    Args:
        served: the table.
        schema: the gold table's columns and types.
        expected: returns gold's rows at the position of a batch, or why they cannot be read.
    """
    name, table = f"{served.follows} → {served.table}", str(served.table)
    if not served.sink.reads_back:
        message = f"NOT compared: {served.place} cannot read its rows (its class has no method read)"
        return Link(name, table, True, message, uncompared=(Uncompared(1, "1 table whose rows cannot be read back"),))
    for _ in range(_TRIES):
        try:
            with served.snapshot(schema) as stored:
                gold = expected(stored.last)
                if isinstance(gold, str):
                    parts = (Uncompared(1, f"1 table {gold}"),)
                    return Link(name, table, True, f"NOT compared: it is {gold}", uncompared=parts)
                return _compare(served, stored, gold)
        except OvertakenError:
            continue
        except TargetAwayError:
            raise
        except TargetError as error:  # what the sink holds cannot be right
            return Link(name, table, False, str(error))
    message = f"NOT compared: {served.place} got a batch each time while it was read; prove again when it is quiet"
    return Link(name, table, True, message, uncompared=(Uncompared(1, "1 table that is being written"),))


def _compare(served: Served, stored: SinkContent, gold: DataFrame) -> Link:
    computed = computed_rows(gold, served.declared, lambda: 0, served.sink)
    with ExitStack() as held_rows:
        rows = meanwhile(lambda: held_rows.enter_context(computed), idle=stored.idle)
        total, differing = 0, 0
        first: list[str] = []
        faults = chain(_unlike(served, rows, stored), _refused_otherwise(served, rows, stored))
        for fault in faults:
            total += 1
            if not fault:
                continue
            differing += 1  # guard: served-rows-equal-gold
            if len(first) < HANDFUL:
                first.append(fault)
    left_out = len(stored.refused)
    message = f"{count_of(total, 'row')}, equal value by value in {served.place}"
    if differing:
        message = listed(first, differing, separator="; ")
    elif left_out:
        message = f"{message}; {count_of(left_out, 'row')} in oncelake_refused, as {served.place} cannot hold a value"
    link = Link(f"{served.follows} → {served.table}", str(served.table), holds=not differing, said=message)
    why = "that the database cannot hold, in oncelake_refused"
    return link.without(Uncompared(left_out, f"{count_of(left_out, 'row')} {why}")) if left_out else link


def _unlike(served: Served, rows: Rows, stored: SinkContent) -> Iterator[str]:
    """Yield for each row how it differs from gold's, or an empty text."""
    for one, other in _beside(rows.read(), map(tuple, stored.rows)):
        # counts of a batch are missing in a row that was refused once, so it stays out until a rebuild
        if other is None and one is not None and not served.follows_changes and str(one[0]) in stored.refused:
            continue
        same = one is not None and other is not None and equal(one, other)
        yield "" if same else _difference(served, one, other, rows.names)  # guard: served-difference-named


# guard: row-served-or-refused
def _refused_otherwise(served: Served, rows: Rows, stored: SinkContent) -> Iterator[str]:
    """Yield the rows that the sink should have refused and has not, and those that it should hold."""
    unservable = set[str]()
    for row in rows.refused.read():
        unservable.add(row.key_text)
        if row.key_text not in stored.refused:
            yield f"{row}, and it is not in oncelake_refused. Run: oncelake rebuild {served.table}"
    if served.follows_changes:
        yield from (
            f"oncelake_refused has a row with the key {key}, which {served.follows} has not, or which can be held"
            for key in sorted(stored.refused - unservable)
        )


def _difference(served: Served, one: Values | None, other: Values | None, names: Sequence[str]) -> str:
    row = dict(zip(names, one if one is not None else other or (), strict=True))
    keys = "".join(f", {name} {shown(row[name])}" for name in served.declared.by)
    where, follows, place = f"{row[LOG_TIME]}{keys}", served.follows, served.place
    if one is None:
        return f"{where}: is in {place}, but not in {follows}"
    if other is None:
        return f"{where}: is missing in {place}"
    unlike = [name for name, a, b in zip(names, one, other, strict=True) if not equal([a], [b]) and name != KEY]
    values = dict(zip(names, other, strict=True))
    return f"{where}: " + ", ".join(
        f"{name} is {shown(values[name])} in {place}, {shown(row[name])} in {follows}" for name in unlike
    )


def _beside(expected: Iterator[Values], stored: Iterator[Values]) -> Iterator[tuple[Values | None, Values | None]]:
    """Yield the rows of both sides, paired by their first column; both sides are sorted by it."""
    one, other = next(expected, None), next(stored, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one[0] < other[0]):
            yield one, None
            one = next(expected, None)
        elif one is None or other[0] < one[0]:
            yield None, other
            other = next(stored, None)
        else:
            yield one, other
            one, other = next(expected, None), next(stored, None)
