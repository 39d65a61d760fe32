"""The guards of lines with many events: the unit of refusal, what a commit records, and the proof of both."""

from tests.guards.edits import becomes, never, removed
from tests.guards.guard import Guard

_EACH, _PROVEN, _RUN = "spark/silver/test_each.py::", "spark/proof/test_events.py::", "streaming/test_each.py::"
_NAMED = "test_an_event_that_is_not_one_row_is_named"

GUARDS = (
    Guard(
        "bad-event-refuses-line",
        "an event that breaks a rule refuses its whole line",
        "the good events of a line count, and count again when the line is replayed",
        becomes("F.array().cast(REASONS)"),
        tests=(f"{_EACH}test_an_event_that_breaks_a_rule_sends_its_whole_line_to_quarantine_as_one_row",),
    ),
    Guard(
        "events-counted-before-silver",
        "the events of a line are counted before silver is written",
        "a commit does not say how many lines its rows come from, and prove fails",
        never(),
        tests=(f"{_RUN}test_lines_and_events_are_counted_apart[small batches]",),
    ),
    Guard(
        "replay-counts-moved-lines",
        "a replay records how many lines it moves",
        "a replayed line counts as many, and prove fails",
        never(),
        tests=(f"{_RUN}test_a_replay_moves_lines_and_a_killed_one_is_finished",),
    ),
    Guard(
        "proof-counts-line-once",
        "a proof counts a line of many events once",
        "an event stands for a line that is lost",
        never(),
        tests=(f"{_PROVEN}test_each_event_once_and_each_line_in_one_table_holds",),
    ),
    Guard(
        "event-rows-as-recorded",
        "a batch has as many rows of events as its commit recorded",
        "events that were deleted with the count of their line",
        removed(),
        tests=(f"{_PROVEN}test_a_line_that_is_lost_or_doubled_is_named[plain-fewer events]",),
    ),
    Guard(
        "events-of-line-complete",
        "a line has a row for each of its events",
        "a deleted event",
        becomes("'TRUE'"),
        tests=(f"{_PROVEN}{_NAMED}[plain-deleted]", f"{_PROVEN}{_NAMED}[plain-first deleted]"),
    ),
    Guard(
        "event-of-line-once",
        "an event is there once",
        "a doubled event",
        becomes("'TRUE'"),
        tests=(f"{_PROVEN}{_NAMED}[plain-doubled]", f"{_PROVEN}{_NAMED}[plain-doubled in a file]"),
    ),
    Guard(
        "event-number-below-count",
        "the events of a line have the numbers below their count",
        "an event in place of another one",
        becomes("'TRUE'"),
        tests=(f"{_PROVEN}{_NAMED}[plain-number beyond]",),
    ),
)
