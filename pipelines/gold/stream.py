"""This is where a batch of silver is counted and added to a gold table."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from pipelines.exactly_once.batch import Batch
from pipelines.gold.declaration import GoldTable
from pipelines.gold.transform import aggregate, merge_condition, merge_update
from pipelines.lake import Table


def write(name: str, declared: GoldTable) -> Callable[[DataFrame, Batch], None]:
    """Give the work of a batch: count its rows per window and key, and add them by one MERGE."""
    table = Table("gold", name)

    def write_batch(rows: DataFrame, batch: Batch) -> None:
        batch.merge(table, aggregate(rows, declared), merge_condition(declared), merge_update(declared))

    return write_batch
