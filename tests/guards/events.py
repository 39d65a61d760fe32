"""The guards of lines with many events: the unit of refusal, what a commit records, and the proof of both."""

from tests.guards.edits import reads, without
from tests.guards.guard import Guard

_EACH, _PROVEN, _RUN = "spark/silver/test_each.py::", "spark/proof/test_events.py::", "streaming/test_each.py::"
_NAMED = "test_an_event_that_is_not_one_row_is_named"
_EVENTS, _BALANCE = "proof/events.py::events", "proof/balance.py::"

GUARDS = (
    Guard(
        "an event that breaks a rule refuses its whole line",
        "the good events of a line count, and count again when the line is replayed",
        "silver/each.py::as_lines",
        reads("F.flatten(F.transform(EVENTS, _reasons))", "F.array().cast(REASONS)"),
        tests=(f"{_EACH}test_an_event_that_breaks_a_rule_sends_its_whole_line_to_quarantine_as_one_row",),
    ),
    Guard(
        "the events of a line are counted before silver is written",
        "a commit does not say how many lines its rows come from, and prove fails",
        "silver/stream.py::write_silver",
        reads("first.accepted if first is not None and silver.has_events else None", "None"),
        tests=(f"{_RUN}test_lines_and_events_are_counted_apart[small batches]",),
    ),
    Guard(
        "a replay records how many lines it moves",
        "a replayed line counts as many, and prove fails",
        "engine/replay.py::Replay.go",
        reads("self.silver.has_events", "False"),
        tests=(f"{_RUN}test_a_replay_moves_lines_and_a_killed_one_is_finished",),
    ),
    Guard(
        "a proof counts a line of many events once",
        "an event stands for a line that is lost",
        f"{_BALANCE}_side",
        reads("is_first() if EVENT_INDEX in frame.columns else F.lit(True)", "F.lit(True)"),
        tests=(f"{_PROVEN}test_each_event_once_and_each_line_in_one_table_holds",),
    ),
    Guard(
        "a batch has as many rows of events as its commit recorded",
        "events that were deleted with the count of their line",
        f"{_BALANCE}_uncommitted",
        without("of_events} that"),
        tests=(f"{_PROVEN}test_a_line_that_is_lost_or_doubled_is_named[fewer events]",),
    ),
    Guard(
        "a line has a row for each of its events",
        "a deleted event",
        _EVENTS,
        reads("F.count(F.lit(1)) != F.col(EVENT_COUNT)", "F.lit(False)"),
        tests=(f"{_PROVEN}{_NAMED}[deleted]", f"{_PROVEN}{_NAMED}[first deleted]"),
    ),
    Guard(
        "an event is there once",
        "a doubled event",
        _EVENTS,
        reads("F.min('same') != F.max('same')", "F.lit(False)"),
        tests=(f"{_PROVEN}{_NAMED}[doubled]", f"{_PROVEN}{_NAMED}[doubled in a file]"),
    ),
    Guard(
        "the events of a line have the numbers below their count",
        "an event in place of another one",
        _EVENTS,
        reads("F.bool_and(is_number)", "F.lit(True)"),
        tests=(f"{_PROVEN}{_NAMED}[number beyond]",),
    ),
)
