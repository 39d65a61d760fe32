"""The rules of silver: how bronze's lines are parsed, which rules they can break, and the limits on a batch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from oncelake.bronze.records import Records
from oncelake.common.lake import BRONZE, SILVER
from oncelake.common.spark.prepared import Prepared
from oncelake.exactly_once.batch import Batch
from oncelake.quality.gate import BatchCounts, Check, Level, RowConditions
from oncelake.quality.suite import Rule
from oncelake.silver import arrival
from oncelake.silver.duplicates import with_event
from oncelake.silver.parsing.events import as_events, of_any_event, rows_of_lines
from oncelake.silver.parsing.parser import Parser
from oncelake.silver.schema import EACH, EVENT, SOURCE, with_source
from oncelake.silver.schema import SILVER as SILVER_SCHEMA
from oncelake.silver.settings import Deduplicate
from oncelake.silver.transform import TimeLimits, breaks, is_accepted, is_taken_apart, parse
from oncelake.silver.user_transform import UserTransform

# Prefix of a rule's name in the counters of a batch.
_RULE = "rule "
# The counter of the rows of silver that the lines of a batch give.
EVENTS_COUNT = "events"


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
        return any(parser.has_events for parser in self.parsers.values())

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
        return {name: parser.record for name, parser in self.parsers.items()}

    def check(self, spark: SparkSession) -> None:
        """Raise ConfigError if Java rejects a part of one of the formats."""
        for parser in self.by_format:
            parser.check(spark)

    @property
    def column_fields(self) -> list[StructField]:
        """The fields of the formats' typed columns in silver's table, each once."""
        fields: dict[str, StructField] = {}
        for field in (column for parser in self.by_format for column in parser.column_fields):
            fields.setdefault(field.name, field)
        return list(fields.values())

    def parse(self, bronze: DataFrame) -> DataFrame:
        """Parse bronze's lines, each with the format of its source, and check them against the rules."""
        return self._parse_by_format(bronze, [partial(self._parse, parser) for parser in self.by_format])

    def parse_source(self, name: str, bronze: DataFrame) -> DataFrame:
        """Parse bronze's lines of one source, and check them against the rules."""
        return self._parse(self.parsers[name], bronze)

    def prepared(self) -> Callable[[DataFrame], DataFrame]:
        """Return `parse` for the batches of a run, whose plan is built once for each format."""
        parsers = [Prepared(partial(self._parse, parser)) for parser in self.by_format]
        return partial(self._parse_by_format, parsers=parsers)

    @property
    def by_format(self) -> list[Parser]:
        """The parsers of the different formats, in the order of their sources."""
        parsers: list[Parser] = []
        for parser in self.parsers.values():
            parsers += [parser] if parser not in parsers else []
        return parsers

    def _parse(self, parser: Parser, bronze: DataFrame) -> DataFrame:
        others = [field for field in self.column_fields if field.name not in parser.columns]
        if self.has_events and not parser.has_events:
            return as_events(parse(bronze, parser, self.limits, self.rules, [*others, *EACH]))
        parsed = parse(bronze, parser, self.limits, self.rules, others)
        return parsed if self.deduplicate is None else with_event(parsed, self.deduplicate)

    def _parse_by_format(self, bronze: DataFrame, parsers: Sequence[Callable[[DataFrame], DataFrame]]) -> DataFrame:
        """Parse the rows of the sources of each format with the parser of that format."""
        if len(parsers) == 1:
            return parsers[0](bronze)
        names = ([name for name, other in self.parsers.items() if other == parser] for parser in self.by_format)
        pairs = zip(parsers, names, strict=True)
        parts = (parser(bronze.where(source_name().isin(sources))) for parser, sources in pairs)
        return reduce(DataFrame.unionByName, parts)

    @property
    def counts_first(self) -> bool:
        """Return True if a batch is counted before it is written: a limit can stop it, or its commit has the counts."""
        return self.has_events or any(check.level == "fail" for check in self.gate)

    @property
    def aggregates(self) -> list[Column]:
        """The counters of a batch, each under its own name."""
        counters = {"lines": F.count(F.lit(1)), "refused": F.count_if(~is_accepted())}
        broken = breaks(self.by_format, self.rules)
        counters |= {f"{_RULE}{rule}": F.count_if(condition) for rule, condition in broken.items()}
        of_events = [rows_of_lines(is_accepted()).alias(EVENTS_COUNT)] if self.has_events else self.measures
        arrivals = arrival.aggregates(is_accepted(), of_events=self.has_events)
        return [*(counter.alias(name) for name, counter in counters.items()), *arrivals, *of_events]

    @cached_property
    def measures(self) -> list[Column]:
        """The counters that only the limits need, each under its own name; over the rows of `by_event`.

        They are made once: making them takes some 10 ms, and a batch of a few hundred lines takes 150.
        """
        rows = RowConditions(is_taken_apart(), is_accepted())
        if self.has_events:
            added = [field.name for field in self.column_fields]
            rows = replace(rows, applies=lambda judged: of_any_event(judged, added))
        return [aggregate.alias(name) for check in self.gate for name, aggregate in check.measures(rows).items()]

    def breaches(self, counted: BatchCounts, level: Level) -> dict[str, str]:
        """Return the limits of a level that a batch breaks, each with what is wrong."""
        problems = ((check.limit, check.breach(counted)) for check in self.gate if check.level == level)
        return {limit: problem for limit, problem in problems if problem is not None}

    def counted(self, seen: Mapping[str, Any], batch: Batch) -> BatchCounts:
        """Return the counts of a batch from the values of its aggregates."""
        rules = {name.removeprefix(_RULE): n for name, n in seen.items() if name.startswith(_RULE) and n}
        return counts_of_batch(seen["lines"], seen["refused"], rules, seen, batch)


def counts_of_batch(
    lines: int, refused: int, rules: Mapping[str, int], values: Mapping[str, Any], batch: Batch
) -> BatchCounts:
    """Return the counts of a batch."""
    planned, events = batch.metadata(SILVER).planned, values.get(EVENTS_COUNT)
    return BatchCounts(lines, refused, rules, values, planned, is_first=batch.batch_id == 0, events=events)


# The name of a row's source in SQL.
SOURCE_NAME = f"coalesce({SOURCE.name}, '{BRONZE.name}')"


def source_name() -> Column:
    """Return the name of a row's source; rows from before the lake had several have none."""
    return F.expr(SOURCE_NAME)
