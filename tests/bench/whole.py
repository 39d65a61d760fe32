"""Compare whole programs on the same files, from start to exit: oncelake and those of tests.bench.programs.

They run alternately, each into an empty lake. The result is the ratio of the medians, as the machine is never quiet.
oncelake runs as shipped: with its suite of rules, its guards, and two gold tables where the others have one. Run it
with `make bench`, or with `python -m tests.bench.whole 1000 2000000` for other numbers of lines.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from oncelake.common.errors import OncelakeError
from oncelake.common.spark import jars
from tests.bench import environments
from tests.bench.programs.oncelake import command
from tests.bench.results import keep, page

Command = Callable[[Path, Path], list[str]]

LINES = (1_000, 2_000_000, 20_000_000)
ROUNDS = 3
LEVELS = ("INFO", "INFO", "WARN", "ERROR")
BEGIN, LINES_A_SECOND = datetime(2020, 1, 1), 50
# Which of 100 lines is refused, and how many characters a long one has.
REFUSED, LONG = 50, 5_000


def oncelake(logs: Path, lake: Path) -> list[str]:
    """Return the command that runs every stage over all available input."""
    return command(f"source.path={logs}", f"lake.root={lake}")


def program(name: str, *more: str, writes: bool = True) -> Command:
    """Return the command of one of the other programs."""
    module = [sys.executable, "-m", f"tests.bench.programs.{name}"]
    return lambda logs, lake: [*module, str(logs), *([str(lake), *more] if writes else [])]


def dlt(logs: Path, lake: Path) -> list[str]:
    """Return the command of dlt, which has an environment of its own."""
    return [environments.python("dlt_pipeline"), "-m", "tests.bench.programs.dlt_pipeline", str(logs), str(lake)]


def declarative(logs: Path, lake: Path) -> list[str]:
    """Return the command of Spark Declarative Pipelines, which need a newer Spark, and Delta's libraries for it."""
    python = environments.python("declarative")
    libraries = jars.resolve(environments.DELTA, transitive=False)
    return [python, "-m", "tests.bench.programs.declarative_run", str(logs), str(lake), libraries]


WRITES_NOTHING = "DuckDB, nothing written"
PROGRAMS: dict[str, Command] = {
    "oncelake": oncelake,
    "plain chain": program("plain_chain"),
    "Spark Declarative Pipelines": declarative,
    "dlt": dlt,
    "delta-rs + Polars": program("delta_rs"),
    WRITES_NOTHING: program("duckdb_floor", writes=False),
}


def commands(programs: Mapping[str, Command], logs: Path, lake: Path) -> dict[str, list[str]]:
    """Return the command of each program; leave out those whose environment cannot be built, and say so."""
    built = {}
    for name, each in programs.items():
        try:
            built[name] = each(logs, lake)
        except (environments.NotBuiltError, OncelakeError) as error:
            print(f"{name} is left out, its environment cannot be built: {error}", flush=True)
    return built


def main(sizes: list[int]) -> None:
    """Print and keep the times of each round and the ratios."""
    runs = [compare(lines) for lines in sizes]
    print(f"{keep('whole', {'runs': runs})}, {page()}")


def compare(lines: int) -> dict[str, object]:
    """Run all programs alternately over this many lines."""
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        logs, lake = root / "logs", root / "lake"
        write_logs(logs, lines, files=40 if lines >= 100_000 else 1)
        return {"lines": lines, **in_turn(f"{lines:,} lines", commands(PROGRAMS, logs, lake), lake)}
    finally:
        shutil.rmtree(root, ignore_errors=True)


def in_turn(what: str, commands: Mapping[str, list[str]], lake: Path) -> dict[str, object]:
    """Run programs alternately, each into an empty lake; return times, medians, and their ratios to oncelake's."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(ROUNDS):
        for name, each in commands.items():
            seconds[name].append(timed(each, lake))
            print(f"{what}, round {number + 1}: {name} {seconds[name][-1]:.1f} s", flush=True)
    median = {name: statistics.median(each) for name, each in seconds.items()}
    slower = {name: median[name] / median["oncelake"] for name in commands}
    for name, ratio in slower.items():
        print(f"{what}: {name} takes {ratio:.2f} times as long as oncelake", flush=True)
    return {"seconds": seconds, "median": median, "times_oncelake": slower}


def timed(command: list[str], lake: Path) -> float:
    """Run a program to its end, into an empty lake; return the seconds."""
    shutil.rmtree(lake, ignore_errors=True)
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def write_logs(logs: Path, lines: int, files: int) -> None:
    """Write the lines into this many files, as logs are in life: of 1,000 lines ten are refused, and one is long."""
    logs.mkdir(exist_ok=True)
    each = lines // files
    for file in range(files):
        with (logs / f"{file:04d}.log").open("w") as out:
            out.writelines(map(line, range(file * each, (file + 1) * each)))


def line(number: int, at: datetime | None = None) -> str:
    """Return one line of a log, at a given time, or fifty of them a second from the year 2020 on."""
    if number % 100 == REFUSED:
        return f"    at com.example.shop.Order.pay(Order.java:{number})\n"
    more = "x" * LONG if number % 1_000 == 0 else "paid"
    time_of_it = at or BEGIN + timedelta(seconds=number // LINES_A_SECOND)
    return f"{time_of_it} {LEVELS[number % 4]} order {number} was accepted by shop and {more}\n"


def is_error(number: int) -> bool:
    """Return True if gold.error_log counts the line of this number."""
    return number % 100 != REFUSED and LEVELS[number % 4] == "ERROR"


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or list(LINES))
