"""All guards, by subject, in the order of docs/guarantee.md.

To add one, put an entry into the module of its subject, and write the page again with `make docs`:

    Guard(
        "what is checked",
        "what goes wrong without it",
        "exactly_once/lease.py::Lease.check",   # the file below `pipelines/oncelake`, and the function
        without("raise LockedError"),           # the statement that contains this text
        tests=("unit/exactly_once/test_fencing.py::test_a_lease_ends_with_its_file",),
    ),

There are three ways to take a guard out. Each finds its place in the syntax tree, written as `ast.unparse` does:
`without(text)` leaves out the one statement that contains the text; `reads(old, new)` reads the one expression `old` as
`new`, for example a condition as `False`; `answers(value)` lets the function return a value at once. Try it with
`make guards ONLY="what is checked"`: all its tests must fail. Prefer tests without Spark; a test that needs a server
goes into `also`, which is not run.
"""

from collections.abc import Mapping

from tests.guards import (
    alerting,
    changing,
    drafting,
    events,
    kit,
    masking,
    meaning,
    proving,
    repeating,
    serving,
    sources,
    starting,
    writing,
)
from tests.guards.guard import Guard

AREAS: Mapping[str, tuple[Guard, ...]] = {
    "A batch": writing.GUARDS,
    "Repeats of a line": repeating.GUARDS,
    "What is said of lines": meaning.GUARDS,
    "Lines of many events": events.GUARDS,
    "What the source holds": sources.GUARDS,
    "Personal data": masking.GUARDS,
    "Drafts of formats": drafting.GUARDS,
    "A start": starting.GUARDS,
    "Commands that change a lake": changing.GUARDS,
    "Served tables": serving.GUARDS,
    "The kit for sinks": kit.GUARDS,
    "Alerts": alerting.GUARDS,
    "The checks of prove": proving.GUARDS,
}
GUARDS: tuple[Guard, ...] = tuple(guard for guards in AREAS.values() for guard in guards)
