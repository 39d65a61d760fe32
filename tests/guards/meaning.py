"""The guards of what a person is told of lines: their zone, their number, and times that cannot be right."""

from tests.guards.edits import always, becomes, calls, never, reads, removed, unwrapped
from tests.guards.guard import Guard

_RUN = "streaming/test_counts_of_lines.py::"
_LINES = "spark/silver/test_what_lines_mean.py::"
_TRACE = "streaming/test_trace_of_files.py::"
_LATE = "unit/observe/report/test_late.py::"

GUARDS = (
    Guard(
        "uptime-is-no-time",
        "a number too small for a time is none",
        "lines with an uptime count in 1970",
        never(),
        tests=(f"{_LINES}test_a_number_too_small_for_a_time_is_none",),
    ),
    Guard(
        "unclear-zone-named",
        "an abbreviation of a zone with several meanings is refused by its name",
        "people look for a wrong pattern where the zone is unclear",
        calls("coalesce", 'F.col("time_text")'),
        tests=(f"{_LINES}test_a_refused_zone_comes_with_its_meanings",),
    ),
    Guard(
        "broken-record-refused",
        "a record that holds a line of another record is refused",
        "1,500 lines of one log are two records of another",
        reads('F.col("mixed")', "F.lit(False)"),
        tests=(f"{_LINES}test_a_record_that_holds_another_records_line_is_refused",),
    ),
    Guard(
        "inner-line-without-time",
        "a line inside another without a time has the time of the line around it",
        "lines of a container that writes no time go to quarantine",
        unwrapped("otherwise"),
        tests=(f"{_LINES}test_a_line_inside_another_has_its_own_time_and_level",),
    ),
    Guard(
        "colours-stripped-from-values",
        "colours are no part of the values of JSON and logfmt",
        "a level in colours sends its line to quarantine, and a filter for a message finds nothing",
        becomes("frame"),
        tests=(f"{_LINES}test_colours_are_no_part_of_a_line_where_the_format_says_so",),
    ),
    Guard(
        "declared-zone-applies",
        "a declared zone is that of times without one",
        "lines from Tokyo count nine hours late",
        reads(
            "load_parser(source.format, places, source.inside, source.zone)",
            "load_parser(source.format, places, source.inside)",
        ),
        tests=("unit/engine/test_settings.py::test_the_zone_of_a_source_is_that_of_its_format",),
    ),
    Guard(
        "later-than-file-warned",
        "a run says that lines are later than their file",
        "a wrong zone shows nowhere",
        removed(),
        tests=(f"{_RUN}test_a_run_warns_once_of_lines_that_are_later_than_their_file",),
    ),
    Guard(
        "proof-counts-record-lines",
        "a proof says how many lines its records have",
        "a log of 1,500 lines is proven with the words 545 lines",
        never(),
        tests=(f"{_RUN}test_a_run_and_a_proof_say_records_and_lines",),
    ),
    Guard(
        "late-lines-of-one-batch",
        "the report reads a file of silver that has lines of several batches",
        "late lines are missing on the page",
        never(),
        tests=(f"{_LATE}test_a_file_with_several_batches_is_read",),
    ),
    Guard(
        "late-lines-counted-again",
        "the report counts late lines again that a batch which came later has made later",
        "a page that follows a lake has too few late lines",
        reads("block.late[batch].newest != newest[batch]", "False"),
        tests=(f"{_LATE}test_a_later_look_reads_only_new_files_and_counts_again_what_they_change",),
    ),
    Guard(
        "remembered-files-there",
        "the report forgets what it knows of files that are gone",
        "a page that follows a lake counts the lines of compacted files twice",
        reads("block <= live", "True"),
        tests=(f"{_LATE}test_compacted_files_are_not_counted_twice",),
    ),
    Guard(
        "measures-as-spark-has-them",
        "Spark computes the measures of the page that DuckDB computes or writes otherwise",
        "the keys of a plot are other ones than gold's",
        becomes("True"),
        tests=("streaming/test_report_readers.py::test_every_fact_is_the_same_by_both_readers",),
    ),
    Guard(
        "unmatched-line-by-spark",
        "a line that silver lacks as it was read without Spark is read by Spark",
        "a trace calls a line missing that silver has in another way",
        always(),
        tests=(f"{_TRACE}test_a_line_that_silver_lacks_as_it_was_read_is_read_by_spark",),
    ),
    Guard(
        "later-rule-hides-no-row",
        "a line is found in silver whatever the suite says today",
        "after a new rule, a trace calls older lines missing that silver has",
        becomes("self.silver"),
        tests=(f"{_TRACE}test_a_line_that_a_later_rule_would_refuse_is_still_traced",),
    ),
)
