"""Play random sequences by seed, go on where the last run stopped, and keep the results.

There are two games: programs that write growing files (`log_play`), and drivers on several hosts (`drivers`).
"""

import argparse
import hashlib
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from oncelake.sources.tail import survey as tail_survey
from tests.model import drivers, log_play
from tests.model.chain_model import modelled
from tests.model.log_play import Result, draw, shortened, small_reach
from tests.support.page_section import keep
from tests.support.places import ROOT

_KEPT = 20
_HERE = Path(__file__).parent
_OURS = _HERE.parents[1] / "pipelines" / "oncelake"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Game:
    """What a sequence is.

    Attributes:
        name: the section of docs/chaos.md that has the results.
        play: plays the sequence of a seed.
        tell: plays one that breaks the rule again, shortened if possible; called with each line.
        inside: what is replaced while sequences are played.
        code: the files that decide what a sequence is and how it ends.
        at_once: how many sequences a process plays before it reports.
    """

    name: str
    play: Callable[[int], Result]
    tell: Callable[[int, Say], object]
    inside: Callable[[], AbstractContextManager[None]]
    code: Callable[[], Iterable[Path]]
    at_once: int

    @property
    def results(self) -> Path:
        """Return the file with the results of earlier runs."""
        return ROOT / "build" / f"{self.name}.json"

    @property
    def version(self) -> str:
        """Return a hash of the code."""
        return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(self.code()))).hexdigest()[:12]


def _tell_files(seed: int, say: Say) -> None:
    sequence = shortened(draw(seed))
    say(f"{sequence}"[:200])
    log_play.play(sequence, say=say)


def _code_of_files() -> Iterable[Path]:
    tail = Path(tail_survey.__file__).parent
    not_played = ("kind.py", "proof.py", "masked_proof.py")
    yield from (path for path in tail.glob("*.py") if path.name not in not_played)
    yield from (tail.parent / "directory" / "names.py", *_HERE.glob("log_*.py"), _HERE / "file_system.py")


def _play_drivers(seed: int) -> Result:
    try:
        return Result(counts=drivers.play(seed))
    except drivers.ViolationError as violation:
        return Result(str(violation))


def _code_of_drivers() -> Iterable[Path]:
    yield from (path for name in ("engine", "exactly_once") for path in (_OURS / name).rglob("*.py"))
    yield from _HERE.glob("*_model.py")
    yield from (_HERE / name for name in ("drivers.py", "process.py", "recovering.py"))


GAMES = {
    "files": Game(
        "simulation", lambda seed: log_play.play(draw(seed)), _tell_files, small_reach, _code_of_files, at_once=500
    ),
    "drivers": Game("drivers", _play_drivers, drivers.play, modelled, _code_of_drivers, at_once=20),
}


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


def played(part: tuple[str, range]) -> Results:
    """Play the sequences of some seeds of a game."""
    game, seeds = GAMES[part[0]], part[1]
    began, results, ended, counts = time.monotonic(), Results(seeds.start, ""), Counter[str](), Counter[str]()
    with game.inside():
        for seed in seeds:
            result = game.play(seed)
            counts += result.counts
            if result.problem:
                results.broken.append(seed)
            ended["violated"] += bool(result.problem)
            ended["named a file"] += bool(result.reasons) and not result.problem
            ended["counted every line"] += not result.reasons and not result.problem
    results.count, results.seconds, results.violations = len(seeds), time.monotonic() - began, len(results.broken)
    results.ended, results.operations = dict(ended), dict(counts)
    return results


def told(game: Game, seed: int) -> str:
    """Return the events of a sequence that breaks the rule."""
    lines: list[str] = []
    with game.inside():
        lines.append(f"seed {seed}: {game.play(seed).problem}")
        with suppress(Exception):
            game.tell(seed, lambda line: lines.append(f"    {line}"))
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
    parser.add_argument("--only", choices=GAMES, default="files", help="the game")
    parser.add_argument("--keep", action="store_true", help="write the results into docs/chaos.md")
    asked = parser.parse_args()
    game = GAMES[asked.only]
    results = _earlier(game, asked.seed)
    first, last = asked.seed + results.count, asked.seed + asked.n
    parts = [(asked.only, range(start, min(start + game.at_once, last))) for start in range(first, last, game.at_once)]
    with multiprocessing.get_context("fork").Pool(asked.jobs) as pool:
        for part in pool.imap(played, parts):
            results.add(part)
            for seed in part.broken:
                sys.stdout.write(f"{told(game, seed)}\n")
                sys.stdout.flush()
            game.results.parent.mkdir(exist_ok=True)
            game.results.write_text(json.dumps(asdict(results)), encoding="utf-8")
    said = summary(results)
    sys.stdout.write(said)
    if asked.keep:
        keep(game.name, said)
    return bool(results.violations)


def _earlier(game: Game, seed: int) -> Results:
    """Return the results of the run that stopped; empty ones if it began with another seed, or with other code."""
    if game.results.exists():
        results = Results(**json.loads(game.results.read_text(encoding="utf-8")))
        if (results.seed, results.version) == (seed, game.version):
            return results
    return Results(seed, game.version)


if __name__ == "__main__":
    sys.exit(main())
