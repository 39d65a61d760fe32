"""Count late lines: those with a time before the latest time in an earlier batch.

A line's lateness is the difference between its own time and the latest time in all earlier batches. The result depends
only on the log and the batches, not on the clock: if you ingest last year's log today, the same lines are late as last
year. Lines that are out of order within one batch are not late.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from oncelake.common.lake import SILVER
from oncelake.common.table_rows import FileStatistics, TableRows
from oncelake.engine.chain import Chain
from oncelake.gold.declaration import LOG_TIME
from oncelake.observe.report.facts import LateFacts
from oncelake.observe.report.remembered import Remembered
from oncelake.quality.reasons import at_micros

# The spans of lateness, each with its upper bound in seconds; a span starts where the one before ends.
SPANS = {"up to a minute": 60, "up to an hour": 3600, "up to a day": 86_400, "more than a day": 2**62}
_TABLE = "rows"
# A batch is named by the time at which it was planned, in milliseconds, which all of its lines have.
_LINES = f"SELECT unix_millis(t.ingested_at) AS batch, unix_seconds(t.{LOG_TIME}) AS at FROM {{rows}} t"
_BATCHES = f"""
SELECT r.batch, min(r.at) AS first, max(r.at) AS last, count(*) AS lines
FROM ({_LINES}) r WHERE r.batch IS NOT NULL GROUP BY r.batch
"""
_COUNTS = ", ".join(
    f"count(CASE WHEN l.late > {low} AND l.late <= {high} THEN 1 END) AS late_{number}"
    for number, (low, high) in enumerate(pairwise([0, *SPANS.values()]))
)
# Only DuckDB is asked this.
_LATE = f"""
SELECT l.batch, {_COUNTS}, max(l.late) AS most
FROM (
    SELECT k.batch, k.newest - r.at AS late
    FROM ({_LINES}) r JOIN (SELECT explode(:batches) AS batch, explode(:newest) AS newest) k ON k.batch = r.batch
) l
WHERE l.late > 0 GROUP BY l.batch
"""
_WHOLE = f"""
SELECT count(*) AS lines, max(l.late) AS most,
    count(DISTINCT CASE WHEN l.late > 0 THEN l.batch END) AS batches, {_COUNTS}
FROM (
    SELECT /*+ BROADCAST(k) */ r.batch, k.newest - r.at AS late FROM ({_LINES}) r JOIN (
        SELECT b.batch, max(b.last) OVER (ORDER BY b.batch ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS newest
        FROM ({_BATCHES}) b
    ) k ON k.batch = r.batch
) l
"""


def late_lines(chain: Chain, rows: TableRows, remembered: Remembered) -> LateFacts | None:
    """Count the late lines of silver; None if there is no silver table.

    Without Spark, a data file is read only if the statistics of the Delta log do not show that none of its lines is
    late, and only once. Spark reads two narrow columns of all of silver, twice.

    Args:
        chain: the chain.
        rows: answers queries over silver.
        remembered: what earlier looks found in silver's data files.
    """
    if chain.commit_log(SILVER).newest() is None:
        return None
    at = chain.lake.at(SILVER)
    return LateByFile(rows, at).facts(remembered) or _whole(rows, at)


def _whole(rows: TableRows, at: str) -> LateFacts:
    (totals,) = rows.records(_WHOLE, {_TABLE: (at, None)})
    by = {name: totals[f"late_{number}"] for number, name in enumerate(SPANS)}
    return LateFacts(totals["lines"], by, max(totals["most"] or 0, 0), totals["batches"])


@dataclass(frozen=True)
class _LateLines:
    """The late lines of a batch in some data files.

    Attributes:
        newest: the latest time in all earlier batches, in seconds since 1970.
        by: the number of lines per span of `SPANS`.
        most: the largest lateness, in seconds.
    """

    newest: int
    by: Sequence[int]
    most: int


@dataclass(frozen=True)
class _Block:
    """Some data files of silver.

    Attributes:
        lines: the number of lines in them.
        times: by batch, the first and the last time of its lines, in seconds since 1970; without a batch that has none.
        late: by batch, its late lines, as far as they were counted.
    """

    lines: int
    times: Mapping[int, tuple[int, int]]
    late: dict[int, _LateLines] = field(default_factory=dict)

    def late_batches(self, newest: Mapping[int, int]) -> list[int]:
        """Return the batches with late lines, given the latest time before each batch."""
        return [batch for batch, (first, _) in self.times.items() if batch in newest and first < newest[batch]]


@dataclass(frozen=True)
class LateByFile:
    """Counts late lines in the data files of silver.

    Attributes:
        rows: answers queries over silver.
        at: the place of silver.
    """

    rows: TableRows
    at: str

    def facts(self, remembered: Remembered) -> LateFacts | None:
        """Return the facts; None if Spark must read silver."""
        files = self.rows.files(self.at)
        if files is None:
            return None
        by_name = {file.name: file for file in files}
        blocks = remembered.of("late lines", by_name, lambda names: self._block([by_name[name] for name in names]))
        if blocks is None:
            return None
        newest = _newest_before(blocks.values())
        counted = [self._late_lines(names, block, newest) for names, block in blocks.items()]
        late = [lines for lines in counted if lines is not None]
        if len(late) < len(counted):
            return None
        of_batches = [lines for by_batch in late for lines in by_batch.values()]
        by = {name: sum(lines.by[number] for lines in of_batches) for number, name in enumerate(SPANS)}
        most = max((lines.most for lines in of_batches), default=0)
        batches = {batch for by_batch in late for batch in by_batch}
        return LateFacts(sum(block.lines for block in blocks.values()), by, most, len(batches))

    def _block(self, files: Sequence[FileStatistics]) -> _Block | None:
        """Return what some data files hold; those whose statistics do not tell it are read."""
        parts = {file.name: part for file in files if (part := _part(file)) is not None}
        others = {file.name for file in files} - set(parts)
        batches = list(parts.values())
        if others:
            answer = self.rows.without_spark(_BATCHES, {_TABLE: (self.at, None)}, files=others)
            if answer is None:
                return None
            batches += [(row["batch"], row["first"], row["last"], row["lines"]) for row in answer]
        times: dict[int, tuple[int, int]] = {}
        for batch, first, last, _ in batches:
            if first is not None and last is not None:
                known = times.get(batch, (first, last))
                times[batch] = min(first, known[0]), max(last, known[1])
        return _Block(sum(lines for *_, lines in batches), times)

    def _late_lines(
        self, names: frozenset[str], block: _Block, newest: Mapping[int, int]
    ) -> dict[int, _LateLines] | None:
        """Return the late lines of a block by batch, and count those that are not known yet; None if Spark must."""
        batches = block.late_batches(newest)
        # guard: late-lines-counted-again
        due = [batch for batch in batches if batch not in block.late or block.late[batch].newest != newest[batch]]
        if due:
            answer = self.rows.without_spark(
                _LATE,
                {_TABLE: (self.at, None)},
                between=("ingested_at", at_micros(1000 * min(due)), at_micros(1000 * max(due))),
                files=names,
                batches=due,
                newest=[newest[batch] for batch in due],
            )
            if answer is None:
                return None
            counts = {row["batch"]: row for row in answer}
            for batch in due:
                row = counts.get(batch, {})
                by = [row.get(f"late_{number}", 0) for number in range(len(SPANS))]
                block.late[batch] = _LateLines(newest[batch], by, row.get("most", 0))
        return {batch: block.late[batch] for batch in batches if block.late[batch].most}


def _part(file: FileStatistics) -> tuple[int, int | None, int | None, int] | None:
    """Return the batch of a data file, its first and last time, and its lines; None if it must be read for that.

    The log cuts times to milliseconds, so their seconds are exact.
    """
    if file.rows is None or not {LOG_TIME, "ingested_at"} <= file.times.keys():
        return None
    begin, end = (micros // 1000 for micros in file.times["ingested_at"])
    if begin != end:  # guard: late-lines-of-one-batch
        return None
    first, last = (micros // 1_000_000 for micros in file.times[LOG_TIME])
    return begin, first, last, file.rows


def _newest_before(blocks: Iterable[_Block]) -> dict[int, int]:
    """Return the latest time in the batches before each batch; nothing for the first one."""
    last: dict[int, int] = {}
    for block in blocks:
        for batch, (_, at) in block.times.items():
            last[batch] = max(at, last.get(batch, at))
    newest: dict[int, int] = {}
    before: int | None = None
    for batch in sorted(last):
        if before is not None:
            newest[batch] = before
        before = last[batch] if before is None else max(before, last[batch])
    return newest
