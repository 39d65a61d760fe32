"""The guards of what a person is told of lines: their zone, their number, and times that cannot be right."""

from tests.guards.edits import reads, without
from tests.guards.guard import Guard

_RUN = "streaming/test_counts_of_lines.py::"

GUARDS = (
    Guard(
        "a declared zone is that of times without one",
        "lines from Tokyo count nine hours late",
        "engine/configuration.py::configured",
        reads(
            "load_format(each.format, places, each.inside).in_zone(each.zone)",
            "load_format(each.format, places, each.inside)",
        ),
        tests=("unit/engine/test_settings.py::test_the_zone_of_a_source_is_that_of_its_format",),
    ),
    Guard(
        "a run says that lines are later than their file",
        "a wrong zone shows nowhere",
        "silver/stream.py::write",
        without("batch.warned.append(strange)"),
        tests=(f"{_RUN}test_a_run_warns_once_of_lines_that_are_later_than_their_file",),
    ),
    Guard(
        "a proof says how many lines its records have",
        "a log of 1,500 lines is proven with the words 545 lines",
        "proof/prove.py::Proof._count_line_ends",
        reads("any(self._line_ends.values())", "False"),
        tests=(f"{_RUN}test_a_run_and_a_proof_say_records_and_lines",),
    ),
)
