"""Aggregate a batch of silver and merge it into a gold table."""

from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame

from oncelake.common.lake import Table
from oncelake.common.spark.collect import PARQUET
from oncelake.common.spark.prepared import Prepared
from oncelake.exactly_once.batch import Batch
from oncelake.gold.declaration import GoldTable
from oncelake.gold.transform import aggregate, merge_into, windows, windows_of


def write(name: str, declared: GoldTable) -> Callable[[DataFrame, Batch], None]:
    """Return the function that writes a batch: aggregate its rows per window and key, and add them with one MERGE.

    Few aggregated rows are collected first. Many are cached, because they are read twice: for their windows, then for
    the MERGE.
    """
    table = Table("gold", name)
    counted = Prepared(lambda rows: aggregate(rows, declared))

    def write_batch(rows: DataFrame, batch: Batch) -> None:
        counts = counted(rows)
        if batch.holds(table):
            batch.merge(table, counts, partial(merge_into, declared, counts.schema, None))
            return
        if not batch.seems_small(rows, packed=PARQUET):
            counts = counts.persist()
        try:
            found = batch.collect(counts)
            if found is not None:
                batch.merge(table, found, partial(merge_into, declared, counts.schema, windows_of(found)))
            else:
                counts = counts.persist()
                batch.merge(table, counts, partial(merge_into, declared, counts.schema, windows(counts)))
        finally:
            counts.unpersist()

    return write_batch
