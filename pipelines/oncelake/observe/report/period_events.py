"""Collect what changed in a period against the period before, and the peaks of errors with their messages.

Lines and errors count in the period of their log time. Quarantine counts by the time at which a line was ingested,
because a refused line may have no time, and freshness by the time of a batch's commit.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median
from urllib.parse import unquote, urlparse

from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F

from oncelake.common import tables
from oncelake.common.lake import QUARANTINE, SILVER, Table
from oncelake.engine.chain import Chain
from oncelake.engine.sources import bronze_tables
from oncelake.gold.declaration import LOG_TIME
from oncelake.observe.record import LOOK
from oncelake.observe.report.facts import ERRORS, BatchFacts, ChangeFacts, MessageFacts, PeakFacts, PeriodFacts
from oncelake.observe.report.lines import LineCounts, bin_start, counted, in_period, timestamp
from oncelake.observe.report.period import Period
from oncelake.observe.report.shell import trace_command
from oncelake.observe.report.templates import LONGEST, grouped
from oncelake.quality.reasons import at_micros
from oncelake.silver.parsing.events import by_event
from oncelake.silver.schema import SOURCE
from oncelake.silver.transform import is_accepted

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


@dataclass(frozen=True)
class PeriodEvents:
    """Collects what happened in a period."""

    chain: Chain
    spark: SparkSession
    period: Period

    def facts(self, batches: Sequence[BatchFacts]) -> PeriodFacts:
        """Return what happened in the period; the batches are the newest ones of each stage."""
        counts = counted(self.chain, self.spark, Period(self.period.before.since, self.period.until))
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

    def _lines(self, counts: LineCounts) -> Iterator[ChangeFacts]:
        is_error = F.col("level").isin(list(ERRORS))
        now = F.col("at") >= int(self.period.since.timestamp())
        sums = {
            "lines": F.sum(F.when(now, F.col("lines"))),
            "lines_before": F.sum(F.when(~now, F.col("lines"))),
            "errors": F.sum(F.when(now & is_error, F.col("lines"))),
            "errors_before": F.sum(F.when(~now & is_error, F.col("lines"))),
        }
        row = counts.rows.agg(*(column.alias(name) for name, column in sums.items())).collect()[0]
        totals = {name: int(row[name] or 0) for name in sums}
        yield ChangeFacts("Lines", "all lines that count", "lines", "log time", totals["lines"], totals["lines_before"])
        meaning = "lines of level ERROR or FATAL"
        yield ChangeFacts("Errors", meaning, "lines", "log time", totals["errors"], totals["errors_before"])
        shares = (_percent(totals[f"errors{suffix}"], totals[f"lines{suffix}"]) for suffix in ("", "_before"))
        yield ChangeFacts("Share of errors", "errors of all lines", "percent", "log time", *shares)

    def _quarantine(self) -> Iterator[ChangeFacts]:
        if self.chain.commit_log(QUARANTINE).newest() is None:
            return
        both = Period(self.period.before.since, self.period.until)
        rows = in_period(tables.read(self.spark, self.chain.lake.at(QUARANTINE)), both, "ingested_at")
        now = (F.col("ingested_at") >= timestamp(self.period.since)).alias("now")
        by_rule = rows.select(now, F.explode(F.array_append(F.array_distinct("reasons.rule"), F.lit(""))).alias("rule"))
        counts = {(row[0], row[1]): row[2] for row in by_rule.groupBy("rule", "now").agg(F.count(F.lit(1))).collect()}
        yield _in_quarantine("In quarantine", "lines that broke a rule; they count nowhere", counts, "")
        rules = sorted({rule for rule, _ in counts if rule}, key=lambda rule: (-_most(counts, rule), rule))
        for rule in rules[:RULES]:
            yield _in_quarantine(f"In quarantine: {rule}", "lines that broke this rule", counts, rule)

    def _peaks(self, counts: LineCounts) -> Iterator[PeakFacts]:
        seconds = -(-PEAK_SECONDS // counts.every) * counts.every
        errors = F.sum(F.when(F.col("level").isin(list(ERRORS)), F.col("lines")).otherwise(0))
        rows = counts.rows.where(F.col("at") >= int(self.period.since.timestamp())).groupBy(bin_start(seconds))
        spans = rows.agg(errors.alias("errors"), F.sum("lines").alias("lines")).where("errors > 0")
        highest = spans.orderBy(F.desc("errors"), "start").limit(_CANDIDATES).collect()
        for row in apart(highest):
            read, messages = self._messages(row["start"], seconds)
            yield PeakFacts(row["start"], seconds, int(row["errors"]), int(row["lines"]), read, messages)

    def _messages(self, start: int, seconds: int) -> tuple[int, tuple[MessageFacts, ...]]:
        """Return how many errors of a peak were read, and their most frequent templates."""
        first = datetime.fromtimestamp(start, UTC)
        span = Period(max(first, self.period.since), min(first + timedelta(seconds=seconds), self.period.until))
        silver = tables.read(self.spark, self.chain.lake.at(SILVER))
        rows = in_period(silver, span)
        rows = rows.where(F.col("level").isin(list(ERRORS)))
        origin = [
            name for name in ("level", "topic", "partition", "offset", "file", SOURCE.name) if name in rows.columns
        ]
        columns = [
            *(F.col(name) for name in origin),
            _beginning(F.col("message")).alias("message"),
            F.unix_micros(LOG_TIME).alias("log_micros"),
            F.unix_micros("ingested_at").alias("ingested_micros"),
        ]
        read = rows.select(*columns).limit(SAMPLE).collect()
        examples = {row["message"]: row for row in reversed(read)}
        groups = grouped(row["message"] for row in read)[:TEMPLATES]
        return len(read), tuple(
            MessageFacts(group.template, group.count, group.example, self._trace(examples[group.example]))
            for group in groups
        )

    def _trace(self, row: Row) -> str | None:
        """Return the command that traces a line of silver; the line itself is in bronze.

        `trace` refuses a lake whose tables are in a catalog.
        """
        if self.chain.lake.catalog is not None:
            return None
        if row["topic"] is not None:
            return trace_command(f"{row['topic']}/{row['partition']}/{row['offset']}".encode())
        line = self._raw(row)
        if line is None:
            return None
        return trace_command(os.fsencode(unquote(urlparse(row["file"]).path, errors="surrogateescape")) + b":" + line)

    def _raw(self, row: Row) -> bytes | None:
        """Return the first line of the record in bronze that a row of silver was made of; None if it is not found."""
        for table in self._bronze(row):
            bronze = tables.read(self.spark, self.chain.lake.at(table))
            same = (F.col("file") == F.lit(row["file"])) & (F.unix_micros("ingested_at") == row["ingested_micros"])
            at = at_micros(row["ingested_micros"])
            rows = bronze.where(same & (F.col("ingested_at") == timestamp(at)))
            rows = rows.withColumn(SOURCE.name, F.lit(table.name)) if self.chain.silver.named else rows
            lines = by_event(self.chain.silver.parse(rows)).where(is_accepted())
            lines = lines.where((F.unix_micros(LOG_TIME) == row["log_micros"]) & (F.col("level") == row["level"]))
            matches = (
                lines.where(_beginning(F.col("message")) == F.lit(row["message"])).select("value").limit(1).collect()
            )
            if matches:
                return bytes(matches[0]["value"]).split(b"\n", 1)[0].removesuffix(b"\r")
        return None

    def _bronze(self, row: Row) -> Iterator[Table]:
        """Yield the bronze tables that a row of silver can come from."""
        named = row.asDict().get(SOURCE.name)
        for table in bronze_tables(self.chain):
            known = table.name in self.chain.silver.parsers and self.chain.commit_log(table).newest() is not None
            if known and named in (None, table.name):
                yield table


def apart(highest: Sequence[Row]) -> list[Row]:
    """Return the peaks among the highest spans: a span close to a higher one, or much lower, is no peak of its own."""
    peaks: list[Row] = []
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


def _beginning(message: Column) -> Column:
    return F.substring(F.coalesce(message, F.lit("")), 1, LONGEST)


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 3) if whole else None


def _in_quarantine(name: str, meaning: str, counts: Mapping[tuple[str, bool], int], rule: str) -> ChangeFacts:
    return ChangeFacts(name, meaning, "lines", "ingest time", counts.get((rule, True), 0), counts.get((rule, False), 0))


def _most(counts: Mapping[tuple[str, bool], int], rule: str) -> int:
    return max(counts.get((rule, True), 0), counts.get((rule, False), 0))
