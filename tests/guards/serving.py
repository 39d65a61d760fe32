"""The guards of tables that are served from a database."""

from tests.guards.edits import without
from tests.guards.guard import Guard

_SERVED, _POSITION = "serving/served.py::", "serving/position.py::"
_BY_HAND, _TABLES = "unit/test_serving.py::", "unit/test_serving_tables.py::"

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
        "lines are added twice, or left out",
        f"{_POSITION}is_applied",
        without("has recorded batch"),
        tests=(f"{_BY_HAND}test_a_range_that_does_not_follow_rolls_everything_back",),
    ),
    Guard(
        "the first batch finds an empty table",
        "lines are counted onto somebody else's rows",
        f"{_SERVED}Served._refuse_unknown_rows",
        without("raise ReplayError"),
        tests=(f"{_BY_HAND}test_counts_are_not_added_to_rows_of_somebody_else",),
    ),
    Guard(
        "the look at the lock before COMMIT",
        "a process that was stopped in a transaction commits beside its successor",
        f"{_SERVED}Served.apply",
        without("fence()"),
        tests=(f"{_BY_HAND}test_a_batch_that_fails_leaves_neither_rows_nor_position",),
    ),
    Guard(
        "the tables are there",
        "the run ends with the database's own error",
        f"{_SERVED}_check_table",
        without("there is no table"),
        tests=(f"{_BY_HAND}test_tables_that_are_missing_or_others_are_named",),
    ),
    Guard(
        "the tables have their columns",
        "the run ends with the database's own error",
        f"{_SERVED}_check_table",
        without("has no column"),
        tests=(f"{_BY_HAND}test_tables_that_are_missing_or_others_are_named",),
    ),
    Guard(
        "the tables have their primary keys",
        "rows are doubled",
        f"{_SERVED}_check_table",
        without("has the primary key"),
        tests=(f"{_BY_HAND}test_tables_that_are_missing_or_others_are_named",),
    ),
    Guard(
        "the tables have no unique index beside their keys",
        "an upsert changes another row",
        f"{_SERVED}_check_table",
        without("has a unique index"),
        tests=(
            f"{_TABLES}test_a_unique_index_beside_the_key_is_refused",
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
)
