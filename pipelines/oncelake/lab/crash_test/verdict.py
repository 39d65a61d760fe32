"""This is where a crash test's figures are, and what they say."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from oncelake.common.wording import count_of, duration, share
from oncelake.lab.crash_test.tally import Tally

CONFIDENCE = 0.95


@dataclass(frozen=True)
class CrashTestVerdict:
    """What a crash test came to.

    Attributes:
        kinds: kills, by the kind of moment.
        missed: kills at a durable step that did not come in time.
        kill_seconds: the time of the kills, with all starts in between.
        seconds: the time of the kills, the run to the end and the check.
        rows: lines that were fed, or that bronze held in the end where the source is the user's own.
        tallies: the tables that plain Python can count; none for the user's own source.
        proves: whether `oncelake prove` holds.
        doubts: the links that do not hold, in its words.
        lake: where all is kept, None when it was removed.
    """

    seed: int
    source: str
    kills: int
    kinds: Mapping[str, int]
    missed: int
    restarts: int
    kill_seconds: float
    seconds: float
    rows: int
    tallies: Sequence[Tally]
    proves: bool
    doubts: Sequence[str]
    lake: str | None = None

    @property
    def lost(self) -> int:
        """Rows that are missing, over all tables."""
        return sum(each.lost for each in self.tallies)

    @property
    def doubled(self) -> int:
        """Rows that are there too often, over all tables."""
        return sum(each.doubled for each in self.tallies)

    @property
    def clean(self) -> bool:
        """Whether nothing was lost, nothing doubled, and the proof holds."""
        return self.proves and not self.lost and not self.doubled

    def at(self, lake: str | None) -> Self:
        """Say where all is kept."""
        return replace(self, lake=lake)

    def to_dict(self) -> dict[str, Any]:
        """Write the figures for programs."""
        return {
            "seed": self.seed,
            "source": self.source,
            "kills": self.kills,
            "kinds": dict(sorted(self.kinds.items())),
            "missed": self.missed,
            "restarts": self.restarts,
            "kill_seconds": round(self.kill_seconds, 1),
            "seconds": round(self.seconds, 1),
            "rows": self.rows,
            "lost": self.lost if self.tallies else None,
            "doubled": self.doubled if self.tallies else None,
            "tables": [each.to_dict() for each in self.tallies],
            "prove_holds": self.proves,
            "doubts": list(self.doubts),
            "bound": bound(self.kills) if self.clean else None,
            "clean": self.clean,
            "kept": self.lake,
        }

    def sentences(self) -> Iterator[str]:
        """Say the figures to people."""
        for kind, count in sorted(self.kinds.items()):
            yield f"   {count:>4} x {kind}"
        kills, restarts = count_of(self.kills, "kill"), count_of(self.restarts, "restart")
        pace = duration(self.kill_seconds / self.kills)
        yield f"{kills} and {restarts} in {duration(self.kill_seconds)} ({pace} each)"
        for each in self.tallies:
            rows = count_of(each.expected, "row")
            yield f"   {each.table}: {rows} expected, {each.lost:,} lost, {each.doubled:,} doubled"
        yield from (f"   {each}" for each in self.doubts)
        counted = f"lost {self.lost:,}, doubled {self.doubled:,}, " if self.tallies else ""
        proof = "prove holds" if self.proves else "PROVE DOES NOT HOLD"
        yield f"{count_of(self.rows, 'line')}, {counted}{proof}, {duration(self.seconds)} in all"
        if self.clean:
            cases, sure = share(bound(self.kills)), f"{100 * CONFIDENCE:.0f} %"
            yield f"a kill goes wrong in fewer than {cases} of cases, by {sure} confidence"
        if self.lake:
            yield f"all is kept in {self.lake}"


def bound(kills: int) -> float:
    """Give the chance of a bad kill that so many clean ones rule out: with a higher one, one in them had shown.

    Were the chance p, all of n kills would be clean with (1-p)^n; that is below 5 % from p = 1 - 0.05^(1/n) on.
    """
    return float(1 - (1 - CONFIDENCE) ** (1 / kills))
