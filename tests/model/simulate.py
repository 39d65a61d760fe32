"""Play sequences of operations on growing files, go on where the last run stopped, and keep the results."""

import argparse
import hashlib
import json
import multiprocessing
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from oncelake.sources.tail import survey as tail_survey
from tests.model.log_play import draw, play, shortened, small_reach
from tests.support.page_section import keep
from tests.support.places import ROOT

_RESULTS = ROOT / "build" / "simulation.json"
_AT_ONCE = 500
_KEPT = 20


@dataclass
class Results:
    """What the sequences of a run came to.

    Attributes:
        seed: the first seed.
        version: the version of the product's and the simulation's code.
        count: how many sequences were played.
        seconds: how long that took, of one process.
        ended: how many of them ended with every line counted, and how many with a file named.
        operations: how often each operation was applied.
        broken: the seeds of violations, at most `_KEPT`.
        violations: how many there are.
    """

    seed: int
    version: str
    count: int = 0
    seconds: float = 0.0
    ended: dict[str, int] = field(default_factory=dict)
    operations: dict[str, int] = field(default_factory=dict)
    broken: list[int] = field(default_factory=list)
    violations: int = 0

    def add(self, other: "Results") -> None:
        """Add the next sequences."""
        self.count += other.count
        self.seconds += other.seconds
        self.ended = dict(Counter(self.ended) + Counter(other.ended))
        self.operations = dict(Counter(self.operations) + Counter(other.operations))
        self.broken = [*self.broken, *other.broken][:_KEPT]
        self.violations += other.violations


def version() -> str:
    """Return a hash of the code that decides what a sequence is and how it ends."""
    tail = Path(tail_survey.__file__).parent
    not_played = ("kind.py", "proof.py", "masked_proof.py")
    ours = [path for path in tail.glob("*.py") if path.name not in not_played]
    ours += [tail.parent / "directory" / "names.py", *Path(__file__).parent.glob("log_*.py")]
    ours.append(Path(__file__).parent / "file_system.py")
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(ours))).hexdigest()[:12]


def played(seeds: range) -> Results:
    """Play the sequences of some seeds."""
    began, results, ended, counts = time.monotonic(), Results(seeds.start, ""), Counter[str](), Counter[str]()
    with small_reach():
        for seed in seeds:
            result = play(draw(seed))
            counts += result.counts
            if result.problem:
                results.broken.append(seed)
            ended["violated"] += bool(result.problem)
            ended["named a file"] += bool(result.reasons) and not result.problem
            ended["counted every line"] += not result.reasons and not result.problem
    results.count, results.seconds, results.violations = len(seeds), time.monotonic() - began, len(results.broken)
    results.ended, results.operations = dict(ended), dict(counts)
    return results


def told(seed: int) -> str:
    """Return the shortened sequence of a seed."""
    with small_reach():
        sequence = shortened(draw(seed))
        lines = [f"seed {seed}: {play(sequence).problem}", f"    {sequence}"[:200]]
        play(sequence, say=lambda line: lines.append(f"    {line}"))
    return "\n".join(lines)


def summary(results: Results) -> str:
    """Return the results in Markdown."""
    rows = "".join(f"| {kind} | {count:,} |\n" for kind, count in sorted(results.operations.items()))
    broken = "".join(f", seed {seed}" for seed in results.broken)
    ended = ", ".join(f"{count:,} {how}" for how, count in sorted(results.ended.items()) if count)
    return (
        f"Run on {datetime.now(UTC):%Y-%m-%d}, {results.seconds:,.0f} s of one core, first seed {results.seed}: "
        f"{results.count:,} sequences, violations: {results.violations}{broken}. At their end, {ended}.\n\n"
        f"| operation | times |\n|---|---|\n{rows}"
    )


def main() -> int:
    """Play what the arguments ask for; return 1 if a sequence breaks the rule."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first sequence's seed; each next one's is one more")
    parser.add_argument("-n", type=int, default=1, help="how many sequences, with those of earlier runs")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    parser.add_argument("--keep", action="store_true", help="write the results into docs/chaos.md")
    asked = parser.parse_args()
    results = _earlier(asked.seed)
    first, last = asked.seed + results.count, asked.seed + asked.n
    parts = [range(start, min(start + _AT_ONCE, last)) for start in range(first, last, _AT_ONCE)]
    with multiprocessing.get_context("fork").Pool(asked.jobs) as pool:
        for part in pool.imap(played, parts):
            results.add(part)
            for seed in part.broken:
                sys.stdout.write(f"{told(seed)}\n")
            _RESULTS.parent.mkdir(exist_ok=True)
            _RESULTS.write_text(json.dumps(asdict(results)), encoding="utf-8")
    said = summary(results)
    sys.stdout.write(said)
    if asked.keep:
        keep("simulation", said)
    return bool(results.violations)


def _earlier(seed: int) -> Results:
    """Return the results of the run that stopped; empty ones if it began with another seed, or with other code."""
    if _RESULTS.exists():
        results = Results(**json.loads(_RESULTS.read_text(encoding="utf-8")))
        if (results.seed, results.version) == (seed, version()):
            return results
    return Results(seed, version())


if __name__ == "__main__":
    sys.exit(main())
