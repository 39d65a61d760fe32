"""Compare a source of any kind with bronze, by what every source answers."""

from oncelake.common.lake import BRONZE
from oncelake.exactly_once.commit import CommitMetadata
from oncelake.exactly_once.source import Source
from oncelake.proof.link import Link


def what_waits(name: str, source: Source, metadata: CommitMetadata | None, *, may_start: bool) -> Link:
    """Prove that bronze can go on from where it is, and that the next run reads what waits.

    Args:
        name: what the source is called.
        source: the source.
        metadata: what the commit of bronze's last batch says.
        may_start: whether the next run of bronze would start.
    """
    at = metadata.end if metadata else None
    trouble, waits = source.trouble(at, None, metadata.source if metadata else {}), source.backlog(at)
    said = "read up to the end" if waits.count == 0 else f"{_some(waits.count)} {waits.unit} wait for the next run"
    if trouble is not None:
        said = trouble.seen
    elif waits.count != 0 and not may_start:
        said = f"{_some(waits.count)} {waits.unit} wait and no run reads them, as bronze would not start"
    holds = trouble is None and (waits.count == 0 or may_start)
    return Link(f"{name} → {BRONZE}", str(BRONZE), holds, said)


def _some(count: int | None) -> str:
    return "an unknown number of" if count is None else f"{count:,}"
