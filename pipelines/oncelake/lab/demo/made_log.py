"""Generate reproducible logs: the demo's, with the faults of real logs, and the notebooks', with several days and an
outage.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

START = datetime(2017, 7, 30, 14, 0, tzinfo=UTC)
_LEVELS = ("INFO",) * 80 + ("DEBUG",) * 10 + ("WARN",) * 6 + ("ERROR",) * 4
_MESSAGES = (
    "GET /cart 200 in {n} ms",
    "user {n} signed in",
    "payment {n} declined: card expired",
    "connection {n} reset by peer 🔌",
    "SELECT * FROM orders WHERE id = {n}; -- 'quoted'",
    "<b>template {n}</b> rendered",
)
BROKEN = (
    b"",
    b"    at com.example.Cart.total(Cart.java:42)",
    b"2017-07-30 14:61:00 ERROR there is no minute 61",
    b"2017-07-30 14:09:08 NOTICE there is no level NOTICE",
    b"9999-12-31 23:59:59 ERROR a clock gone wild",
    b"\xff\xfe\x00 not text at all",
)


def write_log(directory: Path, lines: int) -> None:
    """Write lines from two hours, out of order, into four files."""
    chance = random.Random(7)
    texts = [line(chance, START + timedelta(seconds=chance.randrange(7200))) for _ in range(lines)]
    for number in range(4):
        put(directory / f"app-{number}.log", texts[number::4])


def write_late_and_broken(directory: Path, late: int, broken: int, *, seed: int = 9) -> None:
    """Write one more file: lines 40 days late, repeated lines, and lines that break a rule."""
    chance = random.Random(seed)
    rows = [line(chance, START - timedelta(days=40, seconds=chance.randrange(600))) for _ in range(late - 10)]
    rows += rows[:10]
    rows += [BROKEN[number % len(BROKEN)] + b"\n" for number in range(broken)]
    chance.shuffle(rows)
    put(directory / "app-late.log", rows)


def mixed_lines(count: int, *, seed: int) -> list[bytes]:
    """Return shuffled lines of all kinds: of 100, 10 break a rule, 10 are 40 days late, 5 are repeated."""
    chance = random.Random(seed)
    broken, late, repeated = count // 10, count // 10, count // 20
    days = [timedelta(days=-40)] * late + [timedelta()] * (count - broken - late - repeated)
    rows = [line(chance, START + back + timedelta(seconds=chance.randrange(7200))) for back in days]
    rows += rows[:repeated]
    rows += [BROKEN[(seed + number) % len(BROKEN)] + b"\n" for number in range(broken)]
    chance.shuffle(rows)
    return [row.removesuffix(b"\n") for row in rows]


def lines_of(directory: Path) -> Iterator[bytes]:
    """Yield every line of the files in a directory, without its \\n."""
    for path in sorted(path for path in directory.iterdir() if path.is_file()):
        text = path.read_bytes()
        yield from text.removesuffix(b"\n").split(b"\n") if text else ()


def put(path: Path, rows: list[bytes]) -> None:
    """Write a complete log file, then make it visible by a rename, because Spark reads a file only once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(b"".join(rows))
    hidden.rename(path)


def line(chance: random.Random, at: datetime) -> bytes:
    """Return a line with the given time, with its \\n."""
    message = chance.choice(_MESSAGES).format(n=chance.randrange(10_000))
    return f"{at:%Y-%m-%d %H:%M:%S} {chance.choice(_LEVELS)} {message}\n".encode()


FIRST = datetime(2017, 7, 26, tzinfo=UTC)
DAYS = 5
# The relative number of lines per hour of a day: quiet nights, a busy afternoon.
_HOURS = (2, 1, 1, 1, 1, 2, 3, 5, 8, 10, 11, 11, 10, 11, 12, 12, 11, 9, 8, 7, 6, 5, 4, 3)
_OUTAGE = FIRST + timedelta(days=DAYS - 1, hours=15, minutes=20)
_OUTAGE_LINES = ("payment {n} failed: gateway pay-2 timed out after {ms} ms",) * 5 + ("order {n} cancelled: not paid",)


def made_days(lines: int) -> list[list[bytes]]:
    """Return the lines of each day, ordered by time; the last day has an outage of seven minutes."""
    chance = random.Random(11)
    days: list[list[bytes]] = []
    for day in range(DAYS):
        hours = chance.choices(range(24), _HOURS, k=lines // DAYS)
        times = sorted(hour * 3600 + chance.randrange(3600) for hour in hours)
        days.append([line(chance, FIRST + timedelta(days=day, seconds=second)) for second in times])
    days[-1] = sorted([*days[-1], *_outage(chance, lines // 150)])
    return days


def trouble(late: int, broken: int) -> list[bytes]:
    """Return lines that arrive four days late, and lines that break a rule."""
    chance = random.Random(13)
    rows = [line(chance, FIRST + timedelta(seconds=chance.randrange(8 * 3600, 20 * 3600))) for _ in range(late)]
    # the earlier a kind is in BROKEN, the more lines of it
    rows += [chance.choices(BROKEN, range(len(BROKEN), 0, -1))[0] + b"\n" for _ in range(broken)]
    chance.shuffle(rows)
    return rows


def _outage(chance: random.Random, lines: int) -> list[bytes]:
    """Return errors whose rate rises and then falls, with the peak in the middle."""
    rows = []
    for _ in range(lines):
        at = _OUTAGE + timedelta(seconds=chance.triangular(0, 420))
        text = chance.choice(_OUTAGE_LINES).format(n=chance.randrange(10_000), ms=chance.randrange(5_000, 5_100))
        rows.append(f"{at:%Y-%m-%d %H:%M:%S} ERROR {text}\n".encode())
    return rows
