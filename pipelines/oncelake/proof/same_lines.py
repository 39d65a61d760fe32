"""This is where bronze, silver and quarantine are cut to the same lines, so that they can be weighed."""

from dataclasses import replace

from oncelake.common.lake import BRONZE
from oncelake.engine.chain import Chain
from oncelake.exactly_once.positions import version_of
from oncelake.proof.pin import Limits, may_start, pin
from oncelake.proof.record import Proven
from oncelake.proof.span import Span


def same_lines(chain: Chain, silver: Span, quarantine: Span) -> tuple[Span, Span, Span, tuple[str, ...]]:
    """Give the spans of bronze, silver and quarantine that hold the same lines, and say what was left out.

    Bronze is cut to what silver's span has read. Where the log of bronze no longer has the commits of
    silver's first batches, these are left out.
    """
    bronze = _read_by(chain, silver)
    oldest = bronze.start.version + 1 if bronze.start else 0
    if oldest <= version_of(silver.before):
        return bronze, silver, quarantine, ()
    later = _from(silver, oldest)
    kept = later.commits[0].metadata if later.commits else None
    first = kept.batch_id if kept else None
    # of quarantine's start only counts that there is one: its rows are chosen by bronze's batches
    rest = tuple(
        each for each in quarantine.commits if each.metadata and first is not None and each.metadata.batch_id >= first
    )
    metadata = (
        f"lines that {BRONZE} took in below version {oldest} are not weighed: their commits are gone from its log"
    )
    return _read_by(chain, later), later, replace(quarantine, commits=rest, start=later.start), (metadata,)


def _read_by(chain: Chain, silver: Span) -> Span:
    """Give the part of bronze that a span of silver has read."""
    first, end = version_of(silver.before), version_of(silver.end)
    commit_log, path = chain.commit_log(BRONZE), chain.lake.at(BRONZE)
    found = pin(BRONZE, path, commit_log, Limits(lambda commit: commit.version < first, newest=end - 1))
    assert found is not None, "silver's positions were held against bronze before"
    return replace(found.span, version=end - 1)


def _from(silver: Span, oldest: int) -> Span:
    """Cut silver to the batches that read nothing below a version of bronze."""
    assert silver.commits, "a span without batches is not weighed"
    first = next(
        (
            index
            for index, each in enumerate(silver.commits)
            if each.metadata and may_start(each) and each.metadata.before and version_of(each.metadata.before) >= oldest
        ),
        None,
    )
    if first is None:
        last = silver.commits[-1]
        return replace(silver, commits=(), start=Proven.up_to("", last))
    return replace(silver, commits=silver.commits[first:], start=Proven.ahead_of("", silver.commits[first]))
