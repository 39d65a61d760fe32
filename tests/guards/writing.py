"""The guards of a batch on its way into the tables: its range, that it is written once, and by no other process."""

from tests.guards.edits import reads, without
from tests.guards.guard import Guard

_WRITE, _BATCH, _METADATA = (
    "exactly_once/write.py::",
    "exactly_once/batch.py::",
    "exactly_once/commit.py::CommitMetadata.",
)
_FENCING, _COMMIT, _HELD = (
    "unit/exactly_once/test_fencing.py::",
    "unit/exactly_once/test_commit.py::",
    "unit/exactly_once/test_batch.py::",
)
_CRASHES = "model/test_guards.py::test_a_crash_without_a_guard_is_caught_or_wrong"
_RECEIPTS = "model/test_receipts.py::test_a_write_of_too_few_or_too_many_rows_fails_the_batch"

GUARDS = (
    Guard(
        "the transaction of an append",
        "a replay counts twice",
        f"{_WRITE}append",
        reads(
            "frame.write.option('txnAppId', metadata.app_id).option('txnVersion', metadata.txn_version)",
            "frame.write",
        ),
        tests=("spark/exactly_once/test_write.py::test_a_repeated_append_with_the_same_transaction_is_skipped",),
    ),
    Guard(
        "the transaction of a MERGE",
        "a replay counts twice",
        f"{_WRITE}_transaction",
        reads(
            "{APP_ID: metadata.app_id, TXN_VERSION: str(metadata.txn_version), USER_METADATA: metadata.to_json()}",
            "{USER_METADATA: metadata.to_json()}",
        ),
        tests=("spark/exactly_once/test_write.py::test_a_repeated_merge_with_the_same_transaction_is_skipped",),
    ),
    Guard(
        "the confs of a MERGE are removed after it",
        "the next write of the session is treated as the same batch, and skipped",
        f"{_WRITE}_transaction",
        without("session.conf.unset(key)"),
        tests=("streaming/test_replay.py::test_the_confs_of_a_transaction_do_not_outlive_the_merge",),
    ),
    Guard(
        "the query ID in the application ID",
        "batches of a new query are skipped, because they have the same numbers as the old query's",
        f"{_METADATA}app_id",
        reads("self.query_id", "''"),
        tests=(
            f"{_COMMIT}test_each_table_of_a_stage_has_its_own_application_id",
            "model/test_guards.py::test_tampering_without_a_guard_is_caught_or_wrong",
        ),
    ),
    Guard(
        "the table's name in the application ID",
        "the second of two writes to one table is skipped",
        f"{_METADATA}app_id",
        reads("self.table", "''"),
        tests=(f"{_COMMIT}test_each_table_of_a_stage_has_its_own_application_id",),
    ),
    Guard(
        "the range that the table has recorded for a batch ID",
        "a batch ID that comes back with another range is skipped, or written twice",
        f"{_WRITE}TableWriter.holds",
        without("is replayed with another range"),
        tests=("model/test_guards.py::test_tampering_without_a_guard_is_caught_or_wrong",),
    ),
    Guard(
        "two equal ranges begin at the same position",
        "a batch that begins earlier than the recorded one is treated as the same batch",
        f"{_METADATA}covers_same",
        reads("same_position(self.before, other.before)", "True"),
        tests=(f"{_COMMIT}test_ranges_are_compared_by_value",),
    ),
    Guard(
        "two equal ranges end at the same position",
        "a batch that reads further than the recorded one is treated as the same, and its lines are lost",
        f"{_METADATA}covers_same",
        reads("same_position(self.end, other.end)", "True"),
        tests=(f"{_COMMIT}test_ranges_are_compared_by_value",),
    ),
    Guard(
        "two equal ranges belong to the same query",
        "a batch of another query is treated as the recorded one",
        f"{_METADATA}covers_same",
        reads("self.query_id == other.query_id", "True"),
        tests=(f"{_HELD}test_the_same_range_of_another_query_is_another_batch",),
    ),
    Guard(
        "a batch begins where the table ends",
        "an old copy of a table continues with a gap",
        f"{_WRITE}TableWriter.must_follow",
        without("raise ReplayError"),
        tests=("model/test_guards.py::test_an_old_copy_of_a_table_without_a_guard_is_caught_or_wrong",),
    ),
    Guard(
        "the receipt: the Delta log must hold the transaction",
        "a MERGE whose confs went to another session counts twice when replayed",
        f"{_WRITE}TableWriter.receipt",
        without("raise ReceiptError"),
        tests=(_CRASHES, "streaming/test_replay.py::test_a_merge_that_records_no_transaction_fails_its_batch"),
    ),
    Guard(
        "every batch writes to its stage's first table",
        "a batch that wrote nothing is done, and its lines are lost",
        f"{_BATCH}BatchCallback._write",
        without("raise ReceiptError"),
        tests=(f"{_COMMIT}test_a_batch_that_wrote_nothing_is_refused",),
    ),
    Guard(
        "a batch's range is in the checkpoint",
        "rows are committed under an unknown range",
        f"{_BATCH}BatchCallback._notes",
        without("raise StageError"),
        tests=(f"{_HELD}test_a_batch_without_its_range_in_the_checkpoint_does_not_start",),
    ),
    Guard(
        "a batch's query is in the checkpoint",
        "rows are committed without a query ID, and no later start recognizes them",
        "exactly_once/checkpoint.py::read_query_id",
        without("raise StateError"),
        tests=(f"{_HELD}test_a_batch_without_its_query_in_the_checkpoint_does_not_start",),
    ),
    Guard(
        "no other run's commits before a write",
        "two runs on two checkpoints write the same table",
        f"{_WRITE}TableWriter.must_be_alone",
        without("raise LockedError"),
        tests=(
            f"{_FENCING}test_a_write_is_refused_if_another_run_has_written",
            f"{_FENCING}test_two_runs_that_start_on_an_empty_table_are_distinguished",
            "model/test_guards.py::test_an_overlap_without_a_guard_is_never_silent",
        ),
    ),
    Guard(
        "no other run's commits during a write",
        "two runs write lines at the same moment, with no warning",
        f"{_WRITE}TableWriter.must_be_ours",
        without("both are in the table"),
        tests=(f"{_FENCING}test_a_commit_during_the_write_is_an_error_that_recommends_a_proof",),
    ),
    Guard(
        "a batch that another run wrote is not this run's",
        "a process continues next to the run that won",
        f"{_WRITE}TableWriter.must_be_ours",
        without("another instance wrote batch"),
        tests=(f"{_FENCING}test_a_batch_skipped_by_delta_was_written_by_the_other_run",),
    ),
    Guard(
        "a lost race for a transaction ends the run and names the winner",
        "the loser fails with a Java error that does not name the winner",
        f"{_WRITE}TableWriter._once",
        without("raise self._lost"),
        tests=(f"{_FENCING}test_a_lost_race_for_a_transaction_is_a_one_line_error",),
    ),
    Guard(
        "the check of the lock before a batch",
        "a process that wakes up after a successor has worked begins a batch",
        f"{_BATCH}BatchCallback._write",
        without("self.fence()"),
        tests=(f"{_HELD}test_a_batch_does_not_start_in_a_lake_that_was_taken_over",),
    ),
    Guard(
        "the check of the lock before an append",
        "a process that was stopped in a batch writes at the same time as its successor",
        f"{_BATCH}Batch.append",
        without("self.fence()"),
        tests=(f"{_HELD}test_a_batch_does_not_write_to_a_lake_that_was_taken_over",),
    ),
    Guard(
        "the check of the lock before a MERGE",
        "a process that was stopped in a batch writes at the same time as its successor",
        f"{_BATCH}Batch.merge",
        without("self.fence()"),
        tests=(f"{_HELD}test_a_batch_does_not_write_to_a_lake_that_was_taken_over",),
    ),
    Guard(
        "the check of the lock before a write outside the lake",
        "a process that was stopped in a batch writes at the same time as its successor",
        f"{_BATCH}Batch.put",
        without("self.fence()"),
        tests=(f"{_HELD}test_a_batch_does_not_write_to_a_lake_that_was_taken_over",),
    ),
    Guard(
        "a stage's work is a plain function",
        "a batch is committed but not written",
        f"{_BATCH}BatchCallback.__post_init__",
        without("raise TypeError"),
        tests=(f"{_COMMIT}test_work_that_spark_would_commit_without_running_is_refused",),
    ),
    Guard(
        "every exit from a batch except a return ends the query",
        "a batch is committed but not written; a query hangs",
        f"{_BATCH}BatchCallback.__call__",
        without("raise RuntimeError"),
        tests=(
            _CRASHES,
            "streaming/test_replay.py::test_a_batch_that_ends_early_in_any_way_fails_and_is_replayed",
        ),
    ),
    Guard(
        "a commit of an unknown form is refused",
        "an older version continues from commit metadata that it does not understand",
        f"{_METADATA}from_json",
        without("raise StateError"),
        tests=(f"{_COMMIT}test_commit_metadata_of_another_version_is_refused",),
    ),
    Guard(
        "a replay writes quarantine",
        "a kill between the two tables loses the refused lines",
        "silver/stream.py::write",
        reads("counted.rules or warned", "(counted.rules or warned) and not batch.written[SILVER].replayed"),
        tests=(_CRASHES, "streaming/test_replay.py::test_a_batch_killed_between_silver_and_quarantine_is_completed"),
    ),
    Guard(
        "one set of rules for both tables of a batch",
        "lines are lost or doubled if the format changes in between",
        "silver/stream.py::write_silver",
        without("raise ReplayError"),
        tests=(
            "model/test_guards.py::test_a_change_of_rules_without_a_guard_is_caught_or_wrong",
            "streaming/test_replay.py::test_a_half_written_batch_is_not_completed_with_another_format",
        ),
    ),
    Guard(
        "silver's sum: rows written plus lines refused equal the lines of the batch",
        "a line that silver did not write is in neither table",
        "silver/stream.py::write_silver",
        without("raise ReceiptError"),
        tests=(_RECEIPTS,),
    ),
    Guard(
        "the count of quarantined rows",
        "a refused line that quarantine did not write is in neither table",
        "silver/stream.py::write",
        without("raise ReceiptError"),
        tests=(_RECEIPTS,),
    ),
    Guard(
        "the sum of a replayed batch that both tables hold",
        "a batch that failed because of its sum is done at the next start",
        "silver/stream.py::_must_add_up",
        without("raise ReceiptError"),
        tests=(_RECEIPTS,),
    ),
    Guard(
        "the gate stops a batch before anything of it is written",
        "a limit that should stop a batch is reported only after the batch is in the table",
        "silver/stream.py::_stop",
        without("raise GateError"),
        tests=("streaming/test_quality.py::test_a_batch_over_a_limit_is_held_back",),
    ),
    Guard(
        "committed records only",
        "aborted records count",
        "bronze/sources/kafka.py::kafka_client",
        reads("'read_committed'", "'read_uncommitted'"),
        tests=(f"{_HELD}test_kafka_is_always_read_committed",),
        also=("services/test_kafka.py::test_every_committed_record_counts_once",),
    ),
)
