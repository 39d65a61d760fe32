"""Compare the formats that are found or drafted for sixteen systems with the answers of loghub, in a checkout of it.

`python -m tests.model.loghub DIR` reads `<system>/<system>_2k.log` and `<system>_2k.log_structured.csv` below DIR, a
checkout of https://github.com/logpai/loghub; its files are not part of this repository. A draft is right if every line
that it reads has the time, the level and the end of the message that are answered, and if it reads at least 99 % of
them. A refusal is neither right nor wrong. With `--drafts`, the shipped formats are left out. With `--spark`, Spark
reads each line too, and both must agree. Exit code 1 if a system is wrong, or fewer than fourteen are right.
"""

import argparse
import csv
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from oncelake.common.errors import ConfigError
from oncelake.engine.conf_file import shipped_conf
from oncelake.lab.log_formats import known_formats, sample_of, suggest_format
from oncelake.silver.parsing.format import LogFormat
from oncelake.silver.plain_reader import PlainLine, PlainReader

ENOUGH, READ = 14, 0.99
_LEVELS = {
    **dict.fromkeys(("D", "DEBUG"), "DEBUG"),
    **dict.fromkeys(("I", "INFO", "NOTICE"), "INFO"),
    **dict.fromkeys(("W", "WARN", "WARNING"), "WARN"),
    **dict.fromkeys(("E", "ERROR", "SEVERE", "FAILURE"), "ERROR"),
    **dict.fromkeys(("F", "FATAL"), "FATAL"),
    **dict.fromkeys(("V", "VERBOSE"), "TRACE"),
}
Answer = Mapping[str, str]


def _epoch(answer: Answer, column: str) -> datetime:
    return datetime.fromtimestamp(int(answer[column]), UTC)


def _parsed(text: str, pattern: str) -> datetime:
    return datetime.strptime(text, pattern).replace(tzinfo=UTC)


# system → its time of a line, as its documentation says it; without a year, the year 1900
TIMES: dict[str, Callable[[Answer], datetime]] = {
    "Android": lambda line: _parsed(f"1904-{line['Date']} {line['Time']}", "%Y-%m-%d %H:%M:%S.%f"),
    "Apache": lambda line: _parsed(line["Time"], "%a %b %d %H:%M:%S %Y"),
    "BGL": lambda line: _epoch(line, "Timestamp"),
    "HDFS": lambda line: _parsed(f"{line['Date']:0>6} {line['Time']:0>6}", "%y%m%d %H%M%S"),
    "HPC": lambda line: _epoch(line, "Time"),
    "Hadoop": lambda line: _parsed(f"{line['Date']} {line['Time']}", "%Y-%m-%d %H:%M:%S,%f"),
    "HealthApp": lambda line: _parsed(line["Time"].rpartition(":")[0], "%Y%m%d-%H:%M:%S"),
    "Linux": lambda line: _parsed(f"1904 {line['Month']} {line['Date']} {line['Time']}", "%Y %b %d %H:%M:%S"),
    "Mac": lambda line: _parsed(f"1904 {line['Month']} {line['Date']} {line['Time']}", "%Y %b %d %H:%M:%S"),
    "OpenSSH": lambda line: _parsed(f"1904 {line['Date']} {line['Day']} {line['Time']}", "%Y %b %d %H:%M:%S"),
    "OpenStack": lambda line: _parsed(f"{line['Date']} {line['Time']}", "%Y-%m-%d %H:%M:%S.%f"),
    "Proxifier": lambda line: _parsed(f"1904.{line['Time']}", "%Y.%m.%d %H:%M:%S"),
    "Spark": lambda line: _parsed(f"{line['Date']} {line['Time']}", "%y/%m/%d %H:%M:%S"),
    "Thunderbird": lambda line: _epoch(line, "Timestamp"),
    "Windows": lambda line: _parsed(f"{line['Date']} {line['Time']}", "%Y-%m-%d %H:%M:%S"),
    "Zookeeper": lambda line: _parsed(f"{line['Date']} {line['Time']}", "%Y-%m-%d %H:%M:%S,%f"),
}
NO_YEAR = 1904
# The column `Level` of these has the name of a host.
NO_LEVEL = frozenset({"Linux"})


@dataclass(frozen=True)
class Result:
    """What is found for a system.

    Attributes:
        format: the name of a shipped format, `draft`, or `refused`.
        problem: what is wrong, or why there is no draft; None if it is right.
    """

    system: str
    format: str
    read: int
    lines: int
    seconds: float
    problem: str | None

    @property
    def outcome(self) -> str:
        """Return the result as one word."""
        return "refused" if self.format == "refused" else "wrong" if self.problem else "right"


def judged(system: str, place: Path, formats: Sequence[Path]) -> tuple[Result, LogFormat | None]:
    """Return the result for one system, and the format that was found."""
    log = place / system / f"{system}_2k.log"
    with (place / system / f"{system}_2k.log_structured.csv").open(encoding="utf-8", newline="") as file:
        answers = list(csv.DictReader(file))
    began = time.monotonic()
    sample = sample_of(str(log))
    known = known_formats(formats)
    found = suggest_format(sample, known)
    seconds = time.monotonic() - began
    if found.chosen is None:
        return Result(system, "refused", 0, len(answers), seconds, found.reason), None
    is_draft = found.draft is not None and found.chosen is found.drafted
    chosen = found.draft.log_format if is_draft and found.draft else known[found.chosen.format]
    lines = PlainReader(chosen, sample.modified).lines(sample.text)
    read = sum(line.log_time is not None for line in lines)
    name = "draft" if is_draft else found.chosen.format
    return Result(system, name, read, len(answers), seconds, _problem(system, lines, answers)), chosen


def _problem(system: str, lines: Sequence[PlainLine], answers: Sequence[Answer]) -> str | None:
    if len(lines) != len(answers):
        return f"{len(lines)} records, not {len(answers)}"
    wrong = [
        at for at, (line, answer) in enumerate(zip(lines, answers, strict=True)) if not _agrees(system, line, answer)
    ]
    if wrong:
        return f"{len(wrong)} lines are read wrongly, the first is {lines[wrong[0]].text[:100]!r}"
    read = sum(line.log_time is not None for line in lines)
    return None if read >= READ * len(lines) else f"only {read} of {len(lines)} lines are read"


def _agrees(system: str, line: PlainLine, answer: Answer) -> bool:
    """Return True if a line is refused, or read as answered."""
    if line.log_time is None:
        return True
    at, expected = line.log_time, TIMES[system](answer)
    if expected.year == NO_YEAR:
        at = at.replace(year=NO_YEAR)
    level = answer.get("Level", "INFO") if system not in NO_LEVEL else "INFO"
    said, message = ("".join(text.split()) for text in (answer["Content"], line.message))
    is_end = message.endswith(said) or (bool(message) and said.endswith(message))  # a format may take a field out of it
    return at == expected and line.level == _LEVELS[level.upper()] and is_end


def _by_spark(log: Path, log_format: LogFormat) -> str | None:
    """Return how Spark reads a file otherwise; None if it does not."""
    from tests.support.plain_reading import disagreement  # noqa: PLC0415 - it starts Spark

    return disagreement(log_format, log)


def main() -> int:
    """Print the results, and return the exit code."""
    parser = argparse.ArgumentParser(description="Compare found and drafted formats with loghub's answers.")
    parser.add_argument("place", type=Path, help="a checkout of github.com/logpai/loghub")
    parser.add_argument("--drafts", action="store_true", help="leave the shipped formats out")
    parser.add_argument("--spark", action="store_true", help="compare with what Spark reads, too")
    given = parser.parse_args()
    formats = [] if given.drafts else [shipped_conf() / "formats"]
    outcomes = []
    for system in TIMES:
        try:
            result, log_format = judged(system, given.place, formats)
        except (OSError, ConfigError) as error:
            print(f"{system}: {error}", file=sys.stderr)
            return 2
        problem = result.problem
        if given.spark and log_format is not None:
            problem = problem or _by_spark(given.place / system / f"{system}_2k.log", log_format)
        outcome = "wrong" if problem and result.outcome == "right" else result.outcome
        outcomes.append(outcome)
        print(
            f"{system:<12} {outcome:<8} {result.format:<13} {result.read:>5} {result.seconds:>5.1f} s  {problem or ''}"
        )
    right, wrong = outcomes.count("right"), outcomes.count("wrong")
    print(f"{right} right, {wrong} wrong, {outcomes.count('refused')} refused by name")
    return 0 if not wrong and right >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
