"""All shares together are all tests, and each of them has the tests of all guards."""

from hypothesis import given
from hypothesis import strategies as st

from tests.guards.shares import COUNT, SLOW, Case, not_there, outside
from tests.support.places import ROOT

MARKS = st.sets(st.sampled_from([*SLOW, "long", "xdist_group", "parametrize"]), max_size=3)
IDS = st.sampled_from(["tests/a.py::test_one[1]", "tests/a.py::test_one[2]", "tests/a.py::test_two"])
CASES = st.lists(st.builds(Case, IDS, MARKS))
NAMED = st.sets(st.sampled_from(["tests/a.py::test_one", "tests/a.py::test_one[2]", "tests/a.py::test_two"]))


@given(CASES, NAMED)
def test_a_slow_test_that_no_guard_names_is_in_exactly_one_share_and_any_other_in_each(
    cases: list[Case], named: set[str]
) -> None:
    functions = {each.partition("[")[0] for each in named}
    left = [outside(cases, share, named) for share in range(COUNT)]
    for place, case in enumerate(cases):
        times = COUNT - sum(place in each for each in left)
        slow = not SLOW.isdisjoint(case.marks) and "long" not in case.marks
        is_dealt = slow and case.id.partition("[")[0] not in functions
        assert times == (1 if is_dealt else COUNT)
        assert (place in outside(cases, None, named)) is is_dealt


@given(st.integers(0, 50))
def test_shares_differ_by_one_test_at_most(number: int) -> None:
    cases = [Case("tests/a.py::test_one", ["spark"])] * number
    sizes = [number - len(outside(cases, share, ())) for share in range(COUNT)]
    assert max(sizes) - min(sizes) <= 1


def test_a_case_that_is_renamed_is_missed_in_the_guards_that_name_it() -> None:
    collected = ["tests/a.py::test_one[plain-1]", "tests/a.py::test_two"]
    named = ["tests/a.py::test_one[1]", "tests/a.py::test_one[plain-1]", "tests/a.py::test_two", "tests/b.py::other[1]"]
    assert not_there(named, collected) == ["tests/a.py::test_one[1]"]


def test_submissions_go_through_all_shares() -> None:
    assert f"% {COUNT}))" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
