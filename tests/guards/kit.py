"""The guards of the kit for sinks: each check that finds a wrong sink."""

from tests.guards.edits import Edit, answers, reads, without
from tests.guards.guard import Guard

_CHECK, _COURSE = "lab/sink_test/check.py::SinkTest.", "lab/sink_test/course.py::"
_TESTS = "unit/lab/sink_test/test_check.py::test_a_sink_"


def _guard(name: str, passes: str, where: str, off: Edit, *sinks: str) -> Guard:
    return Guard(f"the kit for sinks {name}", f"it passes a sink that {passes}", where, off, tests=sinks)


def _deliberate(name: str) -> str:
    return f"{_TESTS}with_a_deliberate_fault_is_named_by_it[{name}]"


def _wrong(name: str, check: str, said: str) -> str:
    return f"{_TESTS}that_is_wrong_is_found[{name}-{check}-{said}]"


GUARDS = (
    _guard(
        "compares each value",
        "rounds or cuts values",
        f"{_COURSE}Course._difference",
        reads("one != other or type(one) is not type(other)", "False"),
        _deliberate("Float32"),
    ),
    _guard(
        "compares the type of each value",
        "gives back a number for a truth value",
        f"{_COURSE}Course._difference",
        reads("type(one) is not type(other)", "False"),
        _deliberate("BooleanAsInt"),
    ),
    _guard(
        "compares the order of the rows",
        "gives back rows in another order, which prove reads side by side with gold's",
        f"{_COURSE}Course._difference",
        reads("found == sorted(found)", "True"),
        _deliberate("Backwards"),
    ),
    _guard(
        "counts the rows of a key",
        "writes a row a second time",
        f"{_COURSE}Course._difference",
        reads("len(set(found)) < len(found)", "False"),
        _wrong("DoublesOnReplay", "a late write", "times"),
    ),
    _guard(
        "finds rows that should not be there",
        "does not remove every row",
        f"{_COURSE}Course._difference",
        without("should not be there"),
        _deliberate("RemovesTooLittle"),
    ),
    _guard(
        "looks at the number of values of a row",
        "leaves a column out",
        f"{_COURSE}Course._misshapen",
        answers("''"),
        _deliberate("LeavesOut"),
    ),
    _guard(
        "compares the stored batch with the given one",
        "loses a part of the position",
        f"{_COURSE}_must_be_stored",
        without("raise FaultError"),
        _deliberate("Loses_rules"),
    ),
    _guard(
        "compares the number of the last batch",
        "lets a batch that was overtaken replace the last one",
        f"{_COURSE}Course.must_be",
        without("the last batch is {seen.batch_id}, expected"),
        _wrong("NotFenced", "a late write", "the last batch is 1, expected: 2"),
    ),
    _guard(
        "writes batches past the check of replays",
        "writes a late batch",
        f"{_CHECK}_late_writes",
        answers("''"),
        _wrong("OldRowsWin", "a late write", "expected"),
    ),
    _guard(
        "writes by two objects in turns",
        "remembers the last batch",
        f"{_CHECK}_seeding",
        answers("''"),
        _deliberate("Remembers"),
    ),
    _guard(
        "writes batches of no row and of many parts",
        "passes over an empty batch, or drops rows after fifty parts",
        f"{_CHECK}_sizes",
        answers("''"),
        *map(_deliberate, ("FiftyParts", "SkipsEmpty")),
    ),
    _guard(
        "writes two tables",
        "keeps two tables in one",
        f"{_CHECK}_another_table",
        answers("''"),
        _deliberate("SharedRows"),
    ),
    _guard(
        "writes a table without keys",
        "merges times that are close to each other",
        f"{_CHECK}_windows",
        answers("''"),
        _deliberate("MinuteKey"),
    ),
    _guard(
        "writes an older batch after a removal",
        "brings removed rows back",
        f"{_CHECK}_removals",
        without("an older batch with these rows was written late"),
        _deliberate("ForgetsWhatWasRemoved"),
    ),
    _guard(
        "removes rows a second time",
        "removes rows that were written again",
        f"{_CHECK}_removals",
        without("the removal came a second time"),
        _deliberate("LateRemoval"),
    ),
    _guard(
        "kills a process that removes rows",
        "removes in two steps",
        f"{_CHECK}_removals",
        without("values.must_survive"),
        _deliberate("RemovalInTwo"),
    ),
    _guard(
        "looks for a batch whose rows raised an error",
        "swallows an error and stores the batch",
        f"{_CHECK}_raise_in_rows",
        without("Let the errors pass that the rows raise"),
        _deliberate("Swallows"),
    ),
    _guard(
        "must see the errors of the rows",
        "raises an error of its own instead",
        f"{_CHECK}_raise_in_rows",
        without("write did not let it pass"),
        _deliberate("Rewords"),
    ),
    _guard(
        "reads the rows after an error",
        "keeps rows of a batch that it did not store",
        f"{_CHECK}_raise_in_rows",
        without("main.must_be_either(seen, when)"),
        _deliberate("CommitsOnError"),
    ),
    _guard(
        "applies a batch again by the object that failed",
        "swallows an error of its own",
        f"{_CHECK}_errors_at_lines",
        answers("''"),
        _deliberate("SwallowsItsOwn"),
    ),
    _guard(
        "lets a stopped writer continue after its successor",
        "reads its version before it takes a lock",
        f"{_CHECK}_two_writers",
        answers("''"),
        _wrong("ChecksTooEarly", "two writers", "a successor wrote batches"),
    ),
    _guard(
        "kills a process before each line",
        "undoes a failed batch by itself, which a killed process cannot",
        f"{_CHECK}_killed_at_lines",
        without("main.must_survive"),
        _deliberate("UndoesByItself"),
    ),
    _guard(
        "kills a process that empties the table",
        "stores the mark before it removes the rows",
        f"{_CHECK}_killed_in_a_rebuild",
        without("main.must_be(0"),
        _deliberate("MarkFirst"),
    ),
)
