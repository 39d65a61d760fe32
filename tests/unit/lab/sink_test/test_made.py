"""The made batches can show each mistake of a sink."""

from oncelake.lab.sink_test.made import MAIN, main_batch


def test_each_batch_changes_rows_of_the_two_before_it_and_adds_one() -> None:
    for number in range(2, 60):
        keys = {row[0] for row in main_batch(number).rows}
        for before in (number - 1, number - 2):
            assert keys & {row[0] for row in main_batch(before).rows}, "an old batch written late would change nothing"
        assert keys - MAIN.content_after(number).keys()
        assert [row[0] for row in main_batch(number).rows] == sorted(keys)
