"""A period is read from what people type, in UTC; anything else is an error in one line."""

from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.common.errors import ConfigError
from oncelake.observe.report.period import Period, read_period

NOW = datetime(2026, 11, 26, 14, 3, 9, tzinfo=UTC)
MIDNIGHT = datetime(2026, 11, 26, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "start"),
    [
        ("today", MIDNIGHT),
        ("yesterday", MIDNIGHT - timedelta(days=1)),
        ("Yesterday ", MIDNIGHT - timedelta(days=1)),
        ("30m", NOW - timedelta(minutes=30)),
        ("24h", NOW - timedelta(days=1)),
        ("7d", NOW - timedelta(days=7)),
        ("2w", NOW - timedelta(weeks=2)),
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11-20T14:30", datetime(2026, 11, 20, 14, 30, tzinfo=UTC)),
        ("2026-11-20 14:30:05Z", datetime(2026, 11, 20, 14, 30, 5, tzinfo=UTC)),
        ("2026-11-20T14:30+02:00", datetime(2026, 11, 20, 12, 30, tzinfo=UTC)),
    ],
)
def test_a_period_starts_at_what_was_asked_and_ends_now(since: str, start: datetime) -> None:
    assert read_period(since, None, NOW) == Period(start, NOW)


def test_a_period_can_end_before_now() -> None:
    period = read_period("yesterday", "today", NOW)
    assert period == Period(MIDNIGHT - timedelta(days=1), MIDNIGHT)
    assert period is not None
    assert (period.until_ms - period.since_ms, period.since_ms % 86_400_000) == (86_400_000, 0)
    assert read_period(None, None, NOW) is None


def test_the_period_before_is_as_long_and_ends_where_this_one_starts() -> None:
    period = Period(NOW - timedelta(hours=3), NOW)
    assert period.before == Period(NOW - timedelta(hours=6), period.since)


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        ("soon", None, "--since 'soon' is no time; accepted are today, yesterday, a span"),
        ("", None, "--since '' is no time"),
        ("-3d", None, "--since '-3d' is no time"),
        ("3 dayz", None, "is no time"),
        ("2026-13-01", None, "is no time"),
        ("999999999w", None, "is no time"),
        ("0001-01-01T00:00+14:00", None, "is no time"),
        ("1800-01-01", None, "too early: the period before it would start before 1900"),
        ("1950-01-01", None, "too early"),
        ("7d", "later", "--until 'later' is no time"),
        ("7d", "2026-01-01", "it must be before --until '2026-01-01', which is 2026-01-01 00:00 UTC"),
        ("today", "today", "it must be before --until"),
        (
            "2027-01-01",
            None,
            "--since '2027-01-01' is 2027-01-01 00:00 UTC; it must be before now, 2026-11-26 14:03 UTC",
        ),
        (None, "today", "--until is the end of the period that --since starts: add --since or remove --until"),
    ],
)
def test_a_wrong_period_is_an_error_in_one_line(since: str | None, until: str | None, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_period(since, until, NOW)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--since", "soon"), "--since 'soon' is no time"),
        (("--until", "today"), "add --since or remove --until"),
        (("--since", "7d", "--until", "1d", "--watch"), "--watch reports up to now: remove --until or --watch"),
    ],
)
def test_the_command_refuses_a_wrong_period_in_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(app, ["report", *arguments])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert "Traceback" not in result.output
