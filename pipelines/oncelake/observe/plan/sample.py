"""Try the declared formats and rules on a sample of lines: which would move into quarantine, or out of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from oncelake.common import tables
from oncelake.common.lake import QUARANTINE, SILVER, Table
from oncelake.engine.chain import Chain
from oncelake.engine.replay import LINE, parsed_again
from oncelake.quality.reasons import line_of
from oncelake.silver.rules import source_name
from oncelake.silver.schema import SOURCE
from oncelake.silver.transform import is_accepted

# The largest number of lines to show.
_SHOWN = 3
# A sample is drawn with this seed, so that the same command shows the same lines.
_SEED = 7


@dataclass(frozen=True)
class Tried:
    """Lines that were tried.

    Attributes:
        lines: how many lines were tried.
        of: how many lines the table has.
        moved: how many would move.
        rules: per rule, how many of the lines break it.
        examples: the names of some lines that would move.
    """

    lines: int = 0
    of: int = 0
    moved: int = 0
    rules: Mapping[str, int] = field(default_factory=dict)
    examples: Sequence[str] = ()


@dataclass(frozen=True)
class LineSample:
    """Which lines the declared formats and rules would move.

    Attributes:
        out: lines of quarantine, those that would pass, and the rules that the others break.
        into: lines that are in silver, those that would go to quarantine, and the rules that these break.
    """

    out: Tried
    into: Tried

    def to_dict(self) -> dict[str, Any]:
        """Return the sample for JSON."""
        return asdict(self)


def take_sample(chain: Chain, spark: SparkSession, most: int) -> LineSample:
    """Try at most this many lines of quarantine, and as many of those that silver has read and did not refuse."""
    if any(chain.commit_log(table).newest() is None for table in (SILVER, QUARANTINE)):
        return LineSample(Tried(), Tried())
    quarantine = tables.read(spark, chain.lake.at(QUARANTINE))
    of = quarantine.count()
    known = _of_declared(chain, quarantine)
    out = _tried(parsed_again(chain.silver, _some(known, most, of)), of, moved=True)
    read = quarantine.select(*LINE)
    silver = chain.commit_log(SILVER).state().rows
    passed = [rows.join(read, _same(rows, read), "left_anti") for rows in _bronze(chain, spark, most)]
    if not passed:  # no source that is declared has lines yet
        return LineSample(out, Tried(of=silver))
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), passed)
    return LineSample(out, _tried(parsed_again(chain.silver, rows), silver, moved=False))


def _bronze(chain: Chain, spark: SparkSession, most: int) -> Iterator[DataFrame]:
    """Yield a sample of each bronze table, without the lines that silver has not read."""
    newest = [tables.read(spark, chain.lake.at(table)).agg(F.max("ingested_at")) for table in (SILVER, QUARANTINE)]
    (until,) = newest[0].unionAll(newest[1]).agg(F.max("max(ingested_at)")).collect()[0]
    stages = [stage for stage in chain.stages if not stage.reads and _has_rows(chain, stage.tables[0])]
    for table in (stage.tables[0] for stage in stages):
        rows = tables.read(spark, chain.lake.at(table)).where(F.col("ingested_at") <= F.lit(until))
        rows = rows.withColumn(SOURCE.name, F.lit(table.name)) if chain.silver.named else rows
        yield _some(rows, max(most // len(stages), 1), chain.commit_log(table).state().rows)


def _has_rows(chain: Chain, table: Table) -> bool:
    return chain.commit_log(table).state().rows > 0


def _of_declared(chain: Chain, quarantine: DataFrame) -> DataFrame:
    """Return the lines whose sources still have a format."""
    if SOURCE.name not in quarantine.columns:
        return quarantine
    return quarantine.where(source_name().isin([*chain.silver.parsers]))


def _some(rows: DataFrame, most: int, of: int) -> DataFrame:
    """Return a sample from the whole table; all rows if they are few."""
    if of <= most:
        return rows
    return rows.sample(min(1.5 * most / of + 0.001, 1.0), _SEED).limit(most)


def _same(rows: DataFrame, other: DataFrame) -> Any:
    """Return the condition that two rows are of one line."""
    return reduce(lambda one, two: one & two, (rows[name].eqNullSafe(other[name]) for name in LINE))


def _tried(parsed: DataFrame, of: int, *, moved: bool) -> Tried:
    """Count lines by their verdicts; `moved` is the verdict of those that would move."""
    parsed = parsed.persist()
    try:
        moves = is_accepted() if moved else ~is_accepted()
        (lines, count) = parsed.agg(F.count(F.lit(1)), F.count_if(moves)).collect()[0]
        by_rule = parsed.select(F.explode("reasons.rule").alias("rule")).groupBy("rule").count().orderBy("rule")
        named = parsed.where(moves).select(line_of().alias("line")).limit(_SHOWN)
        return Tried(
            lines,
            of,
            count,
            {row["rule"]: row["count"] for row in by_rule.collect()},
            [row["line"] for row in named.collect()],
        )
    finally:
        parsed.unpersist()
