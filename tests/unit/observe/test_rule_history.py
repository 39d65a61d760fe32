"""The history of rules reads well on a terminal."""

from oncelake.observe.rule_history import RulesSpan, history_lines


def span(versions: tuple[int, int], ended: int) -> RulesSpan:
    return RulesSpan("silver.access_log", "4efea6d4720a2174", versions, (0, 0), 1_796_000_000_000, ended, 2_973, None)


def test_one_batch_has_one_time_and_fits_in_80_columns() -> None:
    lines = list(history_lines([span((1, 1), 1_796_000_000_000)], rules=False))
    assert lines == [
        "silver.access_log",
        "  4efea6d4720a2174  versions 1  batches 0  2026-11-30 00:53:20  2,973 rows",
    ]
    assert max(map(len, lines)) <= 80


def test_several_batches_have_the_first_and_the_last_time() -> None:
    (_, line) = history_lines([span((1, 2), 1_796_000_060_000)], rules=False)
    assert "  versions 1 to 2  batches 0  2026-11-30 00:53:20 to 2026-11-30 00:54:20  " in line
