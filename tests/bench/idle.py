"""Measure the processor time of a continuous run with nothing arriving, in percent of one core.

oncelake reads a small source to its end. After a minute, the time that Python and Java use in the next minute is taken
from the operating system, and the threads that use most of it are named. Run it with `python -m tests.bench.idle`;
`--source kafka` and `--serve` measure a topic and MySQL behind gold, `SETTING=VALUE` another setting.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.bench.continuous import Gold, Kind, Program, served, source, start
from tests.bench.programs.oncelake import command
from tests.bench.results import keep, page
from tests.bench.whole import is_error, line

LINES, SHOWN = 1_000, 12
# The seconds after the last line is counted and before the measurement, and of the measurement.
WARM, MEASURED = 60.0, 60.0


def main(arguments: Sequence[str]) -> None:
    """Print the shares of a core; without arguments, keep them."""
    parser = argparse.ArgumentParser("python -m tests.bench.idle")
    parser.add_argument("--source", choices=("files", "kafka"), default="files")
    parser.add_argument("--serve", action="store_true", help="serve gold from MySQL")
    parser.add_argument("sets", nargs="*", metavar="SETTING=VALUE", help="further settings of oncelake")
    given = parser.parse_args(arguments)
    figures = measure(given.source, tuple(given.sets), serve=given.serve)
    print(json.dumps(figures, indent=1))
    if not arguments:
        print(f"{keep('idle', figures)}, {page()}")


def measure(kind: Kind, sets: tuple[str, ...] = (), *, serve: bool = False) -> dict[str, Any]:
    """Return the percentage of a core that an idle run uses: of Python, of Java, of both, and of single threads."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        with ExitStack() as stack:
            lines = stack.enter_context(source(kind, root))
            sets = (*lines.sets, f"lake.root={root}/lake", *sets)
            if serve:
                sets += stack.enter_context(served(root, *sets)).sets
            now = datetime.now(UTC).replace(microsecond=0, tzinfo=None)
            lines.send([line(number, now).removesuffix("\n") for number in range(LINES)])
            program = stack.enter_context(start(command(*sets, once=False), root))
            wait_until_counted(Gold(root / "lake/gold/error_log"), sum(map(is_error, range(LINES))), program)
            time.sleep(WARM)
            return observed(program)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def wait_until_counted(gold: Gold, errors: int, program: Program) -> None:
    """Wait until gold counts this many errors."""
    count = 0
    while count < errors:
        program.check()
        found = gold.look()
        if found is None:
            time.sleep(0.01)
        else:
            count, _ = found


def observed(program: Program) -> dict[str, Any]:
    """Observe a running program, and return its shares of a core in percent."""
    began, before, threads = time.monotonic(), program.seconds(), program.threads()
    time.sleep(MEASURED)
    after, threads_after, seconds = program.seconds(), program.threads(), time.monotonic() - began
    program.check()
    shares = {name: 100 * (after[name] - before[name]) / seconds for name in after}
    used = {key: 100 * (most - threads.get(key, 0.0)) / seconds for key, most in threads_after.items()}
    busiest = sorted(used, key=lambda key: -used[key])[:SHOWN]
    return {
        "percent": round(sum(shares.values()), 2),
        **{name: round(share, 2) for name, share in shares.items()},
        "threads": [f"{program}, {name}: {used[program, number, name]:.2f}" for program, number, name in busiest],
    }


if __name__ == "__main__":
    main(sys.argv[1:])
