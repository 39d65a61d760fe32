"""Break guards, one by one, in a copy of the tree; exit 0 if the tests of each fail without it."""

import argparse
import random
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.guards.entries import GUARDS
from tests.guards.guard import Guard
from tests.guards.tags import EntryError, files
from tests.guards.trial import Trial, Verdict
from tests.support.places import ROOT


def chosen(
    guards: Sequence[Guard], files: Mapping[str, str], *, only: Sequence[str], number: int | None, seed: int | None
) -> list[Guard]:
    """Return the guards whose tag, name or file contains one of the given texts, and at random only `number` of them.

    Args:
        guards: all guards.
        files: the file of each tag.
        only: the texts; empty for all guards.
        number: how many guards are chosen at random; None for all.
        seed: the same seed chooses the same guards.

    Raises:
        ValueError: no guard contains a text.
    """
    texts = {guard: (guard.tag, guard.name, files.get(guard.tag, "")) for guard in guards}
    for asked in only:
        if not any(asked in text for each in texts.values() for text in each):
            raise ValueError(f"no guard's tag, name or file contains {asked!r}")
    found = [guard for guard in guards if not only or any(asked in text for asked in only for text in texts[guard])]
    return found if number is None else random.Random(seed).sample(found, min(number, len(found)))


def main(arguments: Sequence[str] | None = None, guards: Sequence[Guard] = GUARDS, root: Path = ROOT) -> int:
    """Try the chosen guards; return the exit code."""
    parser = argparse.ArgumentParser(prog="make guards", description=__doc__)
    parser.add_argument("only", nargs="*", help="texts in the tags, names or files of the guards that are meant")
    parser.add_argument("-n", "--number", type=int, help="try this many, chosen at random")
    parser.add_argument("--seed", type=int, help="choose the same ones again")
    asked = parser.parse_args(arguments)
    try:
        guards = chosen(guards, files(root), only=asked.only, number=asked.number, seed=asked.seed)
    except (ValueError, EntryError) as error:
        parser.error(str(error))
    began = time.monotonic()
    verdicts = Trial(root, _say).run(guards)
    red = sum(verdict.red for verdict in verdicts)
    seed = f", seed {asked.seed}" if asked.seed is not None else ""
    print(f"{red} of {len(guards)} guards are red{seed}, in {time.monotonic() - began:.0f} s")
    return 0 if red == len(guards) else 1


def _say(verdict: Verdict) -> None:
    print(verdict, flush=True)


if __name__ == "__main__":
    sys.exit(main())
