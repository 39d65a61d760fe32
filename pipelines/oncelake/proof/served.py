"""Compare a served table with the table that it follows: its position, and every row up to it."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlalchemy import Connection, select

from oncelake.common.lake import SILVER, Table
from oncelake.common.models import shown
from oncelake.common.tables import read_version
from oncelake.common.wording import HANDFUL, count_of, listed
from oncelake.engine.chain import Chain
from oncelake.exactly_once.delta_log import ChainCommit, DeltaLog
from oncelake.exactly_once.positions import TablePosition, is_whole, same_position, version_of
from oncelake.gold.declaration import LOG_TIME
from oncelake.gold.transform import aggregate
from oncelake.proof.link import Link
from oncelake.proof.positions import goes_back
from oncelake.serving import position
from oncelake.serving.database import keep_alive
from oncelake.serving.rows import held, meanwhile
from oncelake.serving.served import Served
from oncelake.serving.tables import KEY, served_table

Values = Sequence[Any]


@dataclass(frozen=True)
class ServedProof:
    """The last links: the position recorded in the database, and every row up to it.

    The rows and their position are read in one snapshot of the database, so a concurrent run changes no result.
    """

    chain: Chain
    spark: SparkSession
    served: Served

    def links(self) -> Iterator[Link]:
        """Check the position, then compare the rows.

        Raises:
            TargetError: the database refuses the connection, or does not answer.
        """
        last = self.served.state().last
        yield self._position(last)
        yield self.served.database.snapshot(self._rows)

    def _position(self, last: ChainCommit | None) -> Link:
        name, follows = f"position of {self.served.table}", str(self.served.follows)
        if last is None:
            return Link.of(name, self.served.table, (), "no batch has been served yet")
        metadata, commit_log = last.metadata, self.chain.commit_log(self.served.follows)
        said, found, newest = [], TablePosition.parse(metadata.end), commit_log.newest() or 0
        if found is None or found.table_id != commit_log.table_id():
            said.append(
                f"it is of table {found.table_id if found else 'none'}, but {follows} is {commit_log.table_id()}"
            )
        elif found.version > newest + 1:
            said.append(f"it is at version {found.version}, but {follows} ends at {newest}")
        elif goes_back(metadata.before, metadata.end, follows):
            said.append(f"batch {metadata.batch_id} goes from {metadata.before} back to {metadata.end}")
        elif same_position(metadata.before, metadata.end):
            said.append(f"batch {metadata.batch_id} ends where it begins, at {metadata.end}")
        elif self.served.mode == "transactional":
            said.extend(self._uncounted(last, commit_log))
        batches, rows = count_of(metadata.batch_id + 1, "batch"), count_of(last.rows_in_all, "row")
        return Link.of(name, self.served.table, said, f"{batches}, {rows} read, up to {_words(metadata.end, follows)}")

    def _uncounted(self, last: ChainCommit, commit_log: DeltaLog) -> Iterator[str]:
        """Compare the row count of all batches with that of the source up to the position: no gap, no overlap."""
        if not is_whole(last.metadata.end):
            return
        there, counted = commit_log.rows_before(version_of(last.metadata.end)), last.rows_in_all
        if there is not None and there != counted:
            read = count_of(counted, "row was read", "rows were read")
            yield f"{read} in all batches, but {self.served.follows} has {there:,} up to the position"

    def _rows(self, connection: Connection) -> Link:
        last = position.recorded(connection, self.served.stage)
        end = last.metadata.end if last else None
        if not is_whole(end):
            well = "the position is inside a version; rows are compared when the version is read completely"
            return Link.of(f"{self.served.follows} → {self.served.table}", self.served.table, (), well)
        return compare_on(connection, self.served, self._expected(version_of(end) - 1))

    def _expected(self, version: int) -> DataFrame:
        """Return the gold table's rows at the version that the served table has read."""
        lake, gold = self.chain.lake, Table("gold", self.served.table.name)
        if self.served.mode == "idempotent":
            return self._rows_of(lake.at(gold), version)
        table_state = self.chain.commit_log(gold).state()
        end = table_state.end
        if table_state.last and is_whole(end) and version_of(end) == version + 1:
            return self._rows_of(lake.at(gold), table_state.last.version)
        return aggregate(self._rows_of(lake.at(SILVER), version), self.served.declared)

    def _rows_of(self, path: str, version: int) -> DataFrame:
        return read_version(self.spark, path, max(version, 0)).where(F.lit(version >= 0))


def compare_on(connection: Connection, served: Served, gold: DataFrame) -> Link:
    """Compare a served table with rows of the gold table's columns, within one snapshot of the database."""
    computed = held(gold, served.declared, lambda: 0, nul=served.keeps_nul)
    with ExitStack() as held_rows:
        rows = meanwhile(lambda: held_rows.enter_context(computed), idle=lambda: keep_alive(connection))
        table = served_table(served.table.name, served.declared, rows.schema)
        found = connection.execution_options(yield_per=10_000).execute(
            select(*(table.c[each] for each in rows.names)).order_by(table.primary_key.columns[0])
        )
        total, differing = 0, 0
        first: list[str] = []
        for one, other in _beside(rows.read(), (tuple(row) for row in found)):
            total += 1
            if one == other:
                continue
            differing += 1
            if len(first) < HANDFUL:
                first.append(_difference(served, one, other, rows.names))
    said = f"{count_of(total, 'row')}, equal value by value in {served.database}"
    if differing:
        said = listed(first, differing, separator="; ")
    return Link(f"{served.follows} → {served.table}", str(served.table), holds=not differing, said=said)


def _difference(served: Served, one: Values | None, other: Values | None, names: Sequence[str]) -> str:
    row = dict(zip(names, one if one is not None else other or (), strict=True))
    keys = "".join(f", {name} {shown(row[name])}" for name in served.declared.by)
    where, follows, place = f"{row[LOG_TIME]}{keys}", served.follows, served.database
    if one is None:
        return f"{where}: is in {place}, but not in {follows}"
    if other is None:
        return f"{where}: is missing in {place}"
    unlike = [name for name, a, b in zip(names, one, other, strict=True) if a != b and name != KEY]
    values = dict(zip(names, other, strict=True))
    return f"{where}: " + ", ".join(
        f"{name} is {shown(values[name])} in {place}, {shown(row[name])} in {follows}" for name in unlike
    )


def _beside(expected: Iterator[Values], found: Iterator[Values]) -> Iterator[tuple[Values | None, Values | None]]:
    """Yield the rows of both sides, paired by their first column; both sides are sorted by it."""
    one, other = next(expected, None), next(found, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one[0] < other[0]):
            yield one, None
            one = next(expected, None)
        elif one is None or other[0] < one[0]:
            yield None, other
            other = next(found, None)
        else:
            yield one, other
            one, other = next(expected, None), next(found, None)


def _words(at: str | None, source: str) -> str:
    if is_whole(at):
        return f"version {version_of(at) - 1} of {source}"
    return f"a position inside version {version_of(at)} of {source}"
