"""The guards of the kit for sinks: each check that finds a wrong sink."""

from tests.guards.edits import Edit, always, answers, never, removed
from tests.guards.guard import Guard

_TESTS = "unit/lab/sink_test/test_check.py::test_a_sink_"


def _guard(tag: str, name: str, passes: str, off: Edit, *sinks: str) -> Guard:
    return Guard(tag, f"the kit for sinks {name}", f"it passes a sink that {passes}", off, tests=sinks)


def _deliberate(name: str) -> str:
    return f"{_TESTS}with_a_deliberate_fault_is_named_by_it[{name}]"


def _wrong(name: str, check: str, said: str) -> str:
    return f"{_TESTS}that_is_wrong_is_found[{name}-{check}-{said}]"


GUARDS = (
    _guard(
        "kit-compares-values",
        "compares each value",
        "rounds or cuts values",
        never(),
        _deliberate("Float32"),
    ),
    _guard(
        "kit-compares-values",
        "compares the type of each value",
        "gives back a number for a truth value",
        never(part=2),
        _deliberate("BooleanAsInt"),
    ),
    _guard(
        "kit-compares-order",
        "compares the order of the rows",
        "gives back rows in another order, which prove reads side by side with gold's",
        always(),
        _deliberate("Backwards"),
    ),
    _guard(
        "kit-counts-rows",
        "counts the rows of a key",
        "writes a row a second time",
        never(),
        _wrong("DoublesOnReplay", "a late write", "times"),
    ),
    _guard(
        "kit-finds-extra-rows",
        "finds rows that should not be there",
        "does not remove every row",
        removed(),
        _deliberate("RemovesTooLittle"),
    ),
    _guard(
        "kit-checks-row-length",
        "looks at the number of values of a row",
        "leaves a column out",
        answers("''"),
        _deliberate("LeavesOut"),
    ),
    _guard(
        "kit-compares-stored-batch",
        "compares the stored batch with the given one",
        "loses a part of the position",
        removed(),
        _deliberate("Loses_rules"),
    ),
    _guard(
        "kit-compares-last-batch",
        "compares the number of the last batch",
        "lets a batch that was overtaken replace the last one",
        removed(),
        _wrong("NotFenced", "a late write", "the last batch is 1, expected: 2"),
    ),
    _guard(
        "kit-writes-late-batch",
        "writes batches past the check of replays",
        "writes a late batch",
        answers("''"),
        _wrong("OldRowsWin", "a late write", "expected"),
    ),
    _guard(
        "kit-writes-in-turns",
        "writes by two objects in turns",
        "remembers the last batch",
        answers("''"),
        _deliberate("Remembers"),
    ),
    _guard(
        "kit-writes-any-size",
        "writes batches of no row and of many parts",
        "passes over an empty batch, or drops rows after fifty parts",
        answers("''"),
        *map(_deliberate, ("FiftyParts", "SkipsEmpty")),
    ),
    _guard(
        "kit-writes-two-tables",
        "writes two tables",
        "keeps two tables in one",
        answers("''"),
        _deliberate("SharedRows"),
    ),
    _guard(
        "kit-writes-without-keys",
        "writes a table without keys",
        "merges times that are close to each other",
        answers("''"),
        _deliberate("MinuteKey"),
    ),
    _guard(
        "kit-writes-after-removal",
        "writes an older batch after a removal",
        "brings removed rows back",
        removed(),
        _deliberate("ForgetsWhatWasRemoved"),
    ),
    _guard(
        "kit-removes-twice",
        "removes rows a second time",
        "removes rows that were written again",
        removed(),
        _deliberate("LateRemoval"),
    ),
    _guard(
        "kit-kills-during-removal",
        "kills a process that removes rows",
        "removes in two steps",
        removed(),
        _deliberate("RemovalInTwo"),
    ),
    _guard(
        "kit-finds-swallowed-error",
        "looks for a batch whose rows raised an error",
        "swallows an error and stores the batch",
        removed(),
        _deliberate("Swallows"),
    ),
    _guard(
        "kit-sees-row-errors",
        "must see the errors of the rows",
        "raises an error of its own instead",
        removed(),
        _deliberate("Rewords"),
    ),
    _guard(
        "kit-reads-after-error",
        "reads the rows after an error",
        "keeps rows of a batch that it did not store",
        removed(),
        _deliberate("CommitsOnError"),
    ),
    _guard(
        "kit-applies-failed-again",
        "applies a batch again by the object that failed",
        "swallows an error of its own",
        answers("''"),
        _deliberate("SwallowsItsOwn"),
    ),
    _guard(
        "kit-lets-stopped-continue",
        "lets a stopped writer continue after its successor",
        "reads its version before it takes a lock",
        answers("''"),
        _wrong("ChecksTooEarly", "two writers", "a successor wrote batches"),
    ),
    _guard(
        "kit-kills-each-line",
        "kills a process before each line",
        "undoes a failed batch by itself, which a killed process cannot",
        removed(),
        _deliberate("UndoesByItself"),
    ),
    _guard(
        "kit-kills-while-emptying",
        "kills a process that empties the table",
        "stores the mark before it removes the rows",
        removed(),
        _deliberate("MarkFirst"),
    ),
)
