"""The guards of a table that a user's own streaming query writes."""

from tests.guards.edits import becomes, never, reads, removed
from tests.guards.guard import Guard

_TESTS = "unit/exactly_once/test_foreach_batch.py::test_"

GUARDS = (
    Guard(
        "own-batch-is-running",
        "rows are written in the batch that Spark runs, and under its number",
        "rows of no batch are committed as a batch, which is then skipped",
        removed(),
        tests=(f"{_TESTS}a_batch_that_spark_does_not_run_is_refused",),
    ),
    Guard(
        "own-query-fits-table",
        "a query's checkpoint and its table fit each other before its first batch",
        "batches are skipped or counted twice, without an error",
        removed(),
        tests=(
            f"{_TESTS}a_batch_of_another_query_is_refused",
            f"{_TESTS}a_batch_continues_after_the_one_version_that_is_named",
        ),
    ),
    Guard(
        "own-continuation-names-version",
        "a query continues after the one version that the user names",
        "what was accepted once is accepted for ever",
        reads("newest != self.continue_after", "self.continue_after is None"),
        tests=(f"{_TESTS}a_batch_continues_after_the_one_version_that_is_named",),
    ),
    Guard(
        "own-continuation-names-version",
        "no query continues with a batch that Delta would skip",
        "the batch fails after its work, with an error that names no way out",
        never(part=3),
        tests=(f"{_TESTS}a_batch_that_delta_would_skip_needs_a_new_checkpoint",),
    ),
    Guard(
        "own-continuation-can-begin",
        "no continuation is offered where no query can begin",
        "a user starts at the version, and its first files count twice",
        never(),
        tests=(f"{_TESTS}no_continuation_is_offered_within_a_version",),
    ),
    Guard(
        "own-continuation-begins-there",
        "a query of a topic that continues begins where the table ends",
        "records count twice, or never, because startingOffsets was forgotten",
        removed(),
        tests=(f"{_TESTS}a_query_of_a_topic_continues_only_where_the_table_ends",),
    ),
    Guard(
        "own-table-not-of-lake",
        "a table of a lake is not written by another query",
        "rows that are no lines count",
        removed(),
        tests=(f"{_TESTS}a_table_of_a_lake_is_refused",),
    ),
    Guard(
        "own-batch-written-already",
        "a second write in one batch is an error",
        "its rows are skipped and lost",
        removed(),
        tests=(f"{_TESTS}a_batch_writes_the_table_once",),
    ),
    Guard(
        "own-batch-writes-once",
        "a batch writes its table once",
        "a second write in a replayed batch is skipped, and its rows are lost",
        never(part=1),
        tests=(f"{_TESTS}a_batch_writes_the_table_once",),
    ),
    Guard(
        "own-batch-writes-once",
        "a batch writes its table once, also if two objects name it in two ways",
        "Delta skips the second write, and its rows are lost",
        never(part=2),
        tests=(f"{_TESTS}a_table_that_two_objects_name_otherwise_is_written_once_in_a_batch",),
    ),
    Guard(
        "own-batch-same-input",
        "a replayed batch has the files, or the beginning, that the table recorded",
        "files of another directory, or found later, are skipped",
        removed(),
        tests=(
            f"{_TESTS}a_batch_with_other_files_is_refused",
            f"{_TESTS}a_first_batch_with_another_beginning_is_refused",
        ),
    ),
    Guard(
        "own-batch-follows-files",
        "a batch follows the files that the table recorded",
        "files that another copy of the checkpoint has in the last batch are never written",
        removed(),
        tests=(f"{_TESTS}a_batch_that_follows_other_files_is_refused",),
    ),
    Guard(
        "own-batch-files-known",
        "the files of a batch are in the checkpoint",
        "a batch of unknown files is committed, and no replay can be compared with it",
        removed(),
        tests=(f"{_TESTS}a_batch_with_other_files_is_refused",),
    ),
    Guard(
        "own-query-reads-one",
        "a query of several sources that cannot be compared is refused by name",
        "the error names a damaged checkpoint, which is not damaged",
        removed(),
        tests=(f"{_TESTS}a_query_of_several_sources_is_refused",),
    ),
    Guard(
        "own-table-not-emptied",
        "no rows of earlier batches are removed while the query runs",
        "counts are too low until the next start",
        removed(),
        tests=(
            f"{_TESTS}rows_that_are_removed_during_a_run_end_it",
            f"{_TESTS}rows_that_are_removed_while_a_batch_is_written_end_the_next",
        ),
    ),
    Guard(
        "own-table-not-dropped",
        "a table that is gone is not created again in the middle of a query",
        "the new table lacks all earlier batches, and the next start does not see it",
        removed(),
        tests=(f"{_TESTS}a_table_that_is_removed_during_a_run_is_not_created_again",),
    ),
    Guard(
        "own-merges-in-turn",
        "two tables of one batch are merged in turn, also by two threads",
        "a MERGE is committed under the transaction of another one, or under none, and counts twice",
        becomes("__import__('contextlib').nullcontext()"),
        tests=(f"{_TESTS}two_threads_merge_in_turn",),
    ),
    Guard(
        "own-merge-in-batch-session",
        "a MERGE runs in the session of its batch, which no other query has",
        "a write of another query gets the transaction, and one of the two is skipped",
        removed(),
        tests=(f"{_TESTS}rows_of_another_session_are_not_merged",),
    ),
)
