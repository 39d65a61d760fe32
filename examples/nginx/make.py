"""Write the access log of a web shop: two days, with an outage of the checkout, a scanner, and three torn lines.

    python3 make.py data

writes data/logs/access.log and access.log.1, and data/expected.json: what the counts must be.
"""

import json
import random
import sys
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path

FIRST = datetime(2025, 11, 23, tzinfo=timezone(timedelta(hours=1)))
OUTAGE = FIRST + timedelta(days=1, hours=18, minutes=10)  # for 25 minutes
PAGES = ("/",) * 5 + ("/search?q=lamp",) * 3 + ("/products/{n}",) * 8 + ("/cart",) * 3 + ("/api/checkout",) * 2
AGENTS = ("Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", "Mozilla/5.0 (iPhone) Safari/605.1", "curl/8.5.0")
REFERERS = ("-", "-", "https://shop.example/", 'https://search.example/?q=\\"lamp\\"')
HOURS = (2, 1, 1, 1, 1, 2, 4, 7, 9, 10, 10, 11, 11, 10, 10, 11, 12, 14, 16, 15, 13, 10, 7, 4)


def request(chance: random.Random, at: datetime) -> tuple[str, str]:
    """Return the request line and the status of one visit."""
    page = chance.choice(PAGES).format(n=chance.randrange(900))
    method = "POST" if page == "/api/checkout" else "GET"
    if method == "POST" and OUTAGE <= at < OUTAGE + timedelta(minutes=25):
        return f"{method} {page} HTTP/1.1", chance.choice(("502", "502", "504"))
    status = chance.choices(("200", "304", "404", "500"), (900, 70, 25, 5))[0]
    return f"{method} {page} HTTP/2.0", status


def make(requests: int, seed: int) -> tuple[list[str], Counter[tuple[str, str]]]:
    """Return the lines in the order of their times, and the number of requests of each path and status."""
    chance, counts = random.Random(seed), Counter[tuple[str, str]]()
    lines = []
    for number in range(requests):
        at = FIRST + timedelta(
            days=number % 2, hours=chance.choices(range(24), HOURS)[0], seconds=chance.randrange(3600)
        )
        text, status = request(chance, at)
        if number % 400 == 0:  # a scanner: it speaks TLS to the plain port, or looks for secrets
            text, status = chance.choice(((r"\x16\x03\x01\x02", "400"), ("GET /.env HTTP/1.1", "404")))
        path = text.partition(" ")[2].partition(" ")[0].partition("?")[0]
        counts["/products/:id" if path.startswith("/products/") else path, status] += 1
        size = "0" if status == "304" else str(chance.randrange(200, 40_000))
        client, referer, agent = f"203.0.113.{chance.randrange(255)}", chance.choice(REFERERS), chance.choice(AGENTS)
        lines.append((at, f'{client} - - [{at:%d/%b/%Y:%H:%M:%S %z}] "{text}" {status} {size} "{referer}" "{agent}"'))
    return [line for _, line in sorted(lines)], counts


def main(place: Path) -> None:
    """Write the two files, unless they exist."""
    lines, counts = make(6_000, seed=7)
    half = len(lines) // 2
    files = {"access.log.1": lines[:half], "access.log": [*lines[half:], *(line[:40] for line in lines[:3])]}
    (place / "logs").mkdir(parents=True, exist_ok=True)
    for name, rows in files.items():
        if not (place / "logs" / name).exists():
            (place / "logs" / f".{name}").write_text("".join(f"{row}\n" for row in rows))
            (place / "logs" / f".{name}").rename(place / "logs" / name)
    told = {"lines": len(lines) + 3, "refused": 3, "requests": [[*key, count] for key, count in sorted(counts.items())]}
    (place / "expected.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
