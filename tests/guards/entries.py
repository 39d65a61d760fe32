"""All guards, by subject, in the order of docs/guards.md.

To add one, mark its line in the code with a tag of two to five words, which no other line has:

    raise LockedError(message)  # guard: expired-lease-stops-holder

The tag marks what begins on its line: a statement, an argument, an expression, or a function. If the line is too long,
the tag goes on the line above. Then put an entry into the module of its subject, and write the page with `make docs`:

    Guard(
        "expired-lease-stops-holder",
        "what is checked",
        "what goes wrong without it",
        removed(),                              # how to break what the tag marks
        tests=("unit/exactly_once/test_fencing.py::test_a_lease_ends_with_its_file",),
    ),

These are the ways to break it (`tests/guards/edits.py`); take the first that fits:

| way | what it does |
|---|---|
| `removed()` | leaves the statement out |
| `answers("[]")` | lets the function return a value at once |
| `never()`, `always()` | reads the condition as false, or as true; `part=2`: its second part |
| `becomes("None")` | gives another value: what is assigned, returned, passed, looped over, or caught |
| `calls("rows_of", "[]")` | reads the one call of a function in the statement as a value |
| `unwrapped("min")` | leaves a call out, and keeps its first argument; without a name if the call is the whole value |
| `reads("topic.ends", "topic.latest")` | reads the one expression in the statement as another |

A statement that can be broken in several ways has one tag, and an entry for each way. Try a guard with
`make guards ONLY=expired-lease-stops-holder`: all its tests must fail. Prefer tests without Spark; a test that needs a
server goes into `also`, which is not run.
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
    own_query,
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
    "Your own foreachBatch": own_query.GUARDS,
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
