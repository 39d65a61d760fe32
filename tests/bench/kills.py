"""Kill each program at random times and count the lines that are lost or doubled afterwards.

Each program gets the same files in the same order. In each round some files arrive, the program is started in its own
process group, and the group is killed at a random time between its start and its usual duration. In the end it runs
once undisturbed. Each line has a number, so silver and quarantine are compared with the input line by line, and
gold's counts with the right counts. After a kill a program is only started again, as its documentation says. Run it
with `make bench`, or with `python -m tests.bench.kills -k 30 --only dlt`.
"""

import argparse
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
from deltalake import DeltaTable

from tests.bench.results import keep, page
from tests.bench.whole import (
    BEGIN,
    LEVELS,
    LINES_A_SECOND,
    PROGRAMS,
    REFUSED,
    WRITES_NOTHING,
    commands,
    program,
    timed,
    write_logs,
)
from tests.support.house import kill_group

LINES, KILLS, FILES_A_ROUND = 200_000, 10, 4
# delta-rs + Polars numbers its batches by their first file: a batch must never get another file.
STARTED = {**PROGRAMS, "delta-rs + Polars": program("delta_rs", "1")}
del STARTED[WRITES_NOTHING]
# Where a program has silver, quarantine and gold below its lake.
TABLES = {
    "oncelake": ("silver/access_log", "silver/quarantine", "gold/error_log"),
    "dlt": ("tables/silver", "tables/quarantine", "tables/gold"),
}
TABLES_OF_OTHERS = ("silver", "quarantine", "gold")
NUMBER_IN_SILVER, NUMBER_IN_QUARANTINE = r"^order (\d+) ", r"Order\.java:(\d+)\)"


@dataclass(frozen=True)
class Outcome:
    """What a program's tables hold after the kills.

    Attributes:
        lost: lines in neither silver nor quarantine.
        doubled: additional copies of lines in silver and quarantine.
        gold_low: ERROR lines that gold lacks.
        gold_high: ERROR lines that gold counts too often.
        killed: runs that were killed; the others had ended before.
        failed: runs that ended with an error.
        usual: seconds of a run over the first round's files.
    """

    program: str
    lost: int
    doubled: int
    gold_low: int
    gold_high: int
    killed: int
    failed: int
    usual: float


@dataclass(frozen=True)
class Place:
    """The directories of a comparison: all files, those that have arrived, and the tables."""

    stock: Path
    logs: Path
    lake: Path


def main(number: int, seed: int, lines: int, only: list[str]) -> None:
    """Print and keep what each program lost and doubled."""
    outcomes: list[Outcome] = []
    root = Path(tempfile.mkdtemp(prefix="oncelake-bench-"))
    try:
        place = Place(root / "stock", root / "logs", root / "lake")
        write_logs(place.stock, lines, number * FILES_A_ROUND)
        chosen = {name: each for name, each in STARTED.items() if name in only}
        for name, command in commands(chosen, place.logs, place.lake).items():
            outcomes.append(outcome(name, command, place, random.Random(seed)))
        for each in outcomes:
            print(row(each))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    figures = {"lines": lines, "kills": number, "seed": seed, "programs": [asdict(each) for each in outcomes]}
    print(f"{keep('kills', figures)}, {page()}")


def row(result: Outcome) -> str:
    """Return the figures of one program as a line to print."""
    return (
        f"{result.program}: lines lost {result.lost:,}, lines doubled {result.doubled:,}; gold too low by "
        f"{result.gold_low:,}, too high by {result.gold_high:,}; {result.killed} runs killed, {result.failed} failed, "
        f"a run takes {result.usual:.1f} s"
    )


def outcome(name: str, command: list[str], place: Place, chance: random.Random) -> Outcome:
    """Kill a program once in each round, let it finish, and compare its tables with the input."""
    shutil.rmtree(place.logs, ignore_errors=True)
    place.logs.mkdir()
    files = sorted(place.stock.iterdir())
    rounds = [files[at : at + FILES_A_ROUND] for at in range(0, len(files), FILES_A_ROUND)]
    arrive(rounds[0], place.logs)
    # The first run of a program is slower: its files are not in memory yet.
    usual = min(timed(command, place.lake) for _ in range(2))
    shutil.rmtree(place.lake)
    ends = []
    for arriving, seconds in zip(rounds, spread(usual, len(rounds), chance), strict=True):
        arrive(arriving, place.logs)
        ends.append(run(command, seconds))
        print(f"{name}, after {seconds:.1f} s: {ends[-1]}", flush=True)
    ends.append(run(command, None))
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    counted = compare(place.lake, TABLES.get(name, TABLES_OF_OTHERS), lines)
    return Outcome(name, *counted, killed=ends.count("killed"), failed=ends.count("failed"), usual=usual)


def arrive(files: list[Path], logs: Path) -> None:
    """Make files appear at once, each complete, with the current time as their time of modification."""
    for file in files:
        partial = logs.with_suffix(".partial")
        shutil.copyfile(file, partial)
        partial.rename(logs / file.name)


def spread(usual: float, number: int, chance: random.Random) -> list[float]:
    """Return random times, one in each of equal parts of the usual duration, in random order."""
    times = [usual * (part + chance.random()) / number for part in range(number)]
    chance.shuffle(times)
    return times


def run(command: list[str], seconds: float | None) -> str:
    """Run a program and kill its process group after some seconds; return 'killed', 'ended' or 'failed'."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, start_new_session=True, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        return "failed" if process.wait(timeout=seconds) else "ended"
    except subprocess.TimeoutExpired:
        kill_group(process)
        return "killed"


def compare(lake: Path, tables: tuple[str, str, str], lines: int) -> tuple[int, int, int, int]:
    """Return the lines that are lost and doubled, and by how many lines gold is too low and too high."""
    silver, quarantine, gold = (lake / table for table in tables)
    seen = Counter(numbers(silver, "message", NUMBER_IN_SILVER))
    seen.update(numbers(quarantine, "value", NUMBER_IN_QUARANTINE))
    right = Counter(
        BEGIN.replace(tzinfo=UTC) + timedelta(minutes=number // LINES_A_SECOND // 60)
        for number in range(lines)
        if LEVELS[number % len(LEVELS)] == "ERROR" and number % 100 != REFUSED
    )
    counted: Counter[datetime] = Counter()
    for minute, count in read(gold, "log_time", "log_count").iter_rows():
        counted[minute.astimezone(UTC)] += count
    return lines - len(seen), seen.total() - len(seen), (right - counted).total(), (counted - right).total()


def numbers(table: Path, column: str, pattern: str) -> list[int]:
    """Return the number of each line that a table holds; oncelake's quarantine holds lines as bytes."""
    return read(table, column)[column].cast(pl.String).str.extract(pattern).cast(pl.Int64).to_list()


def read(table: Path, *columns: str) -> pl.DataFrame:
    """Return columns of a Delta table; none of its rows if the program did not create it."""
    if not DeltaTable.is_deltatable(str(table)):
        return pl.DataFrame(schema=dict.fromkeys(columns, pl.String))
    return pl.DataFrame(DeltaTable(str(table)).to_pyarrow_table(columns=list(columns)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kill each program and count what is lost and doubled.")
    parser.add_argument("-k", "--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--only", action="append", choices=list(STARTED), help="only this program; repeatable")
    given = parser.parse_args()
    main(given.kills, given.seed, given.lines, given.only or list(STARTED))
