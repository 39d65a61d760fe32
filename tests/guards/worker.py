"""Run tests in a copy of the tree, again and again, each time with another module changed.

This is a separate program: it imports nothing of the tree except through pytest, and forgets the tree's modules after
each run. So PySpark is imported once, and with `--spark` one session is kept for all runs. It reads one JSON object a
line from its standard input, and writes one a line to its standard output; the output of tests goes to a file.
"""

import json
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

# errors that show that the change broke the code, and not that a test noticed it
BROKEN = (ImportError, SyntaxError, NameError)
TIMEOUT = 300


class SinkContents:
    """What pytest reports: the tests that passed and failed, what could not be run, and whether one was interrupted."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: list[str] = []
        self.broken: list[str] = []
        self.interrupted = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record what could not be collected."""
        if report.failed:
            self.broken.append(f"{report.nodeid} is not collected: {_last_line(report.longreprtext)}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Record the outcome of a test."""
        report = yield
        self.interrupted |= report.failed and "from pytest-timeout" in report.longreprtext
        if report.skipped:
            self.broken.append(f"{item.nodeid} was skipped")
        elif report.failed and call.excinfo is not None and isinstance(call.excinfo.value, BROKEN):
            self.broken.append(f"{item.nodeid}: {call.excinfo.typename}: {call.excinfo.value}")
        elif report.failed and report.when != "call":
            self.broken.append(f"{item.nodeid} failed in {report.when}: {_last_line(report.longreprtext)}")
        elif report.when == "call":
            (self.failed if report.failed else self.passed).append(item.nodeid)
        return report


def run(job: dict[str, Any], number: int, scratch: Path) -> dict[str, Any]:
    """Run a job's tests with one file changed, and put the file back."""
    file, seen = (Path(job["file"]), SinkContents()) if job["file"] else (None, SinkContents())
    before = file.read_bytes() if file else b""
    try:
        if file:
            file.write_text(job["source"], encoding="utf-8")
        _forget()
        place = ("-p", "no:cacheprovider", f"--basetemp={scratch / str(number)}", f"--timeout={TIMEOUT}")
        code = pytest.main([*place, "-q", "--tb=short", *job["tests"]], plugins=[seen])
    finally:
        if file:
            file.write_bytes(before)
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not seen.broken:
        seen.broken.append(f"pytest ended with {pytest.ExitCode(code).name.lower().replace('_', ' ')}")
    return vars(seen)


def _forget() -> None:
    """Remove the tree's modules, so that they are imported again."""
    here = f"{Path.cwd()}{os.sep}"
    for name in [name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).startswith(here)]:
        del sys.modules[name]


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")


def main(log: str, scratch: str, *options: str) -> None:
    """Run jobs until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    with Path(log).open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    Path(scratch).mkdir(parents=True, exist_ok=True)
    sys.path[:0] = [str(Path.cwd() / "pipelines"), str(Path.cwd())]
    if "--spark" in options:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - a second to import, for nothing without Spark

        setattr(SparkSession, "stop", lambda _: None)  # noqa: B010 - a method that is replaced for all runs
    for number, line in enumerate(sys.stdin):
        answers.write(json.dumps(run(json.loads(line), number, Path(scratch))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
