"""Take guards out, one by one, in a copy of the tree; exit 0 if the tests of each fail without it."""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.guards.entries import GUARDS
from tests.guards.guard import Guard
from tests.guards.trial import Trial, Verdict
from tests.support.places import ROOT


def chosen(guards: Sequence[Guard], *, only: Sequence[str], number: int | None, seed: int | None) -> list[Guard]:
    """Return the guards whose name or place contains one of the given texts, and at random only `number` of them.

    Raises:
        ValueError: no guard contains a text.
    """
    for text in only:
        if not any(_is_meant(text, guard) for guard in guards):
            raise ValueError(f"no guard's name or place contains {text!r}")
    found = [guard for guard in guards if not only or any(_is_meant(text, guard) for text in only)]
    return found if number is None else random.Random(seed).sample(found, min(number, len(found)))


def _is_meant(text: str, guard: Guard) -> bool:
    return text in guard.name or text in guard.where


def main(arguments: Sequence[str] | None = None, guards: Sequence[Guard] = GUARDS, root: Path = ROOT) -> int:
    """Try the chosen guards; return the exit code."""
    parser = argparse.ArgumentParser(prog="make guards", description=__doc__)
    parser.add_argument("only", nargs="*", help="texts in the names or places of the guards that are meant")
    parser.add_argument("-n", "--number", type=int, help="try this many, chosen at random")
    parser.add_argument("--seed", type=int, help="choose the same ones again")
    asked = parser.parse_args(arguments)
    try:
        guards = chosen(guards, only=asked.only, number=asked.number, seed=asked.seed)
    except ValueError as error:
        parser.error(str(error))
    began = time.monotonic()
    verdicts = Trial(root, _say).run(guards)
    red = sum(each.red for each in verdicts)
    seed = f", seed {asked.seed}" if asked.seed is not None else ""
    print(f"{red} of {len(guards)} guards are red{seed}, in {time.monotonic() - began:.0f} s")
    return 0 if red == len(guards) else 1


def _say(verdict: Verdict) -> None:
    print(verdict, flush=True)


if __name__ == "__main__":
    sys.exit(main())
