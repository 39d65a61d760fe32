"""This is where facts become the few sentences that stand at the top of a page."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from oncelake.common.lake import BRONZE, QUARANTINE, SILVER
from oncelake.common.wording import count_of, duration
from oncelake.observe.report.facts import Facts

Tone = Literal["good", "bad", "open"]


@dataclass(frozen=True)
class ReportVerdict:
    """What the proof came to, in a headline and a sentence; `tone` is its colour."""

    tone: Tone
    headline: str
    detail: str = ""


def verdict(facts: Facts) -> ReportVerdict:
    """Say what the proof came to."""
    proof = facts.proof
    broken = next((link for link in proof.links if not link.holds), None)
    if broken is not None:
        return ReportVerdict("bad", f"DOES NOT HOLD: {broken.name}", broken.said)
    if proof.made == "not possible":
        return ReportVerdict("open", "Not proven: the proof could not be made to its end", proof.said)
    if not facts.tables:
        return ReportVerdict(
            "open", "Nothing has been taken in yet", "There is no table. Take in what is there: oncelake run"
        )
    if proof.made == "left out":
        return ReportVerdict(
            "open", "Not proven here: the proof was left out", "Make it: oncelake prove, or leave out --no-proof"
        )
    lines, links = count_of(proof.lines, "line, counted", "lines, each"), count_of(len(proof.links), "link")
    detail = f"{links} from the source to the last table, followed in {duration(proof.seconds)}"
    if proof.behind:
        detail += "; what was committed after that is not in it yet"
    return ReportVerdict("good", f"Every link holds: {lines} exactly once", detail)


def attention(facts: Facts) -> Iterator[str]:
    """Say what a person should look at besides the proof."""
    if facts.begun:
        yield facts.begun
    for stage in facts.stages:
        if not stage.may_start:
            yield stage.detail
        for warning in stage.warnings:
            yield f"{stage.stage}: {warning}"
    for batch in facts.batches:
        if batch.lost:
            yield f"{batch.stage}: batch {batch.batch_id} accepted a loss: {', '.join(batch.lost)}"
    for part, why in facts.troubles.items():
        yield f"{part} could not be looked at: {why}"


def balance(facts: Facts) -> str:
    """Say how bronze's lines divide into silver and quarantine."""
    bronze, silver, refused = (facts.rows(str(table)) for table in (BRONZE, SILVER, QUARANTINE))
    if bronze is None or silver is None or refused is None:
        return "Rows could not be counted in every table"
    waits = bronze - silver - refused
    said = f"{count_of(bronze, 'line')} in bronze = {silver:,} in silver + {refused:,} in quarantine"
    if waits > 0:
        return f"{said} + {waits:,} that silver has not taken in yet"
    return said if not waits else f"{said}, which are {-waits:,} more than bronze has"
