"""Aggregate a batch of silver and merge it into a gold table."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from oncelake.common.lake import Table
from oncelake.exactly_once.batch import Batch
from oncelake.gold.declaration import GoldTable
from oncelake.gold.transform import aggregate, merge_condition, merge_update, windows


def write(name: str, declared: GoldTable) -> Callable[[DataFrame, Batch], None]:
    """Return the function that writes a batch: aggregate its rows per window and key, and add them with one MERGE.

    The aggregated rows are cached because they are read twice: for their windows, then for the MERGE.
    """
    table = Table("gold", name)

    def write_batch(rows: DataFrame, batch: Batch) -> None:
        counts = aggregate(rows, declared).persist()
        try:
            touched = None if batch.holds(table) else windows(counts)
            batch.merge(table, counts, merge_condition(declared, touched), merge_update(declared))
        finally:
            counts.unpersist()

    return write_batch
