"""The guards of dropped repeats: what a batch is compared with, the window, the order, and the proof of all three."""

from tests.guards.edits import answers, reads, without
from tests.guards.guard import Guard

_RULE = "spark/silver/test_duplicates.py::test_both_find_what_the_rule_says"
_KEYS = "spark/silver/test_duplicates.py::test_a_key_is_null_without_a_part_and_different_for_other_parts"
_CRASHES = "streaming/test_duplicates.py::test_a_crash_at_any_step_drops_each_repeat_once"
_IN_SPARK, _HERE = "silver/duplicates.py::", "silver/collected_duplicates.py::"
_PROOF, _PROVEN = "proof/repeats.py::", "spark/proof/test_repeats.py::"
_TWO = "test_two_lines_of_one_event_in_silver_are_named"

GUARDS = (
    Guard(
        "a replayed batch is compared with the version that silver's commit recorded",
        "each line of a half-written batch repeats itself, and the batch never ends",
        "exactly_once/write.py::TableWriter.before",
        reads("held.commit.metadata.deduplicated['version']", "self._seen"),
        tests=(_CRASHES,),
    ),
    Guard(
        "a line further than the window from its twin stays, in Spark",
        "two events count as one",
        f"{_IN_SPARK}_judged",
        reads("F.abs(each['at'] - mark['at']) <= window", "F.lit(True)"),
        tests=(_RULE,),
    ),
    Guard(
        "a line further than the window from its twin stays, in a small batch",
        "two events count as one",
        f"{_HERE}_twins",
        reads("first < last", "bool(found)"),
        tests=(_RULE,),
    ),
    Guard(
        "the lines of a key are looked at in the order in which they arrived, in Spark",
        "another line of an event stays than the first, and a replay may keep both",
        f"{_IN_SPARK}_order",
        reads("F.col('ingested_at')", "F.lit(None).cast('timestamp').alias('ingested_at')"),
        tests=(_RULE,),
    ),
    Guard(
        "the lines of a key are looked at in the order in which they arrived, in a small batch",
        "another line of an event stays than the first, and a replay may keep both",
        f"{_HERE}split",
        reads(
            "_by_arrival(lines.filter(pc.is_in(lines[EVENT_KEY], value_set=suspects)))",
            "lines.filter(pc.is_in(lines[EVENT_KEY], value_set=suspects))",
        ),
        tests=(_RULE,),
    ),
    Guard(
        "a key has the length of each of its parts",
        "`a` and `b1` are the same key as `ab` and `1`: two events count as one",
        f"{_IN_SPARK}with_event",
        reads("F.octet_length(part).cast('string')", "F.lit('')"),
        tests=(_KEYS,),
    ),
    Guard(
        "the times that are read cover a window on both sides",
        "a repeat whose twin is in the part of time before or after its own counts again",
        f"{_IN_SPARK}near",
        reads("part - 1", "part"),
        tests=("unit/silver/test_duplicates.py::test_the_ranges_cover_every_time_within_a_window",),
    ),
    Guard(
        "a half-written batch is not compared with another version than the recorded one",
        "the batch fails with an error of Spark that says nothing of the way out",
        "silver/split.py::readable",
        without("raise ReplayError"),
        tests=("streaming/test_duplicates.py::test_a_half_written_batch_whose_earlier_version_is_gone_writes_nothing",),
    ),
    Guard(
        "what is wrong with repeats is named",
        "the proof of repeats always holds",
        f"{_PROOF}_named",
        answers("[]"),
        tests=(f"{_PROVEN}test_a_dropped_line_without_a_twin_is_named", f"{_PROVEN}{_TWO}"),
    ),
    Guard(
        "the proof looks for the twin of each dropped line",
        "a line was dropped that repeats nothing",
        f"{_PROOF}_without_twin",
        answers("dropped.limit(0)"),
        tests=(f"{_PROVEN}test_a_dropped_line_without_a_twin_is_named",),
    ),
    Guard(
        "the proof compares the times of a dropped line and its twin with the window",
        "a line was dropped that is another event",
        f"{_PROOF}_without_twin",
        reads("[*same, *twin, apart]", "[*same, *twin]"),
        tests=(f"{_PROVEN}test_a_dropped_line_without_a_twin_is_named",),
    ),
    Guard(
        "the proof looks for two lines of one event in silver",
        "a repeat counts",
        f"{_PROOF}_too_near",
        answers("held.limit(0)"),
        tests=(f"{_PROVEN}{_TWO}",),
    ),
)
