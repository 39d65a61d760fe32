"""Collect what changed in a period against the period before, and the peaks of errors with their messages.

Lines and errors count in the period of their log time. Quarantine counts by the time at which a line was ingested,
because a refused line may have no time, and freshness by the time of a batch's commit.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import Any
from urllib.parse import unquote, urlparse

from oncelake.common.lake import QUARANTINE, SILVER
from oncelake.common.table_rows import TableRows
from oncelake.engine.chain import Chain
from oncelake.gold.declaration import LOG_TIME
from oncelake.observe.record import LOOK
from oncelake.observe.report.facts import ERRORS, BatchFacts, ChangeFacts, MessageFacts, PeakFacts, PeriodFacts
from oncelake.observe.report.lines import LineCounts, bin_start, counted, in_period
from oncelake.observe.report.period import Period
from oncelake.observe.report.raw_line import BEGINNING, RawLines
from oncelake.observe.report.shell import trace_command
from oncelake.observe.report.templates import grouped
from oncelake.silver.schema import SOURCE

# At most this many peaks, templates of a peak, and rules are shown.
PEAKS, TEMPLATES, RULES = 3, 3, 3
# At most this many errors of a peak are read.
SAMPLE = 2_000
# A peak is at least this long; two peaks are at least this far apart, or they are one.
PEAK_SECONDS, APART = 60, 900
# A span with fewer errors than this share of the highest one is no peak.
_LOW = 0.1
# At most this many spans are looked at for peaks; those close to a higher one are left out.
_CANDIDATES = 500
_IS_ERROR = "level IN ({})".format(", ".join(f"'{level}'" for level in ERRORS))
# What names the line of a row of silver.
_ORIGIN = ("level", "topic", "partition", "offset", "file", SOURCE.name)


@dataclass(frozen=True)
class PeriodEvents:
    """Collects what happened in a period.

    Attributes:
        chain: the chain.
        rows: answers queries over the tables; Spark reads a line of a file again to name it.
        period: the period.
    """

    chain: Chain
    rows: TableRows
    period: Period

    def facts(self, batches: Sequence[BatchFacts]) -> PeriodFacts:
        """Return what happened in the period; the batches are the newest ones of each stage."""
        counts = counted(self.chain, self.rows, self._both)
        changes = [*(self._lines(counts) if counts else ()), *self._quarantine(), *freshness(batches, self.period)]
        return PeriodFacts(
            self.period.since_ms,
            self.period.until_ms,
            self.period.before.since_ms,
            counts.table if counts else str(SILVER),
            counts.every if counts else 1,
            tuple(changes),
            tuple(self._peaks(counts)) if counts else (),
        )

    @property
    def _both(self) -> Period:
        """The period, and the one before it."""
        return Period(self.period.before.since, self.period.until)

    @property
    def _since(self) -> int:
        return int(self.period.since.timestamp())

    def _lines(self, counts: LineCounts) -> Iterator[ChangeFacts]:
        now = "c.at >= :now"
        sums = {
            "lines": now,
            "lines_before": f"NOT {now}",
            "errors": f"{now} AND c.{_IS_ERROR}",
            "errors_before": f"NOT {now} AND c.{_IS_ERROR}",
        }
        columns = (
            f"CAST(sum(CASE WHEN {chosen} THEN c.lines END) AS BIGINT) AS {name}" for name, chosen in sums.items()
        )
        (row,) = counts.query.records(f"SELECT {', '.join(columns)} FROM {{query}} c", now=self._since)
        totals = {name: int(row[name] or 0) for name in sums}
        yield ChangeFacts("Lines", "all lines that count", "lines", "log time", totals["lines"], totals["lines_before"])
        meaning = "lines of level ERROR or FATAL"
        yield ChangeFacts("Errors", meaning, "lines", "log time", totals["errors"], totals["errors_before"])
        shares = (_percent(totals[f"errors{suffix}"], totals[f"lines{suffix}"]) for suffix in ("", "_before"))
        yield ChangeFacts("Share of errors", "errors of all lines", "percent", "log time", *shares)

    def _quarantine(self) -> Iterator[ChangeFacts]:
        if self.chain.commit_log(QUARANTINE).newest() is None:
            return
        columns = "t.ingested_at >= :now AS now, t.reasons, monotonically_increasing_id() AS id"
        rows = in_period(self.rows, self.chain.lake.at(QUARANTINE), columns, self._both, "ingested_at")
        in_all = rows.records(
            "SELECT '' AS rule, r.now, count(*) AS lines FROM {query} r GROUP BY r.now", now=self.period.since
        )
        by_rule = rows.records(
            "SELECT e.reason.rule AS rule, e.now, count(DISTINCT e.id) AS lines "
            "FROM (SELECT r.now, r.id, explode(r.reasons) AS reason FROM {query} r) e GROUP BY e.reason.rule, e.now",
            now=self.period.since,
        )
        counts = {(row["rule"], row["now"]): row["lines"] for row in (*in_all, *by_rule)}
        yield _in_quarantine("In quarantine", "lines that broke a rule; they count nowhere", counts, "")
        rules = sorted({rule for rule, _ in counts if rule}, key=lambda rule: (-_most(counts, rule), rule))
        for rule in rules[:RULES]:
            yield _in_quarantine(f"In quarantine: {rule}", "lines that broke this rule", counts, rule)

    def _peaks(self, counts: LineCounts) -> Iterator[PeakFacts]:
        seconds = -(-PEAK_SECONDS // counts.every) * counts.every
        highest = counts.query.records(
            f"SELECT s.start, s.errors, s.lines FROM (SELECT {bin_start(seconds)} AS start, "
            f"CAST(sum(CASE WHEN c.{_IS_ERROR} THEN c.lines ELSE 0 END) AS BIGINT) AS errors, "
            "CAST(sum(c.lines) AS BIGINT) AS lines FROM {query} c WHERE c.at >= :now GROUP BY 1) s "
            f"WHERE s.errors > 0 ORDER BY s.errors DESC, s.start LIMIT {_CANDIDATES}",
            now=self._since,
        )
        for row in apart(highest):
            read, messages = self._messages(row["start"], seconds)
            yield PeakFacts(row["start"], seconds, int(row["errors"]), int(row["lines"]), read, messages)

    def _messages(self, start: int, seconds: int) -> tuple[int, tuple[MessageFacts, ...]]:
        """Return how many errors of a peak were read, and their most frequent templates."""
        first = datetime.fromtimestamp(start, UTC)
        span = Period(max(first, self.period.since), min(first + timedelta(seconds=seconds), self.period.until))
        at = self.chain.lake.at(SILVER)
        origin = [name for name in _ORIGIN if name in self.rows.columns(at)]
        columns = [
            *(f"t.{name} AS {name}" for name in origin),
            f"{BEGINNING.format('t.message')} AS message",
            f"unix_micros(t.{LOG_TIME}) AS log_micros",
            "unix_micros(t.ingested_at) AS ingested_micros",
        ]
        errors = in_period(self.rows, at, ", ".join(columns), span)
        # an order, so that another look at the same lines has the same examples
        order = ", ".join(f"r.{name}" for name in ("log_micros", "ingested_micros", "message", *origin))
        read = errors.records(f"SELECT * FROM {{query}} r WHERE r.{_IS_ERROR} ORDER BY {order} LIMIT {SAMPLE}")
        examples = {row["message"]: row for row in reversed(read)}
        groups = grouped(row["message"] for row in read)[:TEMPLATES]
        return len(read), tuple(
            MessageFacts(group.template, group.count, group.example, self._trace(examples[group.example]))
            for group in groups
        )

    def _trace(self, row: Mapping[str, Any]) -> str | None:
        """Return the command that traces a line of silver; the line itself is in bronze.

        `trace` refuses a lake whose tables are in a catalog.
        """
        if self.chain.lake.catalog is not None:
            return None
        if row["topic"] is not None:
            return trace_command(f"{row['topic']}/{row['partition']}/{row['offset']}".encode())
        line = RawLines(self.chain, self.rows).line(row)
        if line is None:
            return None
        return trace_command(os.fsencode(unquote(urlparse(row["file"]).path, errors="surrogateescape")) + b":" + line)


def apart(highest: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the peaks among the highest spans: a span close to a higher one, or much lower, is no peak of its own."""
    peaks: list[Mapping[str, Any]] = []
    for row in highest:
        if row["errors"] >= _LOW * highest[0]["errors"] and all(
            abs(row["start"] - peak["start"]) >= APART for peak in peaks
        ):
            peaks.append(row)
    return peaks[:PEAKS]


def freshness(batches: Sequence[BatchFacts], period: Period) -> Iterator[ChangeFacts]:
    """Yield the median and the longest freshness of the gold batches in the period and before.

    A value is None if there is no batch, or if the newest commits that were read do not reach back to its start.
    """
    gold = [batch for batch in batches if batch.stage.startswith("gold.")]
    by_stage: dict[str, list[int]] = {}
    for batch in gold:
        by_stage.setdefault(batch.stage, []).append(batch.committed_ms)
    # a stage whose oldest commits were not read is known from the oldest one that was read
    known = max((min(times) for times in by_stage.values() if len(times) >= LOOK), default=0)
    values = {
        span: [
            batch.freshness
            for batch in gold
            if batch.freshness is not None and span.since_ms <= batch.committed_ms < span.until_ms
        ]
        for span in (period, period.before)
        if span.since_ms >= known
    }
    meaning = "from the planning of a line's bronze batch to its count in gold"
    for name, one in (("Freshness, median", median), ("Freshness, longest", max)):
        both = (one(seconds) if (seconds := values.get(span)) else None for span in (period, period.before))
        yield ChangeFacts(name, meaning, "seconds", "commit time", *both)


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 3) if whole else None


def _in_quarantine(name: str, meaning: str, counts: Mapping[tuple[str, bool], int], rule: str) -> ChangeFacts:
    return ChangeFacts(name, meaning, "lines", "ingest time", counts.get((rule, True), 0), counts.get((rule, False), 0))


def _most(counts: Mapping[tuple[str, bool], int], rule: str) -> int:
    return max(counts.get((rule, True), 0), counts.get((rule, False), 0))
