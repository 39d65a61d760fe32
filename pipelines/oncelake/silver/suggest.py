"""Propose a suite for a table; of bronze also how many lines each log format takes apart."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from oncelake.common.lake import SILVER, Table
from oncelake.quality.suggest import suggest_bronze, suggest_silver
from oncelake.silver.format import load_format
from oncelake.silver.transform import TimeLimits, is_accepted, parse


def suggest(rows: DataFrame, table: Table, limits: TimeLimits, formats: Sequence[Path]) -> dict[str, Any]:
    """Return a suite in Great Expectations' own form.

    Args:
        rows: rows of silver or of bronze.
        table: which of them.
        limits: the times that silver accepts.
        formats: directories of log formats.
    """
    if table == SILVER:
        return {"name": str(table), "expectations": suggest_silver(rows)}
    shares = dict(sorted(_shares(rows, limits, formats), key=lambda each: -each[1]))
    return {"name": str(table), "expectations": suggest_bronze(rows), "meta": {"formats": shares}}


def _shares(rows: DataFrame, limits: TimeLimits, formats: Sequence[Path]) -> Iterator[tuple[str, float]]:
    """Yield the share of lines that each log format takes apart."""
    for name in sorted({path.stem for place in formats for path in place.glob("*.yaml")}):
        parsed = parse(rows, load_format(name, formats), limits)
        (share,) = parsed.agg(F.avg(F.when(is_accepted(), 1.0).otherwise(0.0))).collect()[0]
        yield name, round(share or 0.0, 4)
