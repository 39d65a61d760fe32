"""Parse the README and the page that continues it: their blocks, the commands in them, and what these print.

A block of `console` has commands behind `$` and the output of each; in an output, a line of `…` matches any lines.
"""

import ast
import re
import shlex
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import ndiff
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from oncelake.cli.app import app
from tests.support.places import ROOT

README, STARTED = ROOT / "README.md", ROOT / "docs/getting-started.md"
OWN = "Your own logs, without a file"
FIRST = "Five lines to the first result"
# every block, by section and kind, and the test that runs or loads it; a block that is not here fails test_docs
COVERED: Mapping[tuple[str, str], str] = {
    (FIRST, "console"): "test_readme.py::test_the_first_result_is_that_of_the_readme",
    (FIRST, "python"): "test_readme.py::test_the_first_result_is_that_of_the_readme",
    ("In the checkout", "sh"): "test_docs.py::test_every_make_target_that_a_page_names_exists",
    ("Install", "sh"): "test_docs.py::test_the_installation_names_what_the_package_has",
    ("A project", "sh"): "test_docs.py::test_every_command_and_flag_that_a_page_names_exists",
    ("The demo", "text"): "test_demo.py::test_the_demo_prints_what_the_page_shows_in_any_time_zone",
    (OWN, "console"): "test_readme.py::test_own_logs_are_counted_as_on_the_page",
    (OWN, "python"): "test_readme.py::test_own_logs_are_counted_as_on_the_page",
    (OWN, "yaml"): "test_docs.py::test_the_settings_of_the_page_are_accepted",
    ("Prove it, break it, fix it", "console"): "test_readme.py::test_a_lost_checkpoint_is_recovered_as_on_the_page",
    ("Your own Kafka", "console"): "test_readme.py::test_a_topic_is_counted_as_on_the_page",
    ("Your own Kafka", "sh"): "test_docs.py::test_the_settings_of_the_page_are_accepted",
    ("Into MySQL", "console"): "test_readme.py::test_a_table_is_served_as_on_the_page",
    ("On Databricks", "sh"): "test_docs.py::test_the_job_that_the_page_runs_is_in_the_bundle",
    ("The commands", "sh"): "test_readme.py::test_every_command_of_the_page_runs",
}
# text that differs in each run, and its placeholder
_VARYING = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
    (r"\([\d,]+ rows/s\)", "(<rate>)"),
    (r"\d+ d ago", "<time> ago"),
    (r"\d+(\.\d)? (s|min)\b( \d+ s\b)?", "<time>"),
    (r", backlog \d+ rows?$", ""),  # of two parallel stages, the one that ends last prints it
    (r"\s+", " "),
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its heading, its kind, and its text."""

    section: str
    kind: str
    text: str

    def steps(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each command with the lines that it prints."""
        for part in f"\n{self.text}".split("\n$ ")[1:]:
            command, *shown = part.splitlines()
            yield command, shown

    def commands(self) -> list[str]:
        """Return the commands of a block that shows no output; a quoted text may have several lines."""
        commands: list[str] = []
        for line in self.text.splitlines():
            open_quote = bool(commands) and commands[-1].partition(" # ")[0].count("'") % 2
            commands = [*commands[:-1], f"{commands[-1]}\n{line}"] if open_quote else [*commands, line]
        return commands


def blocks(page: Path) -> list[Block]:
    """Return a page's blocks in order."""
    found, section = [], ""
    for heading, kind, text in re.findall(r"^#+ ([^\n]+)$|^```(\w*)\n(.*?)^```$", page.read_text(), re.M | re.S):
        section = heading or section
        if not heading:
            found.append(Block(section, kind, text))
    return found


def block(section: str, kind: str) -> Block:
    """Return the one block of a kind under a heading of the two pages."""
    (found,) = (
        each for page in (README, STARTED) for each in blocks(page) if (each.section, each.kind) == (section, kind)
    )
    return found


def must_print(shown: Sequence[str], said: str) -> None:
    """Compare what a command printed with what a page shows."""
    expected, printed = _plain(shown), _plain(said.splitlines())
    pattern = "".join("(?:.*\n)*?" if line == "…" else re.escape(f"{line}\n") for line in expected)
    same = re.fullmatch(pattern, "".join(f"{line}\n" for line in printed))
    assert same, "\n".join(["shown (-) and printed (+):", *ndiff(expected, printed)])


def _plain(lines: Sequence[str]) -> list[str]:
    """Remove what varies, and blank lines; sort the tables of one layer, which run in parallel."""
    plain = []
    for line in lines:
        text = line.strip()
        for pattern, instead in _VARYING:
            text = re.sub(pattern, instead, text)
        if text:
            plain.append(text)
    together = [(line.startswith("gold.") and ": batch" in line, line) for line in plain]
    groups = ((beside, [line for _, line in group]) for beside, group in groupby(together, key=lambda each: each[0]))
    return [line for beside, group in groups for line in (sorted(group) if beside else group)]


@dataclass
class Shell:
    """Runs the pages' commands in this process.

    Attributes:
        places: paths that the pages name, and the paths used instead.
    """

    patch: pytest.MonkeyPatch
    places: Mapping[str, str]

    def run(self, command: str, *more: str, expect: int | None = None) -> str:
        """Run one command, with further flags, and return what it printed with the pages' own paths."""
        for shown, here in self.places.items():
            command = command.replace(shown, here)
        name, *words = shlex.split(command, comments=True)
        if name == "make":
            assert f"\n{words[0]}:" in (ROOT / "Makefile").read_text()
            return ""
        if name == "pip":
            assert words[:2] == ["install", ".[local]"]
            return ""
        if name == "cd":
            self.patch.chdir(words[0])
            return ""
        if name == "export":
            for key, _, value in (word.partition("=") for word in words):
                if key != "PATH":
                    self.patch.setenv(key, value)
            return ""
        if name == "rm":
            shutil.rmtree(words[-1])
            return ""
        assert name == "oncelake", f"a page runs {name}, and no test knows how"
        return self._oncelake([*words, *more], expect)

    def _oncelake(self, words: list[str], expect: int | None) -> str:
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            result = CliRunner().invoke(app, words)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        said = result.output
        assert expect is None or result.exit_code == expect, f"{words}: exit {result.exit_code}: {said}"
        for shown, here in self.places.items():
            said = said.replace(here, shown)
        return said

    def must_show(self, shown: Block) -> None:
        """Run a block's commands in turn, and compare what each prints with what the page shows."""
        for command, lines in shown.steps():
            must_print(lines, self.run(command))


def value_of(code: str) -> Any:
    """Run a Python program, and return the value of its last line."""
    *before, last = ast.parse(code).body
    names: dict[str, object] = {}
    exec(compile(ast.Module(before, []), "page", "exec"), names)
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), "page", "eval"), names)
