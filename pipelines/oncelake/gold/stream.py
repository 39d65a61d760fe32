"""Aggregate a batch of silver and merge it into a gold table."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from oncelake.common.lake import Table
from oncelake.common.spark.collect import PARQUET
from oncelake.common.spark.prepared import Prepared
from oncelake.common.spark.rows import SparkRows
from oncelake.common.spark.valid_text import counts_of, marks_of, recorded, warnings
from oncelake.exactly_once.batch import Batch
from oncelake.exactly_once.writers import Windows
from oncelake.gold.declaration import LOG_TIME, GoldTable
from oncelake.gold.transform import LINES, aggregate, merge_into, windows, windows_of, windows_within


def write(name: str, declared: GoldTable) -> Callable[[DataFrame, Batch], None]:
    """Return the function that writes a batch: aggregate its rows per window and key, and add them with one MERGE.

    Few aggregated rows are collected first. Many are cached, because they are read twice: for their windows, then for
    the MERGE. The same pass counts the lines with a text that was made valid.
    """
    table = Table("gold", name)
    counted = Prepared(lambda rows: aggregate(rows, declared, counting=True))

    def write_batch(rows: DataFrame, batch: Batch) -> None:
        counts = counted(rows)
        marks = marks_of(counts.columns)
        values = counts.drop(*marks) if marks else counts
        sql = partial(merge_into, declared, counts.schema)
        if batch.holds(table):
            batch.merge(table, SparkRows(values), partial(sql, ()))
            return
        if not batch.seems_small(rows, packed=PARQUET):
            counts = counts.persist()
        try:
            collected = batch.collect(counts)
            if collected is not None:
                sums = {mark: sum(collected.rows[mark].to_pylist()) for mark in marks}
                merged = collected.select(values.columns) if marks else collected
                batch.merge(table, merged, partial(sql, windows_of(collected)), _quality(sums, batch))
                return
            counts = counts.persist()
            touched, totals = _summed(counts, marks) if marks else (windows(counts), {})
            batch.merge(table, SparkRows(values), partial(sql, touched), _quality(totals, batch))
        finally:
            counts.unpersist()

    return write_batch


def _summed(counts: DataFrame, marks: Sequence[str]) -> tuple[Windows, Mapping[str, int]]:
    """Return a batch's windows, and the sums of its columns of counts, by one job."""
    start = F.unix_micros(LOG_TIME)
    sums = (F.coalesce(F.sum(mark), F.lit(0)).alias(mark) for mark in marks)
    ((first, last, *totals),) = counts.agg(F.min(start), F.max(start), *sums).collect()
    return windows_within(first, last), dict(zip(marks, totals, strict=True))


def _quality(totals: Mapping[str, int], batch: Batch) -> Mapping[str, Any] | None:
    """Return what to record of a batch with texts that were made valid, and warn of them; None if there are none."""
    counts = counts_of({mark: count for mark, count in totals.items() if mark != LINES})
    batch.warned.extend(warnings(counts))
    return recorded({"lines": totals[LINES], "rules": {}, "warned": []}, counts) if counts else None
