"""Define the steps of a sequence: they can be printed, parsed, and played one by one."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote_from_bytes, unquote_to_bytes

_DURING = re.compile(r"\{(\d+) (\w+) ([^}]*)\}")
_SAFE = "/=._-~+,"


@dataclass(frozen=True)
class Step:
    """One operation on the directory, or one command.

    Attributes:
        verb: what is done.
        names: the files that it is done to.
        numbers: its other arguments: a tag that makes its lines unique, a count, a date.
        during: what happens during a `run`.
    """

    verb: str
    names: tuple[bytes, ...] = ()
    numbers: tuple[int, ...] = ()
    during: tuple["During", ...] = ()

    def __str__(self) -> str:
        """Format the step as one line."""
        words = [self.verb, *(quote_from_bytes(name, _SAFE) for name in self.names), *(f"#{n}" for n in self.numbers)]
        return " ".join([*words, *map(str, self.during)])


@dataclass(frozen=True)
class During:
    """What happens at one point of a run.

    Attributes:
        batch: the run's batch, from 0.
        moment: `before` the stage's work, `writing` right before the table's commit, `after` it.
        step: what happens; `stop` ends the run there as a kill would.
    """

    batch: int
    moment: str
    step: Step

    def __str__(self) -> str:
        """Format it as a part of the run's line."""
        return f"{{{self.batch} {self.moment} {self.step}}}"


def parse(line: str) -> Step:
    """Parse a step as `str` formats it."""
    during = tuple(During(int(batch), moment, parse(step)) for batch, moment, step in _DURING.findall(line))
    verb, *words = _DURING.sub("", line).split()
    names = tuple(unquote_to_bytes(word) for word in words if not word.startswith("#"))
    return Step(verb, names, tuple(int(word[1:]) for word in words if word.startswith("#")), during)


def parsed(text: str) -> list[Step]:
    """Parse one step for each line."""
    return [parse(line) for line in text.splitlines() if line.strip()]


def spelled(steps: Iterable[Step]) -> str:
    """Format one step a line, as `python -m tests.chaos --steps FILE` reads them."""
    return "\n".join(map(str, steps))
