"""The buckets of values by which a percentile is estimated, as a DDSketch does, but without a limit on their number.

Bucket k counts the values v with w(k-1) < ln v <= wk. What is shown for them is within tanh(w/2) of each, whatever the
other values are. Counts add up, so that no order of rows or batches changes a bit of them.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType

# The width w of a bucket of logarithms: values are at most 0.995% from what is shown for them.
_WIDTH = 0.0199
# What is shown, as a part of the bucket's upper bound: 2/(e^w + 1). Computed, its last bit could depend on the machine.
_SHOWN_OF_UPPER = 0.9900503283452888
# The buckets: that of 1, by its number; those of infinity and NaN; values nearer to 0 than this are in that of 0.
_OF_ONE, _OF_INFINITY, _OF_NAN, _NEAREST = 40_000, 100_000, 100_001, 1e-300


def bucket_of(value: Column, _: DataType) -> Column:
    """Return the number of a value's bucket; these are in the order of the values."""
    number = value.cast(DoubleType())
    size, sign = F.abs(number), F.signum(number).cast("int")
    place = F.lit(_OF_ONE) + F.ceil(F.log(size) / F.lit(_WIDTH)).cast("int")
    known = F.when(F.isnan(number), F.lit(_OF_NAN)).when(size == F.lit(float("inf")), sign * F.lit(_OF_INFINITY))
    return known.when(size < F.lit(_NEAREST), F.lit(0)).otherwise(sign * place)


# The first bucket with which at least the rank's share of all values is reached, and the value that is shown for it.
# The entries of the map are in the order of the buckets. It is bound to a name, as Spark would compute it at each use.
_OF_BUCKET = f"""CASE state.bucket WHEN 0 THEN 0D
    WHEN {_OF_INFINITY} THEN double('Infinity') WHEN -{_OF_INFINITY} THEN double('-Infinity')
    WHEN {_OF_NAN} THEN double('NaN')
    ELSE signum(state.bucket) * least(
        exp((abs(state.bucket) - {_OF_ONE}) * {_WIDTH}D) * {_SHOWN_OF_UPPER}D, 1.7976931348623157E308D) END"""
PERCENTILE = f"""transform(array({{0}}), buckets -> aggregate(
    map_entries(buckets),
    named_struct(
        'rest', CAST(greatest(1, ceil(
            CAST({{extra}} AS DECIMAL(7,6)) * aggregate(map_values(buckets), 0L, (total, lines) -> total + lines)
        )) AS BIGINT),
        'bucket', CAST(NULL AS INT)
    ),
    (state, entry) -> named_struct(
        'rest', state.rest - entry.value,
        'bucket', if(state.bucket IS NULL AND state.rest <= entry.value, entry.key, state.bucket)
    ),
    state -> {_OF_BUCKET}
))[0]"""
