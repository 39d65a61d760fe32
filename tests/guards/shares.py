"""A plugin of pytest: shares of the slow tests (docs/decisions/0029-a-share-of-the-tests.md).

`pytest -p tests.guards.shares --share guards` runs all fast tests, and all that a guard names; `--share 1` also a third
of the others.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import pytest

from tests.guards.entries import GUARDS

COUNT = 3
GUARDS_ONLY = "guards"
SLOW = frozenset({"spark", "chain", "kafka", "database", "notebook"})


class Case(NamedTuple):
    """A test as pytest collected it: its ID from the root of the tree, and the names of its marks."""

    id: str
    marks: Collection[str]


def outside(cases: Sequence[Case], share: int | None, named: Collection[str]) -> list[int]:
    """Return the positions of the tests that this share leaves to the others.

    A test is never left out if it is fast, if a guard names it, or if it has the mark `long`, which pytest itself
    deselects. The others are dealt out one by one, so that the cases of one test and the tests of one file spread.

    Args:
        cases: all tests, in any order that is the same in each run.
        share: its number, from 0; None for the tests alone that each share has.
        named: the IDs that guards name, with or without the parameters of a test.
    """
    functions = {each.partition("[")[0] for each in named}
    dealt = [
        place
        for place, case in enumerate(cases)
        if SLOW.intersection(case.marks) and "long" not in case.marks and case.id.partition("[")[0] not in functions
    ]
    return [place for turn, place in enumerate(dealt) if turn % COUNT != share]


def not_there(named: Iterable[str], ids: Iterable[str]) -> list[str]:
    """Return the cases that guards name and that the tests do not have; not of tests that were not collected.

    Args:
        named: the IDs that guards name, with or without the parameters of a test.
        ids: the IDs of the collected tests.
    """
    collected = {*ids}
    functions = {case.partition("[")[0] for case in collected}
    return sorted(
        case for case in named if "[" in case and case not in collected and case.partition("[")[0] in functions
    )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the share."""
    choices = (GUARDS_ONLY, *map(str, range(COUNT)))
    parser.addoption("--share", required=True, choices=choices, help="the number of a share, or none of them")


def pytest_report_header(config: pytest.Config) -> str:
    """Return the line that says what this run leaves out."""
    share = config.getoption("share")
    return (
        f"share {share} (0 to {COUNT - 1}) of the slow tests that no guard names; `make test SHARE=all` runs all tests"
    )


@pytest.hookimpl(tryfirst=True)  # before xdist writes the groups into the IDs
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of the other shares out."""
    cases = [Case(item.nodeid, [mark.name for mark in item.iter_markers()]) for item in items]
    named = {each for guard in GUARDS for each in (*guard.ids, *(f"tests/{test}" for test in guard.also))}
    is_chosen = config.getoption("lf", False) or any("::" in argument for argument in config.args)
    if not is_chosen and (unknown := not_there(named, [case.id for case in cases])):
        raise pytest.UsageError(f"a guard names a test that is not there: {', '.join(unknown)}")
    share = config.getoption("share")
    left = set(outside(cases, None if share == GUARDS_ONLY else int(share), named))
    config.hook.pytest_deselected(items=[item for place, item in enumerate(items) if place in left])
    items[:] = [item for place, item in enumerate(items) if place not in left]
