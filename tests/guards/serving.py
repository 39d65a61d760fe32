"""The guards of tables that are served from a database."""

from tests.guards.edits import answers, reads, without
from tests.guards.guard import Guard

_SERVED, _POSITION = "serving/served.py::", "serving/position.py::"
_COLUMNS, _TROUBLE = "serving/columns.py::", "serving/trouble.py::"
_TYPES, _BROKEN = "unit/serving/test_columns.py::", "unit/serving/test_trouble.py::"
_BY_HAND, _TABLES = "unit/serving/test_served.py::", "unit/serving/test_tables.py::"

GUARDS = (
    Guard(
        "a batch without its predecessors is not applied",
        "counts begin in the middle",
        f"{_POSITION}is_applied",
        without("has recorded no batch"),
        tests=(f"{_BY_HAND}test_a_batch_without_its_predecessors_is_refused",),
    ),
    Guard(
        "a batch begins where the recorded position ends",
        "lines are added twice, or skipped",
        f"{_POSITION}is_applied",
        without("has recorded batch"),
        tests=(f"{_BY_HAND}test_a_range_that_does_not_follow_rolls_everything_back",),
    ),
    Guard(
        "the first batch finds an empty table",
        "counts are added to somebody else's rows",
        f"{_SERVED}Served.refuse_unknown_rows",
        without("raise ReplayError"),
        tests=(f"{_BY_HAND}test_counts_are_not_added_to_rows_of_another_writer",),
    ),
    Guard(
        "the check of the lock before COMMIT",
        "a process that was stopped in a transaction commits at the same time as its successor",
        f"{_SERVED}Served.apply",
        without("fence()"),
        tests=(f"{_BY_HAND}test_a_batch_that_fails_leaves_neither_rows_nor_position",),
    ),
    Guard(
        "the tables exist",
        "the run ends with the database's own error",
        f"{_SERVED}_check_table",
        without("there is no table"),
        tests=(f"{_BY_HAND}test_missing_or_wrong_tables_are_named",),
    ),
    Guard(
        "the tables have their columns",
        "the run ends with the database's own error",
        f"{_SERVED}_check_table",
        without("has no column"),
        tests=(f"{_BY_HAND}test_missing_or_wrong_tables_are_named",),
    ),
    Guard(
        "the tables have their primary keys",
        "rows are doubled",
        f"{_SERVED}_check_table",
        without("has the primary key"),
        tests=(f"{_BY_HAND}test_missing_or_wrong_tables_are_named",),
    ),
    Guard(
        "the tables have no unique index except their keys",
        "an upsert changes another row",
        f"{_SERVED}_check_table",
        without("has a unique index"),
        tests=(
            f"{_TABLES}test_a_unique_index_in_addition_to_the_key_is_refused",
            f"{_TABLES}test_a_unique_index_on_the_positions_is_refused",
        ),
    ),
    Guard(
        "the tables keep transactions",
        "rows without their position, after a crash",
        f"{_SERVED}_check_table",
        without("is of engine"),
        tests=(f"{_TABLES}test_an_engine_without_transactions_is_refused",),
        also=("services/test_database.py::test_a_table_without_transactions_is_refused",),
    ),
    Guard(
        "the tables hold every value that is served",
        "the database merges days into one row, or rounds a count",
        f"{_SERVED}_check_table",
        without("has columns that cannot hold every served value"),
        tests=(f"{_TYPES}test_an_unsuitable_column_is_refused_before_anything_is_written",),
    ),
    Guard(
        "the tables are checked before the first batch if the database was unavailable at the start",
        "a batch is written to unchecked columns",
        f"{_SERVED}Served.apply",
        without("self._check_tables"),
        tests=(f"{_TYPES}test_an_unsuitable_column_is_refused_before_anything_is_written",),
    ),
    Guard(
        "a served column has a type that holds its values",
        "keys are merged and counts rounded, without an error",
        f"{_COLUMNS}wrong_columns",
        without("accepted: {words}"),
        tests=(f"{_TYPES}test_an_unsuitable_column_is_refused_before_anything_is_written",),
    ),
    Guard(
        "a whole number is served in a column of as many bits",
        "a count is cut at the column's largest number",
        f"{_COLUMNS}_fits",
        answers("True"),
        tests=(f"{_TYPES}test_only_types_that_hold_every_value_are_accepted",),
    ),
    Guard(
        "a decimal is served in a column of as many digits",
        "a sum is rounded",
        f"{_COLUMNS}_decimal",
        reads("digits[1] >= after", "True"),
        tests=(f"{_TYPES}test_only_types_that_hold_every_value_are_accepted",),
    ),
    Guard(
        "a time is served to its last digit",
        "two times become one",
        f"{_COLUMNS}_time",
        reads("(found.fsp or 0) >= digits", "True"),
        tests=(f"{_TYPES}test_only_types_that_hold_every_value_are_accepted",),
    ),
    Guard(
        "a text key is served whole",
        "two rows with the same beginning become one",
        f"{_COLUMNS}_name",
        reads("found.length >= length", "True"),
        tests=(f"{_TYPES}test_only_types_that_hold_every_value_are_accepted",),
    ),
    Guard(
        "the database does not set a served column itself",
        "a value is not the one that was written",
        f"{_COLUMNS}_set_by_others",
        without("is generated by the database"),
        tests=(f"{_TYPES}test_an_unsuitable_column_is_refused_before_anything_is_written",),
    ),
    Guard(
        "columns that oncelake does not write need no value",
        "every batch ends with the database's own error",
        f"{_COLUMNS}_needs_a_value",
        answers("False"),
        tests=(f"{_TYPES}test_an_unsuitable_column_is_refused_before_anything_is_written",),
    ),
    Guard(
        "a driver's error that arrives unwrapped is classified like any other",
        "a server that is unavailable for a moment ends the run",
        f"{_TROUBLE}of_the_driver",
        reads("isinstance(error, driver.Error)", "False"),
        tests=(
            f"{_BROKEN}test_an_unwrapped_error_of_sqlalchemy_means_unavailable",
            f"{_BROKEN}test_an_unwrapped_error_of_a_snapshot_means_unavailable",
        ),
    ),
    Guard(
        "a broken connection is not used again",
        "the next transaction begins in the middle of the last one's answer",
        "serving/database.py::Database._connected",
        without("connection.invalidate(error)"),
        tests=(f"{_BROKEN}test_an_unwrapped_error_is_retried_on_a_new_connection",),
    ),
    Guard(
        "a connection lost at the same statement again and again ends the retries",
        "a batch that takes longer than the server allows is retried forever",
        "serving/database.py::_Losses.pass_by",
        reads("self.count < LOSSES", "True"),
        tests=(f"{_BROKEN}test_repeated_losses_at_one_statement_end_in_an_error_with_advice",),
    ),
    Guard(
        "a connection is used while rows are prepared",
        "the server ends it as idle, and the batch is retried forever",
        "serving/database.py::keep_alive",
        answers("None"),
        tests=(
            f"{_BROKEN}test_the_connection_is_kept_alive_while_rows_are_not_ready",
            f"{_BROKEN}test_a_proof_keeps_its_snapshot_alive_while_spark_computes",
        ),
    ),
)
