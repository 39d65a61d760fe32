"""Apply the limits on a whole batch of silver: some stop it before it is written, others cause a warning."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from oncelake.common.errors import GateError
from oncelake.common.wording import shown
from oncelake.quality.gate import BatchCounts
from oncelake.quality.reasons import line_of
from oncelake.silver.split import Split
from oncelake.silver.transform import is_accepted

# When a limit stops a batch, the error names at most this many refused lines.
_HANDFUL = 3


def stop(split: Split, counted: BatchCounts) -> None:
    """Raise GateError if the batch breaks a limit of level fail, before anything of the batch is written."""
    breaches = split.silver.breaches(counted, "fail")
    if not breaches:
        return
    message = "; ".join(f"{limit}: {problem}" for limit, problem in breaches.items())
    broken = counted.frequent
    raise GateError(  # guard: gate-before-write
        f"the gate refused batch {split.batch.batch_id}. {message}. {f'Rules broken: {broken}. ' if broken else ''}"
        f"{_lines(split.frame)}Nothing of the batch was written. Every start tries it again, so change the format, the "
        "rule, or the limit in quality.gate"
    )


def warned(split: Split, counted: BatchCounts) -> list[str]:
    """Add a warning for each limit of level warn that the batch breaks, and return the limits' names."""
    breaches = split.silver.breaches(counted, "warn")
    split.batch.warned.extend(f"{limit}: {problem}" for limit, problem in breaches.items())
    return list(breaches)


def _lines(parsed: DataFrame) -> str:
    """Return a sentence that names a few of the refused lines; empty if there are none."""
    refused = (
        parsed.where(~is_accepted()).select(line_of(F.col("file")).alias("origin"), "file", "value").limit(_HANDFUL)
    )
    named = [
        row["origin"] if row["file"] is None else f"{row['origin']}:{_text(row['value'])}" for row in refused.collect()
    ]
    return f"Some of the refused lines: {'; '.join(named)}. " if named else ""


def _text(value: bytearray | None) -> str:
    return shown(bytes(value or b"").decode("utf-8", "replace"))
