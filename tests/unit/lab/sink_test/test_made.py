"""The made batches can show each mistake of a sink."""

from oncelake.lab.sink_test.made import content_after, rows_of


def test_each_batch_changes_rows_of_the_two_before_it_and_adds_one() -> None:
    for number in range(2, 60):
        keys = {row[0] for row in rows_of(number)}
        for before in (number - 1, number - 2):
            assert keys & {row[0] for row in rows_of(before)}, "an old batch that is written late would change nothing"
        assert keys - content_after(number).keys()
        assert [row[0] for row in rows_of(number)] == sorted(keys)
