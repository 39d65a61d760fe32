"""The tutorial runs from its first block to its last, and each command prints what the page shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.crashing import crashed
from tests.support.places import ROOT
from tests.support.readme import Block, Shell, blocks, must_print, value_of

PAGE = ROOT / "docs/tutorial.md"
pytestmark = pytest.mark.spark


class Reader:
    """Follows the page: saves its files, runs its commands, and compares what they print."""

    def __init__(self, spark: SparkSession, shell: Shell) -> None:
        self.spark, self.shell = spark, shell
        self.values: list[object] = []

    def follow(self, block: Block) -> None:
        """Do what a block says."""
        named = re.match(r"# (\S+\.(?:py|yaml))\n", block.text)
        if named:
            Path(named[1]).parent.mkdir(exist_ok=True)
            Path(named[1]).write_text(block.text)
        elif block.kind == "python":
            self.values.append(value_of(block.text))
        elif block.kind == "console":
            for command, shown in block.steps():
                must_print(shown, self.run(command))
        else:
            for command in block.commands():
                self.run(command)

    def run(self, command: str) -> str:
        """Run one command; a run that the page kills dies right after silver's commit."""
        program, *words = command.split()
        if program == "python3":
            return subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True).stdout
        if program == "timeout":
            with crashed(self.spark, "silver/access_log/_delta_log/*.json", before=False):
                said = self.shell.run(command.partition("KILL 10 ")[2], expect=1)
            assert "silver stopped" in said
            return ""
        return self.shell.run(command, expect=None if program == "cd" else 0)


def test_the_tutorial_works_as_written(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    page_blocks = blocks(PAGE)
    reader = Reader(spark, Shell(monkeypatch, {"/home/ann/tutorial": str(tmp_path)}))
    for block in page_blocks:
        reader.follow(block)
    assert len({block.section for block in page_blocks}) == 7
    errors, served = reader.values
    assert errors == 40
    assert served == [("order placed", 3920), ("payment declined", 80)]
