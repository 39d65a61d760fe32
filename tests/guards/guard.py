"""Define a guard: a check in the code, how to take it out, and the tests that fail without it."""

from dataclasses import dataclass

from tests.guards.edits import Edit

# directories of tests that start Spark, each a few seconds; all others run without it
_SPARK = ("tests/spark/", "tests/streaming/")


@dataclass(frozen=True)
class Guard:
    """One check that keeps the guarantee.

    Attributes:
        name: what is checked; the first column of the table in docs/guarantee.md.
        without: what goes wrong without it; the second column.
        where: the file below `pipelines/oncelake` and the function, like `exactly_once/lease.py::Lease.check`; a file
            alone is its whole module.
        off: the change that takes it out.
        tests: the tests that must fail without it, below `tests`, such as
            `unit/exactly_once/test_fencing.py::test_a_lease_ends_with_its_file`.
        also: tests that fail as well but need a server; the page names them, `make guards` does not run them.
    """

    name: str
    without: str
    where: str
    off: Edit
    tests: tuple[str, ...]
    also: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """Return the file, from the root of the tree."""
        return f"pipelines/oncelake/{self.where.partition('::')[0]}"

    @property
    def symbol(self) -> str:
        """Return the function, method or class in the file; empty for the whole module."""
        return self.where.partition("::")[2]

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the IDs of the tests, from the root of the tree."""
        return tuple(f"tests/{each}" for each in self.tests)

    @property
    def needs_spark(self) -> bool:
        """Return whether one of its tests starts Spark."""
        return any(each.startswith(_SPARK) for each in self.ids)
