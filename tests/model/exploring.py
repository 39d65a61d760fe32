"""Explore every order of crashes: a state is all texts, and a run leads from one state to many.

A run passes through the states before each of its steps. At each it can die, and from each a new run
can start. States that were visited before are not run again, so the search ends, and it covers any
number of crashes at any steps, with input that arrives at any moment.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from tests.model.chain_model import Ending, faults, run
from tests.model.process import Process, Texts
from tests.model.source_model import lots as taken
from tests.model.source_model import produce


@dataclass(frozen=True)
class State:
    """All that the processes so far have left, and the steps that led to it.

    Attributes:
        way: the steps that led here, the shortest that were found.
    """

    texts: Texts
    way: tuple[str, ...] = ()

    def then(self, texts: Texts, what: str) -> Self:
        return type(self)(texts, (*self.way, what))

    @property
    def key(self) -> frozenset[tuple[str, str]]:
        return frozenset(self.texts.items())


@dataclass
class ListedFile:
    """The result of a search.

    Attributes:
        states: every state that a crash leaves.
        settled: those in which a run reached its end.
        wrong: states with a wrong answer although the run reported success.
        refused: states from which a run ended with an error.
    """

    states: list[State] = field(default_factory=list)
    settled: list[State] = field(default_factory=list)
    wrong: list[tuple[State, str]] = field(default_factory=list)
    refused: list[tuple[State, Ending]] = field(default_factory=list)


def crashes_of(
    texts: Texts, kind: str, name: str = "run", rules: str = "rules"
) -> tuple[list[tuple[Texts, str]], Ending]:
    """Run once, and return the texts before each step and at the end, and how it ended."""
    process = Process(dict(texts), name)
    seen: list[tuple[Texts, str]] = []
    process.before = lambda _, what: seen.append((dict(process.texts), f"died before: {what}"))
    ending = run(process, kind, rules)
    return [*seen, (dict(process.texts), "ran to the end")], ending


def explore(kind: str, lots: int, most: int | None = None) -> ListedFile:
    """Visit every state that crashes can lead to while `lots` lots of input arrive.

    Args:
        most: how many states to visit unless a wrong answer is found earlier; all by default.
    """
    found, waiting, met = ListedFile(), deque([State({})]), set()
    while waiting:
        state = waiting.popleft()
        if state.key in met:
            continue
        met.add(state.key)
        found.states.append(state)
        waiting.extend(_next(found, state, kind, lots))
        if most is not None and (found.wrong or len(found.states) >= most):
            break
    return found


def _next(found: ListedFile, state: State, kind: str, lots: int) -> Iterator[State]:
    if taken(state.texts) < lots:
        texts = dict(state.texts)
        produce(texts, kind)
        yield state.then(texts, "more input")
    if not taken(state.texts):
        return
    crashes, ending = crashes_of(state.texts, kind)
    ends = state.then(*crashes[-1])
    if ending.kind != "done" and not faults(crashes[-1][0]).doubled:
        found.refused.append((state, ending))
    else:
        judge(found, ends)
    yield from (state.then(texts, what) for texts, what in crashes)


def judge(found: ListedFile, state: State) -> None:
    """Record a state in which a run reports success, as wrong if its tables are."""
    wrong = faults(state.texts)
    if wrong:
        found.wrong.append((state, str(wrong)))
    else:
        found.settled.append(state)


def finish(texts: Texts, kind: str, lots: int, rules: str = "rules") -> str:
    """Run to the end with all input that is to come; return `exact`, `wrong: …`, or the error that it ends with.

    After an error, start again as long as the previous start changed anything. An error that left rows
    in a table twice is wrong too: a later refusal does not remove them.
    """
    start = 0
    while True:
        before, start = dict(texts), start + 1
        ending = run(Process(texts, f"start {start}"), kind, rules)
        wrong = faults(texts)
        if ending.kind != "done":
            if wrong.doubled or wrong.twice:
                return f"wrong: {wrong}, after {ending.kind}: {ending.said}"
            if before == texts or start > 10:
                return f"{ending.kind}: {ending.said}"
        elif wrong:
            return f"wrong: {wrong}"
        elif taken(texts) >= lots:
            return "exact"
        else:
            produce(texts, kind)


def line(kind: str, lots: int) -> list[State]:
    """Return the states before every step of runs over one lot after the other, without a crash."""
    states = [State({})]
    for _ in range(lots):
        texts = dict(states[-1].texts)
        produce(texts, kind)
        crashes, _ = crashes_of(texts, kind)
        states += [State(each, (f"lot {taken(texts)}", what)) for each, what in crashes]
    return list({state.key: state for state in states}.values())
