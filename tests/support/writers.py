"""Run a test with each way in which a batch can be committed."""

import pytest

# The values of `run.small_batch`, and who then commits a batch: delta-rs the file of its collected rows, delta-rs the
# files that Spark wrote, or Spark.
each_writer = pytest.mark.parametrize(
    "small_batch",
    ["32MiB", "1", pytest.param("0", marks=pytest.mark.long)],
    ids=["small batches", "large batches", "spark's writer"],
)
