"""Guards of drafted formats, kept lines and new projects."""

from tests.guards.edits import answers, reads, without
from tests.guards.guard import Guard

_TIMES = "lab/written_times.py::"
_DRAFT = "lab/drafted_format.py::"
_DRAFTED = "unit/lab/test_drafted_format.py::"
_REFUSED = f"{_DRAFTED}test_what_can_be_read_in_several_ways_is_refused_by_name"
_READ = f"{_DRAFTED}test_a_draft_reads_the_lines_that_it_was_made_from"
_WRITE = "unit/lab/project/test_write.py::"

GUARDS = (
    Guard(
        "a time in the middle of a word is none",
        "a draft takes a part of an identifier for the time",
        "lab/written_times.py",
        reads("'(?<![^\\\\s\\\\[({<>|,;\"\\'=])'", "''"),
        tests=(f"{_REFUSED}[a number inside a word]",),
    ),
    Guard(
        "a date with several readings is no time of a draft",
        "a day becomes a month, and every line is counted on the wrong day",
        f"{_TIMES}TimeColumn.check",
        reads("len(self.readings) > 1", "False"),
        tests=(f"{_REFUSED}[two digits each]", f"{_REFUSED}[a day or a month]"),
    ),
    Guard(
        "dates that are equal each month do not show which number is the day",
        "a monthly job is read as a daily one",
        f"{_TIMES}TimeColumn._goes_on",
        reads("timedelta(hours=6)", "timedelta(hours=25)"),
        tests=(f"{_REFUSED}[a date that is the same every month]",),
    ),
    Guard(
        "a zone behind a time is a part of it, or there is no draft",
        "every time of a draft is hours wrong",
        f"{_TIMES}TimeColumn._check_zones",
        answers("None"),
        tests=(f"{_REFUSED}[an unknown zone]", f"{_REFUSED}[an offset in some lines]"),
    ),
    Guard(
        "a zone that a draft cannot read forbids the draft",
        "times are read as UTC beside the zone that the line names",
        f"{_TIMES}TimeColumn._check_unread_zones",
        answers("None"),
        tests=(f"{_REFUSED}[the zone in MESZ]", f"{_REFUSED}[the zone in tz=+01:00]"),
    ),
    Guard(
        "digits between two commas are a fraction only if the lines show it",
        "the status of a request becomes milliseconds",
        f"{_TIMES}TimeColumn._has_column_of_digits",
        answers("False"),
        tests=(f"{_REFUSED}[a status behind a comma]",),
    ),
    Guard(
        "digits that count milliseconds are no fraction",
        "44 milliseconds become 440",
        f"{_TIMES}TimeColumn.counts_units",
        answers("False"),
        tests=(f"{_READ}[milliseconds without leading zeros]",),
    ),
    Guard(
        "a time with an offset, or a number of seconds, beats a local one",
        "a draft guesses a zone that the line has",
        f"{_DRAFT}_chosen",
        reads("[*absolute, *dated]", "[]"),
        tests=(
            f"{_READ}[a number of seconds beside a local time]",
            f"{_READ}[a time of an offset beside a local time]",
        ),
    ),
    Guard(
        "a number is the time of a line only if it is the same instant as its local time",
        "the time at which something expires becomes that of the line",
        f"{_DRAFT}_is_same",
        answers("True"),
        tests=(f"{_READ}[a number that is another time than that of the line]",),
    ),
    Guard(
        "a number alone is a time only where its place or its key says so",
        "a growing order number becomes the time of its line",
        f"{_DRAFT}_is_at_the_place_of_a_time",
        answers("True"),
        tests=(f"{_REFUSED}[an identifier that grows]",),
    ),
    Guard(
        "a clock beside a number must agree with it",
        "lines of today are counted in the year that an order number spells",
        f"{_DRAFT}_contradict",
        answers("False"),
        tests=(f"{_REFUSED}[an identifier before a clock]", f"{_REFUSED}[a number in JSON that a clock contradicts]"),
    ),
    Guard(
        "a word that may be a part of the message is no level alone",
        "lines become FATAL because their messages begin with ALERT",
        f"{_DRAFT}_level_in",
        reads("names & CORE", "names"),
        tests=(f"{_DRAFTED}test_a_word_that_may_be_a_part_of_the_message_is_no_level_alone",),
    ),
    Guard(
        "two letters are no levels",
        "the direction of a packet makes it an error",
        f"{_DRAFT}_are_levels",
        answers("True"),
        tests=(f"{_DRAFTED}test_letters_that_may_be_levels_are_none_and_are_shown",),
    ),
    Guard(
        "an unknown word among levels forbids a draft",
        "every error of a log becomes INFO, because one level has a name that is not known",
        f"{_DRAFT}_OfText._around",
        without("raise NoDraftError(unknown[0])"),
        tests=(f"{_REFUSED}[an unknown word among levels]",),
    ),
    Guard(
        "a level is a whole word",
        "LOG in the name of a file becomes the level",
        "lab/level_words.py::level_word",
        reads("_WORD.match(word)", "re.search('([A-Za-z]+)', word)"),
        tests=(f"{_DRAFTED}test_a_level_inside_a_name_is_none",),
    ),
    Guard(
        "levels that do not stand at one place forbid a draft",
        "errors are counted as INFO",
        f"{_DRAFT}_OfText._around",
        without("raise NoDraftError(f'{names} look like levels"),
        tests=(f"{_REFUSED}[levels at any place]",),
    ),
    Guard(
        "lines of two kinds forbid a draft",
        "the lines of one program become records of another",
        f"{_DRAFT}_OfText._is_record",
        without("raise NoDraftError(f'there are lines of two kinds"),
        tests=(f"{_REFUSED}[two kinds of lines]",),
    ),
    Guard(
        "without a format `init` writes nothing",
        "the next command puts every line into quarantine",
        "cli/init.py::init",
        without("raise OncelakeError"),
        tests=(f"{_WRITE}test_without_a_format_nothing_is_written",),
    ),
    Guard(
        "each kind of logs is a source with files of its own",
        "a log is read in the format of another one",
        "lab/project/kinds.py::LogKinds.path_of",
        reads("not others", "True"),
        tests=(
            f"{_WRITE}test_each_kind_of_logs_is_a_source_of_its_own",
            f"{_WRITE}test_one_file_is_read_without_the_files_beside_it",
        ),
    ),
    Guard(
        "a new project stops if most lines of a batch are refused",
        "a wrong format fills quarantine, and the run ends well",
        "quality/gate.py::Quarantined.breach",
        reads("counted.refused <= self.share * counted.lines", "True"),
        tests=("unit/quality/test_gate.py::test_without_a_number_of_lines_a_limit_holds_for_every_batch",),
    ),
    Guard(
        "the first batch is checked however small it is",
        "the first lines of a wrong format go to quarantine",
        "quality/gate.py::Quarantined.breach",
        reads("not counted.is_first", "True"),
        tests=("unit/quality/test_gate.py::test_a_limit_can_hold_for_first_and_large_batches_alone",),
    ),
    Guard(
        "a kept line that a changed format reads otherwise is named",
        "a change of a format moves old lines to other levels, and nobody sees it",
        "lab/format_tests.py::KeptLine.differences",
        answers("[]"),
        tests=("spark/lab/test_format_tests.py::test_a_changed_format_fails_and_names_the_lines",),
    ),
    Guard(
        "what is read without Spark in another way is refused",
        "the evidence for a format shows what silver does not read",
        "lab/plain_reader.py::python_pattern",
        without("raise NeedsSparkError(f'the regular expression {pattern[:60]}')"),
        tests=("spark/lab/test_plain_reader.py::test_what_only_spark_reads_is_refused_here",),
    ),
    Guard(
        "a line that a record swallows is shown with the evidence",
        "a third of a log becomes text of other records, and 97 % are said to be read",
        "lab/evidence.py::swallowed",
        answers("[]"),
        tests=("unit/lab/test_evidence.py::test_a_line_that_a_record_swallows_is_shown",),
    ),
    Guard(
        "each file of a name is tried with the format of the newest one",
        "a log of another program is read in its neighbour's format, into quarantine",
        "lab/project/kinds.py::_of_another_kind",
        answers("[]"),
        tests=(f"{_WRITE}test_rotated_files_of_two_kinds_are_refused_by_name",),
    ),
)
