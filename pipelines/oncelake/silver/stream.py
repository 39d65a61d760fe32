"""This is where bronze's lines are parsed into silver, and those that break a rule into quarantine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from oncelake.common.errors import GateError, ReceiptError, ReplayError
from oncelake.common.lake import QUARANTINE, SILVER
from oncelake.common.models import shown
from oncelake.common.wording import count_of
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.recovery import rebuild_hint
from oncelake.exactly_once.write import Written
from oncelake.quality.gate import Check, Counted, Judged, Level
from oncelake.quality.reasons import line_of
from oncelake.quality.suite import Rule
from oncelake.silver.format import LogFormat
from oncelake.silver.transform import TimeLimits, accepted, breaks, is_accepted, is_taken_apart, parse, quarantined

# What the counts of rules are called by, before the rule's name.
_RULE = "rule "
# So many refused lines are named when a gate stops a batch.
_HANDFUL = 3


@dataclass(frozen=True)
class Silver:
    """What silver's rows are made by.

    Attributes:
        rules: what the suite expects of a row.
        gate: the limits on a batch as a whole.
    """

    log_format: LogFormat
    limits: TimeLimits
    rules: Sequence[Rule] = ()
    gate: Sequence[Check] = ()

    def parse(self, bronze: DataFrame) -> DataFrame:
        """Parse bronze's lines and judge them by the rules."""
        return parse(bronze, self.log_format, self.limits, self.rules)

    @property
    def stops(self) -> bool:
        """Whether a limit can stop a batch; it is counted before it is written then."""
        return any(check.level == "fail" for check in self.gate)

    @property
    def aggregates(self) -> list[Column]:
        """What a batch is counted by, each under a name of its own."""
        rows = Judged(is_taken_apart(), is_accepted())
        wanted = {"lines": F.count(F.lit(1)), "refused": F.count_if(~is_accepted())}
        wanted |= {f"{_RULE}{rule}": F.count_if(broken) for rule, broken in breaks(self.rules).items()}
        for check in self.gate:
            wanted |= check.measures(rows)
        return [each.alias(name) for name, each in wanted.items()]

    def breaches(self, counted: Counted, level: Level) -> dict[str, str]:
        """Give the limits of a level that a batch does not keep, each with what is wrong."""
        held = ((check.limit, check.breach(counted)) for check in self.gate if check.level == level)
        return {limit: said for limit, said in held if said is not None}

    def counted(self, seen: dict[str, Any], batch: Batch) -> Counted:
        """Give what the aggregates came to."""
        rules = {name.removeprefix(_RULE): n for name, n in seen.items() if name.startswith(_RULE) and n}
        return Counted(seen["lines"], seen["refused"], rules, seen, batch.metadata(SILVER).planned)


def write(silver: Silver) -> Callable[[DataFrame, Batch], None]:
    """Give the work of a batch: one pass that writes silver and counts, a second where there is something to tell.

    Quarantine takes the refused lines, and its commit says how many rows broke each rule. Where a limit can stop
    the batch, a pass that only counts comes first.
    """

    def write_batch(lines: DataFrame, batch: Batch) -> None:
        parsed = silver.parse(lines)
        if batch.holds(SILVER) and batch.holds(QUARANTINE):
            _must_add_up(batch.append(SILVER, accepted(parsed)), batch.append(QUARANTINE, quarantined(parsed)))
            return
        counted = write_silver(parsed, silver, batch)
        warned = _warned(silver, counted, batch)
        if counted.rules or warned:
            quality = {"lines": counted.lines, "rules": counted.rules, "warned": warned}
            rows = batch.append(QUARANTINE, quarantined(parsed), quality).commit.rows_added
            if rows != counted.refused:
                raise ReceiptError(
                    f"{QUARANTINE} took {count_of(rows, 'row')} of batch {batch.batch_id}, "
                    f"{count_of(counted.refused, 'was refused', 'were refused')}. {rebuild_hint('silver')}"
                )

    return write_batch


def write_silver(parsed: DataFrame, silver: Silver, batch: Batch) -> Counted:
    """Write silver, unless it holds the batch already, and count what was refused."""
    if batch.holds(SILVER):
        if not batch.same_rules(SILVER):
            raise ReplayError(
                f"batch {batch.batch_id} is half written: {SILVER} has it, {QUARANTINE} does not, and the log format, "
                "silver's time limits or its suite were changed since; start once with the former ones, then change "
                "them"
            )
        rows = rows_held(batch.append(SILVER, accepted(parsed)))
        counted = _count(parsed, silver, batch)
    elif silver.stops:
        counted = _count(parsed, silver, batch)
        _stop(parsed, silver, counted, batch)
        rows = batch.append(SILVER, accepted(parsed)).commit.rows_added
    else:
        counts = Observation()
        observed = parsed.observe(counts, *silver.aggregates)
        rows = batch.append(SILVER, accepted(observed)).commit.rows_added
        counted = silver.counted(counts.get, batch)
    if rows is not None and rows + counted.refused != counted.lines:
        raise ReceiptError(
            f"{SILVER} took {count_of(rows, 'row')} of batch {batch.batch_id}, of {count_of(counted.lines, 'line')} "
            f"{count_of(counted.refused, 'was refused', 'were refused')}: the sum is not right. "
            f"{rebuild_hint('silver')}"
        )
    return counted


def rows_held(written: Written) -> int | None:
    """Return the rows of a batch that a table held already; None when a later commit carries the batch on."""
    return written.commit.rows_added if written.commit.metadata.event is CommitKind.BATCH else None


def _must_add_up(in_silver: Written, in_quarantine: Written) -> None:
    """Refuse a batch again whose tables do not hold its lines, by what quarantine's commit says that these were."""
    silver, quarantine, metadata = rows_held(in_silver), rows_held(in_quarantine), in_quarantine.commit.metadata
    lines = metadata.quality.get("lines")
    if silver is not None and quarantine is not None and lines is not None and silver + quarantine != lines:
        raise ReceiptError(
            f"{SILVER} took {count_of(silver, 'row')} of batch {metadata.batch_id} and {QUARANTINE} {quarantine:,}, "
            f"of {count_of(lines, 'line')}: the sum is not right. {rebuild_hint('silver')}"
        )


def _count(parsed: DataFrame, silver: Silver, batch: Batch) -> Counted:
    (seen,) = parsed.agg(*silver.aggregates).collect()
    return silver.counted(seen.asDict(), batch)


def _stop(parsed: DataFrame, silver: Silver, counted: Counted, batch: Batch) -> None:
    """Raise when a limit says so, before anything of the batch is written."""
    breaches = silver.breaches(counted, "fail")
    if not breaches:
        return
    said = "; ".join(f"{limit}: {each}" for limit, each in breaches.items())
    broken = ", ".join(f"{rule} {count:,}" for rule, count in counted.rules.items())
    raise GateError(
        f"the gate holds batch {batch.batch_id} back. {said}. {f'Rules broken: {broken}. ' if broken else ''}"
        f"{_lines(parsed)}Nothing of the batch was written; change the rule, the limit or the format, and it goes on "
        "at the next start"
    )


def _lines(parsed: DataFrame) -> str:
    """Name a few of the refused lines, where there are any."""
    found = parsed.where(~is_accepted()).select(line_of(F.col("file")).alias("origin"), "file", "value").limit(_HANDFUL)
    named = [
        row["origin"] if row["file"] is None else f"{row['origin']}:{_text(row['value'])}" for row in found.collect()
    ]
    return f"Among the lines: {'; '.join(named)}. " if named else ""


def _text(value: bytearray | None) -> str:
    return shown(bytes(value or b"").decode("utf-8", "replace"))


def _warned(silver: Silver, counted: Counted, batch: Batch) -> list[str]:
    """Tell of the limits that a batch does not keep, and give their names."""
    breaches = silver.breaches(counted, "warn")
    batch.warned.extend(f"{limit}: {said}" for limit, said in breaches.items())
    return list(breaches)
