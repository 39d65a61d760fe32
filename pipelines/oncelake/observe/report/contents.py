"""This is where it is chosen what stands in the page's tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from oncelake.common.wording import size
from oncelake.observe.report.colours import stage_colours
from oncelake.observe.report.facts import BatchFacts, Facts
from oncelake.observe.report.verdict import attention, balance, verdict

# So many are listed of what can be many.
LISTED = 10


@dataclass(frozen=True)
class Sum:
    """The batches of one stage, summed up."""

    stage: str
    count: int
    rows: int
    seconds: float
    longest: float
    rate: float
    freshness: float | None


def contents(facts: Facts) -> dict[str, Any]:
    """Give all that the template names."""
    lines = facts.lines
    bins = zip(lines.starts, lines.errors, lines.all, strict=True) if lines else ()
    return {
        "f": facts,
        "v": verdict(facts),
        "notices": list(attention(facts)),
        "balance": balance(facts),
        "layers": list(_layers(facts)),
        "peaks": sorted((each for each in bins if each[1]), key=lambda each: (-each[1], each[0]))[: LISTED // 2],
        "stages": list(stage_colours(batch.stage for batch in facts.batches)),
        "sums": list(_sums(facts)),
        "warned": [batch for batch in reversed(facts.batches) if batch.warned][:LISTED],
    }


def _layers(facts: Facts) -> Iterator[tuple[str, list[tuple[str, int | None, str]]]]:
    """Give the tables by layer, each with what is said of it; served tables by their stages."""
    for layer in ("bronze", "silver", "gold"):
        found = [
            (each.name.split(".")[1], each.rows, f"version {each.version:,}, {size(each.size or 0)}")
            for each in facts.tables
            if each.name.startswith(f"{layer}.")
        ]
        if found:
            yield layer, found
    served = [stage for stage in facts.stages if stage.stage.startswith("serving.")]
    if served:
        yield "serving", [(each.stage.split(".")[1], each.rows, f"batch {each.batch_id}") for each in served]


def _sums(facts: Facts) -> Iterator[Sum]:
    by_stage: dict[str, list[BatchFacts]] = {}
    for batch in facts.batches:
        by_stage.setdefault(batch.stage, []).append(batch)
    for stage, batches in by_stage.items():
        seconds = [batch.seconds for batch in batches]
        fresh = [batch.freshness for batch in batches if batch.freshness is not None]
        yield Sum(
            stage,
            count=len(batches),
            rows=sum(batch.rows for batch in batches),
            seconds=median(seconds),
            longest=max(seconds),
            rate=median(batch.rate for batch in batches),
            freshness=median(fresh) if fresh else None,
        )
