"""The guards of personal data: nothing that a rule finds is stored, and lines are compared as they were masked."""

from tests.guards.edits import always, answers, becomes, calls, never, reads, unwrapped
from tests.guards.guard import Guard

_UNIT, _SPARK, _CHAIN = "unit/bronze/test_mask.py::", "spark/bronze/test_mask.py::", "streaming/test_mask.py::"
_LONG = "streaming/test_stand_ins.py::"
_ROWS = f"{_SPARK}test_rows_have_what_was_masked_in_value_key_and_headers"
_VERSIONS = f"{_CHAIN}test_lines_are_compared_under_the_rules_and_the_key_that_they_were_read_with"

GUARDS = (
    Guard(
        "source-masked-when-read",
        "a source with rules is masked when it is read, also by the run that replays a batch",
        "the raw text is in bronze for ever",
        always(),
        tests=(f"{_CHAIN}test_a_recovery_after_a_lost_checkpoint_keeps_what_bronze_holds",),
    ),
    Guard(
        "keys-and-headers-masked",
        "keys and headers are masked as values are",
        "a token in a header is in bronze for ever",
        calls("get", "masked['value'] if name == 'value' else F.col(name)"),
        tests=(_ROWS,),
    ),
    Guard(
        "stand-in-headers-not-masked",
        "what a stand-in stands for is not masked",
        "a digit or a hash that a rule finds is gone, and the bytes of its file do not add up any more",
        unwrapped(),
        tests=(f"{_LONG}test_the_beginning_of_a_long_line_is_masked_and_what_it_stands_for_is_not",),
    ),
    Guard(
        "masked-length-of-source",
        "the length of a masked line is the one that it has in the source",
        "every batch fails, or the census calls every file incomplete",
        becomes("length"),
        tests=(_VERSIONS,),
    ),
    Guard(
        "masked-line-bound-kept",
        "a masked line is read again with the bound that it was read with",
        "a line between two bounds counts as changed",
        calls("resolved", "mask.resolved()"),
        tests=(f"{_LONG}test_the_beginning_of_a_long_line_is_masked_and_what_it_stands_for_is_not",),
    ),
    Guard(
        "compared-under-read-rules",
        "a line is compared under the rules that it was read with",
        "every masked file counts as changed",
        answers("None"),
        tests=(_VERSIONS,),
    ),
    Guard(
        "pseudonyms-under-same-key",
        "pseudonyms are compared only under the key of their time",
        "after a change of the key, every masked file counts as changed",
        answers("None"),
        tests=(f"{_UNIT}test_an_old_version_needs_the_key_of_its_time",),
    ),
    Guard(
        "mask-key-present",
        "a run without its key is refused",
        "the run ends with a Java error, or with pseudonyms that anyone can try out",
        answers("None"),
        tests=(f"{_UNIT}test_a_key_that_is_missing_or_short_is_refused",),
    ),
    Guard(
        "traced-text-masked",
        "a line that is asked for by its raw text is masked before it is shown",
        "a trace prints what the rules are to hide",
        answers("None"),
        tests=(f"{_CHAIN}test_masked_data_is_nowhere_after_crashes_replays_and_every_command",),
    ),
    Guard(
        "secret-values-not-in-plan",
        "what DuckDB cannot answer about a raw text is not asked of Spark",
        "a plan of Spark, which its log can show, has what the rules are to hide",
        never(),
        tests=("spark/common/test_table_rows.py::test_a_secret_value_is_not_asked_of_spark",),
    ),
    Guard(
        "masks-see-escapes-read",
        "new rules see a text as its readers see it, with escapes read",
        "an address with an escape in it is in silver, unmasked",
        becomes("_AS_WRITTEN"),
        tests=(f"{_SPARK}test_no_reader_can_bring_a_masked_text_back",),
    ),
    Guard(
        "cut-line-masked-joined",
        "the parts of a cut line are masked as joined",
        "an address that a container runtime has cut in two is in silver, unmasked",
        never(),
        tests=(f"{_SPARK}test_parts_that_a_runtime_has_cut_are_masked_as_joined_and_stay_lines",),
    ),
    Guard(
        "cut-line-read-again-joined",
        "a line of parts is read again as it was read",
        "prove --deep calls every file of a format with parts changed",
        never(part=2),
        tests=(f"{_SPARK}test_an_old_version_of_the_rules_sees_the_text_as_it_is_written",),
    ),
    Guard(
        "masks-as-when-read",
        "a line is compared as rules saw it when it was read",
        "after an update of oncelake, files with escapes count as changed",
        reads("masking.way", "2"),
        tests=(f"{_SPARK}test_an_old_version_of_the_rules_sees_the_text_as_it_is_written",),
    ),
)
