"""This is where several days of a log are made, with an outage to find: what the notebooks look at unless told."""

import random
from datetime import UTC, datetime, timedelta

from oncelake.lab.demo.made_log import BROKEN, line

FIRST = datetime(2017, 7, 26, tzinfo=UTC)
DAYS = 5
# Lines for each hour of a day: quiet nights, a busy afternoon.
_HOURS = (2, 1, 1, 1, 1, 2, 3, 5, 8, 10, 11, 11, 10, 11, 12, 12, 11, 9, 8, 7, 6, 5, 4, 3)
_OUTAGE = FIRST + timedelta(days=DAYS - 1, hours=15, minutes=20)
_OUTAGE_LINES = ("payment {n} failed: gateway pay-2 timed out after {ms} ms",) * 5 + ("order {n} cancelled: not paid",)


def made_days(lines: int, *, seed: int = 11) -> list[list[bytes]]:
    """Make the lines of each day, in the order of their times; the last day has an outage of seven minutes."""
    chance = random.Random(seed)
    days: list[list[bytes]] = []
    for day in range(DAYS):
        hours = chance.choices(range(24), _HOURS, k=lines // DAYS)
        times = sorted(hour * 3600 + chance.randrange(3600) for hour in hours)
        days.append([line(chance, FIRST + timedelta(days=day, seconds=second)) for second in times])
    days[-1] = sorted([*days[-1], *_outage(chance, lines // 150)])
    return days


def trouble(late: int, broken: int, *, seed: int = 13) -> list[bytes]:
    """Make lines that come four days late, and lines that break a rule."""
    chance = random.Random(seed)
    rows = [line(chance, FIRST + timedelta(seconds=chance.randrange(8 * 3600, 20 * 3600))) for _ in range(late)]
    # the more of a kind, the earlier it stands in the list
    rows += [chance.choices(BROKEN, range(len(BROKEN), 0, -1))[0] + b"\n" for _ in range(broken)]
    chance.shuffle(rows)
    return rows


def _outage(chance: random.Random, lines: int) -> list[bytes]:
    """Make errors that come and go like a hill, most of them in the middle."""
    made = []
    for _ in range(lines):
        at = _OUTAGE + timedelta(seconds=chance.triangular(0, 420))
        text = chance.choice(_OUTAGE_LINES).format(n=chance.randrange(10_000), ms=chance.randrange(5_000, 5_100))
        made.append(f"{at:%Y-%m-%d %H:%M:%S} ERROR {text}\n".encode())
    return made
