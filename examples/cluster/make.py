"""Write the logs of a cluster's node: three services, two pods each, as the container runtime writes them.

    python3 make.py data

writes data/pods/<namespace>_<pod>_<id>/<container>/0.log, and data/expected.json: what the counts must be. Some lines
are longer than the runtime's limit, so it cuts them into parts (tag P, the last one F).
"""

import json
import random
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

FIRST = datetime(2025, 11, 25, 10)
LIMIT = 200  # the runtime's own is 16 KiB
SERVICES = {
    "web": (0.02, "GET /products/{n} 200 in {n} ms"),
    "orders": (0.05, "order {n} accepted"),
    "mail": (0.12, "mail {n} sent"),
}


def pod(name: str, service: str, records: int, seed: int) -> tuple[list[str], Counter[tuple[str, str]], int]:
    """Return the lines of one pod's log, the number of records of each service and level, and the longest message."""
    chance, counts, longest = random.Random(f"{name} {seed}"), Counter[tuple[str, str]](), 0
    share, text = SERVICES[service]
    lines, at = [], FIRST
    for number in range(records):
        at += timedelta(milliseconds=chance.randrange(10, 900))
        stream = "stderr" if chance.random() < share else "stdout"
        message = f"{service} failed: " + "x" * chance.randrange(700) if stream == "stderr" else text.format(n=number)
        counts[service, "ERROR" if stream == "stderr" else "INFO"] += 1
        longest = max(longest, len(message))
        parts = [message[start : start + LIMIT] for start in range(0, len(message), LIMIT)]
        for place, part in enumerate(parts, 1):
            tag = "F" if place == len(parts) else "P"
            lines.append(f"{at:%Y-%m-%dT%H:%M:%S.%f}000Z {stream} {tag} {part}")
    return lines, counts, longest


def main(place: Path) -> None:
    """Write a file for each pod, unless it exists."""
    total, lines, longest = Counter[tuple[str, str]](), 0, dict.fromkeys(SERVICES, 0)
    for service in SERVICES:
        for number in range(2):
            name = f"shop_{service}-{number}_6f1c4f4e"
            rows, counts, long = pod(name, service, 300, seed=7)
            total, lines, longest[service] = total + counts, lines + len(rows), max(longest[service], long)
            file = place / "pods" / name / service / "0.log"
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                file.write_text("".join(f"{row}\n" for row in rows))
    told = {"lines": lines, "records": [[*key, count] for key, count in sorted(total.items())], "longest": longest}
    (place / "expected.json").write_text(json.dumps(told, indent=1))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
