"""The guards of what a person is told of lines: their zone, their number, and times that cannot be right."""

from tests.guards.edits import becomes, calls, never, reads, removed, unwrapped
from tests.guards.guard import Guard

_RUN = "streaming/test_counts_of_lines.py::"
_LINES = "spark/silver/test_what_lines_mean.py::"

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
)
