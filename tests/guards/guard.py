"""Define a guard: a check in the code, how to break it, and the tests that fail without it."""

from dataclasses import dataclass

from tests.guards.edits import Edit

# directories of tests that start Spark, each a few seconds; all others run without it
_SPARK = ("tests/spark/", "tests/streaming/")


@dataclass(frozen=True)
class Guard:
    """One check that keeps the guarantee.

    Attributes:
        tag: the tag that marks it in the code, in a comment such as `# guard: snapshot-before-log-check`. A statement
            that can be broken in several ways has one tag, and a guard for each.
        name: what is checked, in docs/guards.md.
        without: what goes wrong without it.
        off: the way in which what the tag marks is broken.
        tests: the tests that must fail without it, below `tests`, such as
            `unit/exactly_once/test_fencing.py::test_a_lease_ends_with_its_file`.
        also: tests that fail as well but need a server; the page names them, `make guards` does not run them.
    """

    tag: str
    name: str
    without: str
    off: Edit
    tests: tuple[str, ...]
    also: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the IDs of the tests, from the root of the tree."""
        return tuple(f"tests/{test}" for test in self.tests)

    @property
    def needs_spark(self) -> bool:
        """Return whether one of its tests starts Spark."""
        return any(each.startswith(_SPARK) for each in self.ids)
