"""Peaks are apart and high, and freshness is told only where all of its batches were read."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from oncelake.observe.record import LOOK
from oncelake.observe.report.facts import BatchFacts
from oncelake.observe.report.period import Period
from oncelake.observe.report.period_events import APART, PEAKS, apart, freshness

NOW = datetime(2026, 11, 26, 14, tzinfo=UTC)
PERIOD = Period(NOW - timedelta(hours=1), NOW)
BATCH = BatchFacts("gold.error_log", 1, PERIOD.since_ms, 1.0, 10, 4.0, 0)


def spans(**errors: int) -> list[dict[str, Any]]:
    """Return spans, the highest first; a name is `at_` and the start in seconds."""
    return [{"start": int(name[3:]), "errors": count, "lines": count} for name, count in errors.items()]


def test_a_span_close_to_a_higher_one_is_the_same_peak() -> None:
    peaks = apart(spans(at_1000=50, at_1060=40, at_1900=30, at_940=20))
    assert [row["start"] for row in peaks] == [1000, 1900]
    assert peaks[1]["start"] - peaks[0]["start"] == APART


def test_a_span_with_few_errors_is_no_peak_beside_a_high_one() -> None:
    assert [row["start"] for row in apart(spans(at_0=50, at_5000=5, at_9000=4))] == [0, 5000]
    assert len(apart(spans(**{f"at_{number * APART}": 2 for number in range(9)}))) == PEAKS
    assert apart([]) == []


def told(*batches: BatchFacts) -> list[tuple[float | None, float | None]]:
    return [(change.value, change.before) for change in freshness(batches, PERIOD)]


def test_freshness_is_of_the_gold_batches_of_each_period() -> None:
    early = replace(BATCH, committed_ms=PERIOD.since_ms - 1, freshness=9.0)
    later = replace(BATCH, committed_ms=PERIOD.until_ms - 1, freshness=8.0)
    after = replace(BATCH, committed_ms=PERIOD.until_ms, freshness=99.0)
    silver = replace(BATCH, stage="silver", freshness=99.0)
    unknown = replace(BATCH, freshness=None)
    assert told(early, BATCH, later, after, silver, unknown) == [(6.0, 9.0), (8.0, 9.0)]
    assert told() == [(None, None), (None, None)]


def test_freshness_is_not_told_of_a_period_whose_first_commits_were_not_read() -> None:
    many = [replace(BATCH, committed_ms=PERIOD.since_ms - LOOK + age_ms) for age_ms in range(LOOK)]
    assert told(*many, BATCH) == [(4.0, None), (4.0, None)]
    assert told(*many[1:], replace(BATCH, committed_ms=PERIOD.before.since_ms)) == [(None, 4.0), (None, 4.0)]
