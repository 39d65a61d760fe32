"""Guards of drafted formats, kept lines and new projects."""

from tests.guards.edits import always, answers, becomes, never, reads, removed
from tests.guards.guard import Guard

_DRAFTED = "unit/lab/test_drafted_format.py::"
_REFUSED = f"{_DRAFTED}test_what_can_be_read_in_several_ways_is_refused_by_name"
_READ = f"{_DRAFTED}test_a_draft_reads_the_lines_that_it_was_made_from"
_WRITE = "unit/lab/project/test_write.py::"

GUARDS = (
    Guard(
        "time-begins-a-word",
        "a time in the middle of a word is none",
        "a draft takes a part of an identifier for the time",
        becomes("''"),
        tests=(f"{_REFUSED}[a number inside a word]",),
    ),
    Guard(
        "ambiguous-date-refused",
        "a date with several readings is no time of a draft",
        "a day becomes a month, and every line is counted on the wrong day",
        never(),
        tests=(f"{_REFUSED}[two digits each]", f"{_REFUSED}[a day or a month]"),
    ),
    Guard(
        "monthly-dates-show-no-day",
        "dates that are equal each month do not show which number is the day",
        "a monthly job is read as a daily one",
        reads("6", "25"),
        tests=(f"{_REFUSED}[a date that is the same every month]",),
    ),
    Guard(
        "zone-behind-time",
        "a zone behind a time is a part of it, or there is no draft",
        "every time of a draft is hours wrong",
        answers("None"),
        tests=(f"{_REFUSED}[an unknown zone]", f"{_REFUSED}[an offset in some lines]"),
    ),
    Guard(
        "unreadable-zone-refused",
        "a zone that a draft cannot read forbids the draft",
        "times are read as UTC beside the zone that the line names",
        answers("None"),
        tests=(f"{_REFUSED}[the zone in MESZ]", f"{_REFUSED}[the zone in tz=+01:00]"),
    ),
    Guard(
        "fraction-shown-by-lines",
        "digits between two commas are a fraction only if the lines show it",
        "the status of a request becomes milliseconds",
        answers("False"),
        tests=(f"{_REFUSED}[a status behind a comma]",),
    ),
    Guard(
        "unit-digits-no-fraction",
        "digits that count milliseconds are no fraction",
        "44 milliseconds become 440",
        answers("False"),
        tests=(f"{_READ}[milliseconds without leading zeros]",),
    ),
    Guard(
        "absolute-time-first",
        "a time with an offset, or a number of seconds, beats a local one",
        "a draft guesses a zone that the line has",
        reads("[*absolute, *dated]", "[]"),
        tests=(
            f"{_READ}[a number of seconds beside a local time]",
            f"{_READ}[a time of an offset beside a local time]",
        ),
    ),
    Guard(
        "number-is-same-instant",
        "a number is the time of a line only if it is the same instant as its local time",
        "the time at which something expires becomes that of the line",
        answers("True"),
        tests=(f"{_READ}[a number that is another time than that of the line]",),
    ),
    Guard(
        "number-at-time-place",
        "a number alone is a time only where its place or its key says so",
        "a growing order number becomes the time of its line",
        answers("True"),
        tests=(f"{_REFUSED}[an identifier that grows]",),
    ),
    Guard(
        "clock-agrees-with-number",
        "a clock beside a number must agree with it",
        "lines of today are counted in the year that an order number spells",
        answers("False"),
        tests=(f"{_REFUSED}[an identifier before a clock]", f"{_REFUSED}[a number in JSON that a clock contradicts]"),
    ),
    Guard(
        "level-word-of-message",
        "a word that may be a part of the message is no level alone",
        "lines become FATAL because their messages begin with ALERT",
        becomes("names"),
        tests=(f"{_DRAFTED}test_a_word_that_may_be_a_part_of_the_message_is_no_level_alone",),
    ),
    Guard(
        "two-letters-no-levels",
        "two letters are no levels",
        "the direction of a packet makes it an error",
        answers("True"),
        tests=(f"{_DRAFTED}test_letters_that_may_be_levels_are_none_and_are_shown",),
    ),
    Guard(
        "unknown-level-refused",
        "an unknown word among levels forbids a draft",
        "every error of a log becomes INFO, because one level has a name that is not known",
        removed(),
        tests=(f"{_REFUSED}[an unknown word among levels]",),
    ),
    Guard(
        "level-is-whole-word",
        "a level is a whole word",
        "LOG in the name of a file becomes the level",
        becomes("level_in(re.search('([A-Za-z]+)', word))"),
        tests=(f"{_DRAFTED}test_a_level_inside_a_name_is_none",),
    ),
    Guard(
        "levels-at-one-place",
        "levels that do not stand at one place forbid a draft",
        "errors are counted as INFO",
        removed(),
        tests=(f"{_REFUSED}[levels at any place]",),
    ),
    Guard(
        "lines-of-one-kind",
        "lines of two kinds forbid a draft",
        "the lines of one program become records of another",
        removed(),
        tests=(f"{_REFUSED}[two kinds of lines]",),
    ),
    Guard(
        "init-needs-format",
        "without a format `init` writes nothing",
        "the next command puts every line into quarantine",
        removed(),
        tests=(f"{_WRITE}test_without_a_format_nothing_is_written",),
    ),
    Guard(
        "own-files-per-kind",
        "each kind of logs is a source with files of its own",
        "a log is read in the format of another one",
        always(),
        tests=(
            f"{_WRITE}test_each_kind_of_logs_is_a_source_of_its_own",
            f"{_WRITE}test_one_file_is_read_without_the_files_beside_it",
        ),
    ),
    Guard(
        "refused-share-limit",
        "a new project stops if most lines of a batch are refused",
        "a wrong format fills quarantine, and the run ends well",
        always(part=2),
        tests=("unit/quality/test_gate.py::test_without_a_number_of_lines_a_limit_holds_for_every_batch",),
    ),
    Guard(
        "first-batch-checked",
        "the first batch is checked however small it is",
        "the first lines of a wrong format go to quarantine",
        always(part=3),
        tests=("unit/quality/test_gate.py::test_a_limit_can_hold_for_first_and_large_batches_alone",),
    ),
    Guard(
        "changed-reading-named",
        "a kept line that a changed format reads otherwise is named",
        "a change of a format moves old lines to other levels, and nobody sees it",
        answers("[]"),
        tests=("spark/lab/test_format_tests.py::test_a_changed_format_fails_and_names_the_lines",),
    ),
    Guard(
        "pattern-readable-in-python",
        "what is read without Spark in another way is refused",
        "the evidence for a format shows what silver does not read",
        removed(),
        tests=("spark/silver/test_plain_reader.py::test_what_only_spark_reads_is_refused_here",),
    ),
    Guard(
        "swallowed-line-shown",
        "a line that a record swallows is shown with the evidence",
        "a third of a log becomes text of other records, and 97 % are said to be read",
        answers("[]"),
        tests=("unit/lab/test_evidence.py::test_a_line_that_a_record_swallows_is_shown",),
    ),
    Guard(
        "other-format-in-files",
        "each file of a name is tried with the format of the newest one",
        "a log of another program is read in its neighbour's format, into quarantine",
        answers("[]"),
        tests=(f"{_WRITE}test_rotated_files_of_two_kinds_are_refused_by_name",),
    ),
)
