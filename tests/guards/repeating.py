"""The guards of dropped repeats: what a batch is compared with, the window, the order, and the proof of all three."""

from tests.guards.edits import answers, becomes, calls, reads, removed, unwrapped
from tests.guards.guard import Guard

_RULE = "spark/silver/test_duplicates.py::test_both_find_what_the_rule_says"
_KEYS = "spark/silver/test_duplicates.py::test_a_key_is_null_without_a_part_and_different_for_other_parts"
_CRASHES = "streaming/test_duplicates.py::test_a_crash_at_any_step_drops_each_repeat_once"
_PROVEN = "spark/proof/test_repeats.py::"
_TWO = "test_two_lines_of_one_event_in_silver_are_named"

GUARDS = (
    Guard(
        "repeats-from-recorded-version",
        "a replayed batch is compared with the version that silver's commit recorded",
        "each line of a half-written batch repeats itself, and the batch never ends",
        becomes("self._seen"),
        tests=(_CRASHES,),
    ),
    Guard(
        "repeat-within-window",
        "a line further than the window from its twin stays, in Spark",
        "two events count as one",
        reads('F.abs(old["at"] - mark["at"]) <= window', "F.lit(True)"),
        tests=(_RULE,),
    ),
    Guard(
        "collected-repeat-within-window",
        "a line further than the window from its twin stays, in a small batch",
        "two events count as one",
        becomes("bool(candidates)"),
        tests=(_RULE,),
    ),
    Guard(
        "repeats-by-arrival",
        "the lines of a key are looked at in the order in which they arrived, in Spark",
        "another line of an event stays than the first, and a replay may keep both",
        calls("col", "F.lit(None).cast('timestamp').alias('ingested_at')"),
        tests=(_RULE,),
    ),
    Guard(
        "collected-repeats-by-arrival",
        "the lines of a key are looked at in the order in which they arrived, in a small batch",
        "another line of an event stays than the first, and a replay may keep both",
        unwrapped(),
        tests=(_RULE,),
    ),
    Guard(
        "key-part-lengths",
        "a key has the length of each of its parts",
        "`a` and `b1` are the same key as `ab` and `1`: two events count as one",
        calls("cast", "F.lit('')"),
        tests=(_KEYS,),
    ),
    Guard(
        "window-on-both-sides",
        "the times that are read cover a window on both sides",
        "a repeat whose twin is in the part of time before or after its own counts again",
        reads("part - 1", "part"),
        tests=("unit/silver/test_duplicates.py::test_the_ranges_cover_every_time_within_a_window",),
    ),
    Guard(
        "repeats-version-still-there",
        "a half-written batch is not compared with another version than the recorded one",
        "the batch fails with an error of Spark that says nothing of the way out",
        removed(),
        tests=("streaming/test_duplicates.py::test_a_half_written_batch_whose_earlier_version_is_gone_writes_nothing",),
    ),
    Guard(
        "repeats-named-in-proof",
        "what is wrong with repeats is named",
        "the proof of repeats always holds",
        answers("[]"),
        tests=(f"{_PROVEN}test_a_dropped_line_without_a_twin_is_named", f"{_PROVEN}{_TWO}"),
    ),
    Guard(
        "dropped-line-has-twin",
        "the proof looks for the twin of each dropped line",
        "a line was dropped that repeats nothing",
        answers("'SELECT * FROM {dropped} d WHERE FALSE'"),
        tests=(f"{_PROVEN}test_a_dropped_line_without_a_twin_is_named",),
    ),
    Guard(
        "twin-within-window",
        "the proof compares the times of a dropped line and its twin with the window",
        "a line was dropped that is another event",
        reads("[*same, apart]", "same"),
        tests=(f"{_PROVEN}test_a_dropped_line_without_a_twin_is_named",),
    ),
    Guard(
        "no-repeat-in-silver",
        "the proof looks for two lines of one event in silver",
        "a repeat counts",
        answers("'SELECT * FROM {silver} s WHERE FALSE'"),
        tests=(f"{_PROVEN}{_TWO}",),
    ),
)
