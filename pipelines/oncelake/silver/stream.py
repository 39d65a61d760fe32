"""Write a batch of bronze's lines to silver, repeats to duplicates, and the lines that break a rule to quarantine."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from oncelake.bronze.records import Records
from oncelake.common.errors import GateError, ReceiptError, ReplayError, reason
from oncelake.common.lake import BRONZE, DUPLICATES, QUARANTINE, SILVER
from oncelake.common.models import shown
from oncelake.common.spark.collect import PARQUET, Collected
from oncelake.common.spark.prepared import Prepared
from oncelake.common.spark.valid_text import counts_of, marks_of, recorded, warnings
from oncelake.common.wording import count_of
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.commit import CommitKind
from oncelake.exactly_once.recovery import rebuild_hint
from oncelake.exactly_once.table_version import TableVersion
from oncelake.exactly_once.write import Rows, Written
from oncelake.quality.gate import Check, Counted, Judged, Level
from oncelake.quality.reasons import line_of
from oncelake.quality.suite import Rule
from oncelake.silver import arrival, collected, collected_duplicates
from oncelake.silver.arrival import Arrivals
from oncelake.silver.duplicates import dropped, held_near, with_event, with_twin
from oncelake.silver.parsing.events import as_events, by_event, of_any_event, rows_of_lines
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.schema import EACH, EVENT, SOURCE, TWIN, with_source
from oncelake.silver.schema import QUARANTINE as QUARANTINE_SCHEMA
from oncelake.silver.schema import SILVER as SILVER_SCHEMA
from oncelake.silver.settings import Deduplicate
from oncelake.silver.transform import (
    TimeLimits,
    accepted,
    breaks,
    broken_names,
    is_accepted,
    is_taken_apart,
    parse,
    quarantined,
)
from oncelake.silver.user_transform import UserTransform

# Prefix of a rule's name in the counters of a batch.
_RULE = "rule "
# The counter of the rows of silver that the lines of a batch give.
_EVENTS = "events"
# When a gate stops a batch, the error names at most this many refused lines.
_HANDFUL = 3


@dataclass(frozen=True)
class Silver:
    """The settings from which silver's rows are made.

    Attributes:
        parsers: the parser of each source's log format, by the source's name.
        rules: the suite's rules for one row.
        gate: the limits for a batch as a whole.
        named: True if the rows of bronze and silver have the name of their source.
        transform: the user's own code, which adds columns to the accepted rows.
        deduplicate: how repeats of a line are recognized; None if they are kept.
    """

    parsers: Mapping[str, Parser]
    limits: TimeLimits
    rules: Sequence[Rule] = ()
    gate: Sequence[Check] = ()
    named: bool = False
    transform: UserTransform | None = None
    deduplicate: Deduplicate | None = None

    @property
    def schema(self) -> StructType:
        """The columns of accepted rows: those of every format, then the formats' own, then those of repeats."""
        return StructType([*with_source(SILVER_SCHEMA, named=self.named).fields, *self.added_fields])

    @property
    def added_fields(self) -> list[StructField]:
        """The fields that the settings add to accepted rows: typed columns, then those of events or of repeats."""
        of_events = EACH if self.has_events else ()
        return [*self.column_fields, *of_events, *(EVENT if self.deduplicate is not None else ())]

    @property
    def has_events(self) -> bool:
        """True if lines of a source can have several events, each a row of silver."""
        return any(each.has_events for each in self.parsers.values())

    def table_schema(self, spark: SparkSession) -> StructType:
        """Return the columns of silver's table: those of accepted rows, then those of the user's own code.

        Raises:
            ConfigError: the user's own code cannot be used.
        """
        return StructType([*self.schema.fields, *self.transform_fields(spark)])

    def transform_fields(self, spark: SparkSession) -> Sequence[StructField]:
        """Return the columns that the user's own code adds."""
        return self.transform.fields(spark, self.schema) if self.transform is not None else []

    def completed(self, rows: DataFrame) -> DataFrame:
        """Return accepted rows with the columns that the user's own code adds."""
        return self.transform(rows) if self.transform is not None else rows

    @property
    def records(self) -> Mapping[str, Records | None]:
        """The rule by which lines are put together into records, by the source's name; None without one."""
        return {name: each.record for name, each in self.parsers.items()}

    def check(self, spark: SparkSession) -> None:
        """Raise ConfigError if Java rejects a part of one of the formats."""
        for each in self.by_format:
            each.check(spark)

    @property
    def column_fields(self) -> list[StructField]:
        """The fields of the formats' typed columns in silver's table, each once."""
        found: dict[str, StructField] = {}
        for each in (column for parser in self.by_format for column in parser.column_fields):
            found.setdefault(each.name, each)
        return list(found.values())

    def parse(self, bronze: DataFrame) -> DataFrame:
        """Parse bronze's lines, each with the format of its source, and check them against the rules."""
        return self._each(bronze, [partial(self._parse, each) for each in self.by_format])

    def prepared(self) -> Callable[[DataFrame], DataFrame]:
        """Return `parse` for the batches of a run, whose plan is built once for each format."""
        return partial(self._each, parsers=[Prepared(partial(self._parse, each)) for each in self.by_format])

    @property
    def by_format(self) -> list[Parser]:
        """The parsers of the different formats, in the order of their sources."""
        found: list[Parser] = []
        for each in self.parsers.values():
            found += [each] if each not in found else []
        return found

    def _parse(self, parser: Parser, bronze: DataFrame) -> DataFrame:
        others = [field for field in self.column_fields if field.name not in parser.columns]
        if self.has_events and not parser.has_events:
            return as_events(parse(bronze, parser, self.limits, self.rules, [*others, *EACH]))
        parsed = parse(bronze, parser, self.limits, self.rules, others)
        return parsed if self.deduplicate is None else with_event(parsed, self.deduplicate)

    def _each(self, bronze: DataFrame, parsers: Sequence[Callable[[DataFrame], DataFrame]]) -> DataFrame:
        """Parse the rows of the sources of each format with the parser of that format."""
        if len(parsers) == 1:
            return parsers[0](bronze)
        names = ([name for name, each in self.parsers.items() if each == parser] for parser in self.by_format)
        parts = (parser(bronze.where(source_name().isin(each))) for parser, each in zip(parsers, names, strict=True))
        return reduce(DataFrame.unionByName, parts)

    @property
    def counts_first(self) -> bool:
        """Return True if a batch is counted before it is written: a limit can stop it, or its commit has the counts."""
        return self.has_events or any(check.level == "fail" for check in self.gate)

    @property
    def aggregates(self) -> list[Column]:
        """The counters of a batch, each under its own name."""
        wanted = {"lines": F.count(F.lit(1)), "refused": F.count_if(~is_accepted())}
        broken = breaks(self.by_format, self.rules)
        wanted |= {f"{_RULE}{rule}": F.count_if(condition) for rule, condition in broken.items()}
        of_events = [rows_of_lines(is_accepted()).alias(_EVENTS)] if self.has_events else self.measures
        arrivals = arrival.aggregates(is_accepted(), of_events=self.has_events)
        return [*(each.alias(name) for name, each in wanted.items()), *arrivals, *of_events]

    @property
    def measures(self) -> list[Column]:
        """The counters that only the limits need, each under its own name; over the rows of `by_event`."""
        rows = Judged(is_taken_apart(), is_accepted())
        if self.has_events:
            added = [field.name for field in self.column_fields]
            rows = replace(rows, applies=lambda judged: of_any_event(judged, added))
        return [each.alias(name) for check in self.gate for name, each in check.measures(rows).items()]

    def breaches(self, counted: Counted, level: Level) -> dict[str, str]:
        """Return the limits of a level that a batch breaks, each with what is wrong."""
        held = ((check.limit, check.breach(counted)) for check in self.gate if check.level == level)
        return {limit: said for limit, said in held if said is not None}

    def counted(self, seen: dict[str, Any], batch: Batch) -> Counted:
        """Return the counts of a batch from the values of its aggregates."""
        rules = {name.removeprefix(_RULE): n for name, n in seen.items() if name.startswith(_RULE) and n}
        return _counted(seen["lines"], seen["refused"], rules, seen, batch)


def source_name() -> Column:
    """Return the name of a row's source; rows from before the lake had several have none."""
    return F.coalesce(SOURCE.name, F.lit(BRONZE.name))


@dataclass(frozen=True)
class Repeats:
    """The lines of a batch that repeat others, and those that do not.

    Attributes:
        before: silver as it was before the batch.
        kept: silver's rows.
        dropped: the rows of the table of repeats.
        count: the number of rows in `dropped`.
    """

    before: TableVersion
    kept: Rows
    dropped: Rows
    count: int

    @property
    def recorded(self) -> Mapping[str, int]:
        """The version and the count that silver's commit records."""
        return {"version": self.before.version, "dropped": self.count}


@dataclass
class Parsed:
    """The parsed rows of a batch.

    Attributes:
        frame: the rows as a frame, which Spark parses whenever it is read.
        collected: the same rows in this process; None if they are too many.
        own: adds the columns of the user's own code to accepted rows, and marks; None without such code.
        refused: the rows of quarantine, which the job that wrote silver's rows collected; None if it did not.
        repeats: what repeats earlier lines; None if repeats are kept.
        arrivals: how the times of the accepted lines fit their arrival; None before they are counted.
        marked: a frame of the user's own columns, whose job counts the texts that were made valid, and the counts.
        invalid: how many lines had a text that was made valid, by column; of collected rows.
    """

    frame: DataFrame
    collected: Collected | None
    own: Callable[[DataFrame], DataFrame] | None = None
    refused: DataFrame | None = None
    repeats: Repeats | None = None
    arrivals: Arrivals | None = None
    marked: tuple[DataFrame, Observation] | None = None
    invalid: Mapping[str, int] = field(default_factory=dict)

    @property
    def dropped(self) -> int:
        """The number of repeats that do not go to silver."""
        return self.repeats.count if self.repeats is not None else 0

    def accepted(self, batch: Batch) -> Rows:
        """Return silver's rows.

        Raises:
            ReceiptError: the user's own code gave another number of rows than it got; nothing was written.
        """
        rows = self._rows()
        if self.own is None:
            return rows
        if isinstance(rows, DataFrame):
            return self.completed(rows)
        frame = self.own(rows.frame())
        made = batch.collect(frame)
        if made is None:
            return self._counting(frame)
        if made.rows.num_rows != rows.rows.num_rows:
            raise ReceiptError(  # guard: transform-keeps-row-count
                f"silver.transform made {count_of(made.rows.num_rows, 'row')} of {rows.rows.num_rows:,} in batch "
                f"{batch.batch_id}; nothing was written. Correct it: each row must stay one row"
            )
        marks = marks_of(made.columns)
        self.invalid = counts_of({mark: sum(made.rows[mark].to_pylist()) for mark in marks})
        return made.select([name for name in made.columns if name not in marks])

    def _rows(self) -> Rows:
        if self.repeats is not None:
            return self.repeats.kept
        return accepted(self.frame) if self.collected is None else collected.accepted(self.collected)

    def completed(self, rows: DataFrame) -> DataFrame:
        """Return accepted rows of a frame with the columns of the user's own code."""
        return rows if self.own is None else self._counting(self.own(rows))

    def _counting(self, made: DataFrame) -> DataFrame:
        """Return rows without their marks, which the job that writes them counts."""
        marks = marks_of(made.columns)
        if not marks:
            return made
        counts = Observation()
        observed = made.observe(counts, *(F.count_if(mark).alias(mark) for mark in marks))
        self.marked = observed, counts
        return observed.drop(*marks)

    def made_valid(self, *, written: bool) -> Mapping[str, int]:
        """Return how many lines had a text that was made valid, by column.

        Args:
            written: True if this run has written the rows, so that their job has counted; otherwise a job counts here.
        """
        if self.marked is None:
            return self.invalid
        observed, counts = self.marked
        if not written:
            observed.count()
        return counts_of(counts.get)

    def quarantined(self, batch: Batch) -> Rows:
        """Return quarantine's rows."""
        if self.collected is not None:
            return collected.quarantined(self.collected)
        if self.refused is not None:
            small = batch.collect(self.refused) if batch.seems_small(self.refused) else None
            return small or self.refused
        return quarantined(self.frame)


def write(silver: Silver) -> Callable[[DataFrame, Batch], None]:
    """Return the function that writes a batch to silver, and its refused lines to quarantine.

    A small batch is parsed once, by the job that collects it, then split and counted in this process. Of a larger one,
    a pass writes silver, counts, and collects the refused lines if they are few. If they are many, or the tasks do not
    run in this process's JVM, a second pass writes them. The commit of quarantine records how many rows broke each
    rule; there is none if no line broke a rule and no limit warns. If a limit can stop a larger batch, or repeats are
    dropped, a pass that only counts runs first.

    The tables are written in the order silver, duplicates, quarantine; so a batch in quarantine is in all of them.
    """

    parse_lines = silver.prepared()
    # one for frames, one for collected rows: the columns of the two differ in what may be null
    own_code = silver.transform
    of_frames, of_collected = (Prepared(own_code.marked) if own_code else None for _ in range(2))
    said: list[str] = []  # once in a run

    def write_batch(lines: DataFrame, batch: Batch) -> None:
        frame = parse_lines(lines)
        if batch.holds(SILVER) and batch.holds(QUARANTINE):
            _must_add_up(batch.append(SILVER, accepted(frame)), batch.append(QUARANTINE, quarantined(frame)))
            return
        if batch.holds(SILVER) and not batch.same_rules(SILVER):
            raise ReplayError(  # guard: same-rules-for-both-tables
                f"batch {batch.batch_id} is half written: {SILVER} has it, {QUARANTINE} does not. The log format, "
                "silver's time limits, its transform, its suite or silver.deduplicate changed since this batch began, "
                "or the sources did. Put the old values back, run oncelake run --once, then set the new values again"
            )
        small = batch.collect(frame) if batch.seems_small(lines, packed=PARQUET) else None
        own = of_frames if small is None else of_collected
        is_held = batch.holds(SILVER)
        with _without_repeats(Parsed(frame, small, own), silver, batch) as parsed:
            counted = write_silver(parsed, silver, batch)
            strange = parsed.arrivals.warning(counted.lines - counted.refused) if parsed.arrivals else None
            if strange is not None and not said:
                batch.warned.append(strange)  # guard: later-than-file-warned
                said.append(strange)
            if parsed.repeats is not None and parsed.dropped:
                _must_be(parsed.dropped, batch.append(DUPLICATES, parsed.repeats.dropped), "is a repeat", "are repeats")
            warned, invalid = _warned(silver, counted, batch), parsed.made_valid(written=not is_held)
            batch.warned.extend(warnings(invalid))
            if counted.rules or warned or invalid:  # guard: replay-writes-quarantine
                quality = recorded({"lines": counted.lines, "rules": counted.rules, "warned": warned}, invalid)
                written = batch.append(QUARANTINE, parsed.quarantined(batch), quality)
                _must_be(counted.refused, written, "was refused", "were refused")

    return write_batch


def _must_be(expected: int, written: Written, one: str, several: str) -> None:
    """Raise ReceiptError if a table got another number of rows than was counted."""
    rows, metadata = written.commit.rows_added, written.commit.metadata
    if rows != expected:
        raise ReceiptError(  # guard: quarantine-rows-add-up
            f"{metadata.table} got {count_of(rows, 'row')} of batch {metadata.batch_id}, but "
            f"{count_of(expected, one, several)}. {rebuild_hint('silver')}"
        )


@contextmanager
def _without_repeats(parsed: Parsed, silver: Silver, batch: Batch) -> Iterator[Parsed]:
    """Find the lines of a batch that repeat others; nothing if repeats are kept.

    Raises:
        ReplayError: the batch is half written, and the version of silver to compare it with is gone.
    """
    declared = silver.deduplicate
    if declared is None:
        yield parsed
        return
    # the rows that are kept are not those that the transform's plan was prepared for
    own = silver.transform.marked if silver.transform is not None else None
    before = batch.before(SILVER)
    if parsed.collected is not None and before.opened is not None:
        kept, repeats = collected_duplicates.split(collected.unbroken(parsed.collected), before, declared)
        found = Repeats(before, collected.as_silver(kept), repeats, repeats.rows.num_rows)
        yield replace(parsed, own=own, repeats=found)
        return
    # it is read several times, and each time would parse the lines again
    frame = parsed.frame.persist() if parsed.collected is None else parsed.collected.frame()
    judged = with_twin(frame, held_near(before, frame, declared), declared.within).persist()
    try:
        count = _count_repeats(judged, before, batch)
        kept_rows = accepted(judged.where(F.col(TWIN.name).isNull()).drop(TWIN.name))
        yield replace(parsed, frame=frame, own=own, repeats=Repeats(before, kept_rows, dropped(judged), count))
    finally:
        judged.unpersist()
        frame.unpersist()


def _count_repeats(judged: DataFrame, before: TableVersion, batch: Batch) -> int:
    """Count the repeats, which reads silver."""
    try:
        return judged.where(F.col(TWIN.name).isNotNull()).count()
    except (PySparkException, Py4JJavaError) as error:
        if not before.replayed:
            raise
        raise ReplayError(  # guard: repeats-version-still-there
            f"batch {batch.batch_id} is half written, and its lines must be compared with version {before.version} of "
            f"{SILVER}, which cannot be read any more: {reason(error)}. {rebuild_hint('silver')}"
        ) from error


def write_silver(parsed: Parsed, silver: Silver, batch: Batch) -> Counted:
    """Write a batch to silver, unless silver already holds it, and count the refused lines."""
    recorded = parsed.repeats.recorded if parsed.repeats is not None else None
    if batch.holds(SILVER):
        rows = rows_held(batch.append(SILVER, parsed.accepted(batch)))
        counted = _count(parsed, silver, batch)
    elif silver.counts_first or parsed.collected is not None or parsed.repeats is not None:
        counted = _count(parsed, silver, batch)
        _stop(parsed.frame, silver, counted, batch)
        lines = counted.accepted if silver.has_events else None  # guard: events-counted-before-silver
        rows = batch.append(SILVER, parsed.accepted(batch), deduplicated=recorded, lines=lines).commit.rows_added
    else:
        rows, counted = _write_counting(parsed, silver, batch)
    if rows is not None and rows + parsed.dropped != counted.rows:
        repeats = f" and {count_of(parsed.dropped, 'is a repeat', 'are repeats')}" if parsed.repeats else ""
        repeats += f", and the others have {count_of(counted.rows, 'event')}" if silver.has_events else ""
        raise ReceiptError(  # guard: silver-rows-add-up
            f"{SILVER} got {count_of(rows, 'row')} of batch {batch.batch_id}, and of {count_of(counted.lines, 'line')} "
            f"{count_of(counted.refused, 'was refused', 'were refused')}{repeats}: the numbers do not add up. "
            f"{rebuild_hint('silver')}"
        )
    return counted


def _write_counting(parsed: Parsed, silver: Silver, batch: Batch) -> tuple[int, Counted]:
    """Write silver's rows by a job that also counts, and collects the refused lines if they are few.

    Returns:
        The number of rows that silver got, and the counts.
    """
    counts = Observation()
    with batch.few_rows(parsed.frame) as few:
        if few is None:
            observed = parsed.frame.observe(counts, *silver.aggregates)
            rows = batch.append(SILVER, parsed.completed(accepted(observed))).commit.rows_added
            parsed.arrivals = Arrivals.of_values(counts.get)
            return rows, silver.counted(counts.get, batch)
        # Spark's observation would cost a sixth of the job, so it gets only what nothing else counts
        measures = silver.measures
        lines = parsed.frame.observe(counts, *measures) if measures else parsed.frame
        refused = with_source(QUARANTINE_SCHEMA, named=silver.named)
        rest = few.without(lines, is_accepted(), _names(silver), refused.fieldNames())
        rows = batch.append(SILVER, parsed.completed(accepted(rest))).commit.rows_added
        taken = few.take(refused)
        parsed.refused = taken.rows
        parsed.arrivals = Arrivals.of_names(taken.names)
        rules = {name: n for name, n in taken.names.items() if not Arrivals.has(name)}
        values = counts.get if measures else {}
        return rows, _counted(taken.lines, taken.out, rules, values, batch)


def _names(silver: Silver) -> Column:
    """Return the names to count for a parsed row: the rules that it broke, and how its time fits its arrival."""
    arrived = F.when(is_accepted(), arrival.name(of_events=silver.has_events))
    return F.when(arrived.isNull(), broken_names()).otherwise(
        F.concat(F.coalesce(broken_names(), F.array().cast("array<string>")), F.array(arrived))
    )


def rows_held(written: Written) -> int | None:
    """Return how many rows a batch's own commit added; None if the table's commit is a later one of another kind."""
    return written.commit.rows_added if _is_own(written) else None


def _is_own(written: Written) -> bool:
    return written.commit.metadata.event is CommitKind.BATCH


def _must_add_up(in_silver: Written, in_quarantine: Written) -> None:
    """Raise ReceiptError if a replayed batch's rows do not add up to the lines that quarantine's commit recorded."""
    if not _is_own(in_silver) or not _is_own(in_quarantine):
        return
    silver, quarantine, metadata = (
        in_silver.commit.lines_added,
        in_quarantine.commit.rows_added,
        in_quarantine.commit.metadata,
    )
    lines, repeats = metadata.quality.get("lines"), in_silver.commit.metadata.deduplicated.get("dropped", 0)
    if lines is not None and silver + quarantine + repeats != lines:
        more = f", {count_of(repeats, 'is a repeat', 'are repeats')}" if repeats else ""
        raise ReceiptError(  # guard: replayed-rows-add-up
            f"{SILVER} got {count_of(silver, 'row')} of batch {metadata.batch_id} and {QUARANTINE} {quarantine:,}"
            f"{more}, of {count_of(lines, 'line')}: the numbers do not add up. {rebuild_hint('silver')}"
        )


def _count(parsed: Parsed, silver: Silver, batch: Batch) -> Counted:
    measures = silver.measures
    if parsed.collected is None:
        values = _values(parsed.frame, silver.aggregates)
        parsed.arrivals = Arrivals.of_values(values)
        if silver.has_events and measures:
            values |= _values(by_event(parsed.frame), measures)
        return silver.counted(values, batch)
    parsed.arrivals = Arrivals.of_collected(collected.unbroken(parsed.collected))
    values = _values(by_event(parsed.collected.frame()), measures) if measures else {}
    lines, rules = parsed.collected.rows.num_rows, collected.broken(parsed.collected)
    refused = lines - collected.unbroken(parsed.collected).rows.num_rows
    if silver.has_events:
        values[_EVENTS] = collected.accepted(parsed.collected).rows.num_rows
    return _counted(lines, refused, rules, values, batch)


def _counted(lines: int, refused: int, rules: Mapping[str, int], values: Mapping[str, Any], batch: Batch) -> Counted:
    planned, events = batch.metadata(SILVER).planned, values.get(_EVENTS)
    return Counted(lines, refused, rules, values, planned, is_first=batch.batch_id == 0, events=events)


def _values(frame: DataFrame, aggregates: Sequence[Column]) -> dict[str, Any]:
    (seen,) = frame.agg(*aggregates).collect()
    return dict(seen.asDict())


def _stop(parsed: DataFrame, silver: Silver, counted: Counted, batch: Batch) -> None:
    """Raise GateError if the batch breaks a limit of level fail, before anything of the batch is written."""
    breaches = silver.breaches(counted, "fail")
    if not breaches:
        return
    said = "; ".join(f"{limit}: {each}" for limit, each in breaches.items())
    broken = counted.frequent
    raise GateError(  # guard: gate-before-write
        f"the gate refused batch {batch.batch_id}. {said}. {f'Rules broken: {broken}. ' if broken else ''}"
        f"{_lines(parsed)}Nothing of the batch was written. Every start tries it again, so change the format, the "
        "rule, or the limit in quality.gate"
    )


def _lines(parsed: DataFrame) -> str:
    """Return a sentence that names a few of the refused lines; empty if there are none."""
    found = parsed.where(~is_accepted()).select(line_of(F.col("file")).alias("origin"), "file", "value").limit(_HANDFUL)
    named = [
        row["origin"] if row["file"] is None else f"{row['origin']}:{_text(row['value'])}" for row in found.collect()
    ]
    return f"Some of the refused lines: {'; '.join(named)}. " if named else ""


def _text(value: bytearray | None) -> str:
    return shown(bytes(value or b"").decode("utf-8", "replace"))


def _warned(silver: Silver, counted: Counted, batch: Batch) -> list[str]:
    """Add a warning for each limit of level warn that the batch breaks, and return the limits' names."""
    breaches = silver.breaches(counted, "warn")
    batch.warned.extend(f"{limit}: {said}" for limit, said in breaches.items())
    return list(breaches)
