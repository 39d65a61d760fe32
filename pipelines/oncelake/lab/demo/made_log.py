"""This is where the demo's log is made: the same at every run, with the troubles that real logs have."""

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


def write_log(directory: Path, lines: int, *, files: int = 4, seed: int = 7) -> None:
    """Write lines out of order over two hours into several files."""
    chance = random.Random(seed)
    texts = [line(chance, START + timedelta(seconds=chance.randrange(7200))) for _ in range(lines)]
    for number in range(files):
        put(directory / f"app-{number}.log", texts[number::files])


def write_late_and_broken(directory: Path, late: int, broken: int, *, seed: int = 9) -> None:
    """Write one more file: lines 40 days late, repeated lines, and lines that break a rule."""
    chance = random.Random(seed)
    rows = [line(chance, START - timedelta(days=40, seconds=chance.randrange(600))) for _ in range(late - 10)]
    rows += rows[:10]
    rows += [BROKEN[number % len(BROKEN)] + b"\n" for number in range(broken)]
    chance.shuffle(rows)
    put(directory / "app-late.log", rows)


def mixed_lines(count: int, *, seed: int) -> list[bytes]:
    """Make lines of all kinds, shuffled: 10 in 100 break a rule, 10 are 40 days late, 5 come a second time."""
    chance = random.Random(seed)
    broken, late, repeated = count // 10, count // 10, count // 20
    days = [timedelta(days=-40)] * late + [timedelta()] * (count - broken - late - repeated)
    rows = [line(chance, START + back + timedelta(seconds=chance.randrange(7200))) for back in days]
    rows += rows[:repeated]
    rows += [BROKEN[(seed + number) % len(BROKEN)] + b"\n" for number in range(broken)]
    chance.shuffle(rows)
    return [row.removesuffix(b"\n") for row in rows]


def lines_of(directory: Path) -> Iterator[bytes]:
    """Give every line of the files in a directory, without its \\n."""
    for path in sorted(path for path in directory.iterdir() if path.is_file()):
        text = path.read_bytes()
        yield from text.removesuffix(b"\n").split(b"\n") if text else ()


def put(path: Path, rows: list[bytes]) -> None:
    """Write a log file under a name that Spark ignores, and move it in whole: a file is read once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(b"".join(rows))
    hidden.rename(path)


def line(chance: random.Random, at: datetime) -> bytes:
    """Make a line of one time, with its \\n."""
    message = chance.choice(_MESSAGES).format(n=chance.randrange(10_000))
    return f"{at:%Y-%m-%d %H:%M:%S} {chance.choice(_LEVELS)} {message}\n".encode()
