"""A command imports only what it works with: help, the version and completion answer at once."""

import subprocess
import sys

import pytest

# What takes long to import, or belongs to one command only.
HEAVY = {"great_expectations", "jinja2", "opentelemetry", "pandas", "plotly", "pyspark", "sqlalchemy"}
CODE = "import sys; from oncelake.cli.app import main; main(); print(*sys.modules, file=sys.stderr)"


def imported(*arguments: str) -> set[str]:
    """Return the heavy packages that a command imports."""
    done = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=True)
    modules = set(done.stderr.split())
    assert "oncelake.cli.run" in modules
    return modules & HEAVY


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["run", "--help"], ["census", "reread", "-h"]], ids=" ".join
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert imported(*arguments) == set()
