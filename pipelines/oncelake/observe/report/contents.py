"""Content of the page: the sentences at the top and the rows of its tables."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median
from typing import Any, Literal

from oncelake.common.lake import BRONZE, DUPLICATES, QUARANTINE, SILVER
from oncelake.common.wording import count_of, duration, number, share, size
from oncelake.exactly_once.link import Claim
from oncelake.observe.report.facts import ERRORS, GROUPS, BatchFacts, ChangeFacts, Facts, LinesFacts, PeriodFacts
from oncelake.observe.report.figures import stage_colours

Tone = Literal["good", "bad", "open"]
# At most this many entries of a long list are shown, and this many commands for the lines behind peaks.
LISTED, COMMANDS = 10, 3


WORDS = (
    ("Line", "one entry of a log; a record of several lines, such as a stack trace, counts as one"),
    ("Bronze", "the table of every line as it came, with its origin"),
    ("Silver", "the table of the lines that could be read: time, level, message"),
    (
        "Quarantine",
        "the table of the lines that broke a rule, with the rule; they count nowhere until they are replayed",
    ),
    ("Gold", "the tables of counts and other measures, per window of time"),
    ("Serving", "the copies of gold tables in a database"),
    ("Stage", "one step from a table to the next; each remembers how far it has read"),
    ("Batch", "the lines that a stage processes in one go, and writes in one commit"),
    ("Commit", "one change of a table: all of it is there, or nothing"),
    ("Backlog", "what a stage has not read yet"),
    ("Freshness", "how old a line is, from its planning in bronze, when it counts in a table"),
    ("Late line", "a line whose time is before that of a line in an earlier batch"),
    ("Proof", "the comparison of every table with the one before it, from the source on"),
    ("Template", "the text that messages share; what differs is a placeholder such as <n>"),
)


@dataclass(frozen=True)
class ChangeWords:
    """One row of the table of changes, in words."""

    name: str
    meaning: str
    by: str
    value: str
    before: str
    change: str


@dataclass(frozen=True)
class ReportVerdict:
    """The result of the proof as a headline and a sentence; `tone` selects the color."""

    tone: Tone
    headline: str
    detail: str = ""


def verdict(facts: Facts) -> ReportVerdict:
    """Return the result of the proof in words."""
    proof = facts.proof
    broken = next((link for link in proof.links if not link.holds), None)
    if broken is not None:
        return ReportVerdict("bad", f"DOES NOT HOLD: {broken.name}", broken.said)
    if proof.made == "not possible":
        return ReportVerdict("open", "Not proven: the proof did not finish", proof.said)
    if not facts.tables:
        return ReportVerdict("open", "Nothing has been ingested yet", "There is no table. Run: oncelake run")
    if proof.made == "left out":
        return ReportVerdict(
            "open", "Not proven here: the proof was skipped", "Run: oncelake prove, or the report without --no-proof"
        )
    claim = Claim(proof.lines, proof.links, proof.in_records)
    lines, links = f"{claim.counted}, {'counted' if proof.lines == 1 else 'each'}", count_of(len(proof.links), "link")
    if claim.compared < proof.lines:
        lines = f"{claim.compared:,} of {claim.counted}, each"
    detail = f"{links} from the source to the last table, checked in {duration(proof.seconds)}"
    if claim.uncompared:
        detail += f"; not compared: {', '.join(claim.uncompared)}"
    if proof.behind:
        detail += "; it does not cover later commits yet"
    return ReportVerdict("good", f"Every link holds: {lines} exactly once", detail)


def attention(facts: Facts) -> Iterator[str]:
    """Yield the warnings of the report that are not links of the proof: stages, alerts, accepted losses, checks."""
    if facts.begun:
        yield facts.begun
    yield from (f"alert {alert.alert} is open: {alert.when}" for alert in facts.alerts if alert.state == "open")
    yield from (f"alert {alert.alert} is not sent: {alert.failed}" for alert in facts.alerts if alert.failed)
    for stage in facts.stages:
        if not stage.may_start:
            yield stage.detail
        for warning in stage.warnings:
            yield f"{stage.stage}: {warning}"
    for batch in facts.batches:
        if batch.lost:
            yield f"{batch.stage}: batch {batch.batch_id} accepted a loss: {', '.join(batch.lost)}"
    for part, why in facts.troubles.items():
        yield f"{part} could not be read: {why}"


def balance(facts: Facts) -> str:
    """Return in words how the lines of bronze divide into silver, quarantine and repeats."""
    in_bronze = [table.rows for table in facts.tables if table.name.startswith(f"{BRONZE.layer}.")]
    bronze = None if None in in_bronze or not in_bronze else sum(rows or 0 for rows in in_bronze)
    silver, refused = (facts.lines_of(str(table)) for table in (SILVER, QUARANTINE))
    if bronze is None or silver is None or refused is None:
        return "Rows could not be counted in every table"
    dropped = facts.rows(str(DUPLICATES)) if facts.table(str(DUPLICATES)) else None
    waits = bronze - silver - refused - (dropped or 0)
    masked = ", ".join(f"{rule} {count:,}" for rule, count in facts.masked.items())
    text = f"{count_of(bronze, 'line')} in bronze = {silver:,} in silver + {refused:,} in quarantine"
    text += f" + {dropped:,} dropped as repeats" if dropped is not None else ""
    if waits > 0:
        text = f"{text} + {waits:,} that silver has not read yet"
    elif waits:
        text = f"{text}, {-waits:,} more than bronze has"
    return f"{text}. Masked before bronze: {masked}" if masked else text


def contents(facts: Facts) -> dict[str, Any]:
    """Return all values that the template uses."""
    lines = facts.lines
    bins = zip(lines.starts, lines.errors, lines.all, strict=True) if lines else ()
    most = sorted((peak for peak in bins if peak[1]), key=lambda peak: (-peak[1], peak[0]))[: LISTED // 2]
    return {
        "changes": list(changes(facts.period)) if facts.period else [],
        "groups": GROUPS,
        "words": WORDS,
        "f": facts,
        "v": verdict(facts),
        "notices": list(attention(facts)),
        "balance": balance(facts),
        "layers": list(_layers(facts)),
        "newest": max(
            (batch for batch in facts.batches if batch.freshness is not None and not batch.stage.startswith("bronze")),
            key=lambda batch: batch.committed_ms,
            default=None,
        ),
        "peaks": most,
        "peak_lines": [] if lines is None else [*_lines_commands(lines, [start for start, _, _ in most])][:COMMANDS],
        "stages": list(stage_colours(batch.stage for batch in facts.batches)),
        "sums": list(_sums(facts)),
        "warned": [batch for batch in reversed(facts.batches) if batch.warned][:LISTED],
    }


def changes(period: PeriodFacts) -> Iterator[ChangeWords]:
    """Yield each figure's change in words: a difference in the figure's own unit, for lines also as a share."""
    for change in period.changes:
        value, before = _in_words(change.value, change.unit), _in_words(change.before, change.unit)
        yield ChangeWords(change.name, change.meaning, change.by, value, before, _difference(change))


def _in_words(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "seconds":
        return duration(float(value))
    return share(value, 100) if unit == "percent" else number(int(value))


def _difference(change: ChangeFacts) -> str:
    if change.value is None or change.before is None:
        return "–"
    by = change.value - change.before
    if not by:
        return "no change"
    sign = "+" if by > 0 else "−"
    if change.unit == "seconds":
        return f"{sign}{duration(float(abs(by)))}"
    if change.unit == "percent":
        return f"{sign}{abs(by):.2f} points"
    # a narrow column breaks between the two numbers, not before the percent sign
    relative = f" ({sign}{share(abs(by), change.before)})".replace(" %", "\u00a0%") if change.before else ""
    return f"{sign}{number(int(abs(by)))}{relative}"


def _lines_commands(lines: LinesFacts, starts: Iterable[int]) -> Iterator[str]:
    """Yield the commands that show the errors of some bins; none if a bin is more than one window of a gold table."""
    for start in starts if lines.key else ():
        for level in ERRORS:
            if level in lines.levels and lines.levels[level][lines.starts.index(start)]:
                at = f"{datetime.fromtimestamp(start, UTC):%Y-%m-%dT%H:%M:%S}".removesuffix(":00")
                yield f"oncelake lines {lines.table} --at {at} --key {lines.key}={level}"


def _layers(facts: Facts) -> Iterator[tuple[str, list[tuple[str, int | None, str]]]]:
    """Yield each layer with its tables: name, rows, and a line of details. Served tables come from their stages."""
    for layer in ("bronze", "silver", "gold"):
        entries = [
            (table.name.split(".")[1], table.rows, f"version {table.version:,}, {size(table.size or 0)}")
            for table in facts.tables
            if table.name.startswith(f"{layer}.")
        ]
        if entries:
            yield layer, entries
    served = [stage for stage in facts.stages if stage.stage.startswith("serving.")]
    if served:
        yield "serving", [(stage.stage.split(".")[1], stage.rows, f"batch {stage.batch_id}") for stage in served]


def _sums(facts: Facts) -> Iterator[dict[str, Any]]:
    """Yield the totals and medians of each stage's batches."""
    by_stage: dict[str, list[BatchFacts]] = {}
    for batch in facts.batches:
        by_stage.setdefault(batch.stage, []).append(batch)
    for stage, batches in by_stage.items():
        seconds = [batch.seconds for batch in batches]
        fresh = [batch.freshness for batch in batches if batch.freshness is not None]
        yield {
            "stage": stage,
            "count": len(batches),
            "rows": sum(batch.rows for batch in batches),
            "seconds": median(seconds),
            "longest": max(seconds),
            "rate": median(batch.rate for batch in batches),
            "freshness": median(fresh) if fresh else None,
        }
