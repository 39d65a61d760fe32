"""Run an example as its one command does, on the Spark that tests share."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import deltalake
import pyarrow
import pytest

from tests.support.places import ROOT
from tests.support.readme import Shell

EXAMPLES = ROOT / "examples"
# the lines of a script that run none of its steps: comments, the environment, its own directory
_SETTING = ("#", "[", "export", "set -eu", 'cd "$(dirname')


@dataclass
class Example:
    """A copy of an example in a directory of its own, which is the working directory."""

    place: Path
    shell: Shell

    @classmethod
    def copied(cls, name: str, to: Path, patch: pytest.MonkeyPatch) -> Self:
        """Copy an example, and enter its directory."""
        place = to / name
        shutil.copytree(EXAMPLES / name, place, ignore=shutil.ignore_patterns("data"))
        patch.chdir(place)
        return cls(place, Shell(patch, {}))

    def run(self) -> list[str]:
        """Run each command of its script, which must succeed; return what they printed."""
        lines = (self.place / "run.sh").read_text().splitlines()
        return [self._said(line) for line in lines if line and not line.startswith(_SETTING)]

    def _said(self, line: str) -> str:
        program, *words = shlex.split(line)
        if program == "python3":
            subprocess.run([sys.executable, *words], check=True, env=dict(os.environ), cwd=self.place)
            return ""
        return self.shell.run(line, expect=0)

    @property
    def expected(self) -> dict[str, Any]:
        """Return what the maker says the counts must be."""
        told: dict[str, Any] = json.loads((self.place / "data/expected.json").read_text())
        return told

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return a table's rows, read with delta-rs."""
        found = deltalake.DeltaTable(self.place / "data/lake" / table).to_pyarrow_dataset().to_table()
        rows: list[dict[str, Any]] = pyarrow.table(found).to_pylist()
        return rows
