"""A command imports only what it works with: help, the version and completion answer at once."""

import os
import subprocess
import sys

import pytest

from tests.support.house import House

# What takes long to import, or belongs to one command only.
HEAVY = {"great_expectations", "jinja2", "opentelemetry", "pandas", "plotly", "py4j", "pyspark", "sqlalchemy"}
CODE = """
import sys
sys.argv[0] = "oncelake"
from oncelake.cli.app import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def imported(*arguments: str) -> set[str]:
    """Return the heavy packages that a command imports, on a machine without Java."""
    command, environment = [sys.executable, "-c", CODE, *arguments], {**os.environ, "JAVA_HOME": "/none"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    modules = set(done.stderr.split())
    assert "oncelake.cli.run" in modules
    return modules & HEAVY


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["run", "--help"], ["census", "reread", "-h"]], ids=" ".join
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert imported(*arguments) == set()


@pytest.mark.parametrize("words", ["oncelake rebuild g", "oncelake format try app.log j", "oncelake history s"])
def test_completion_imports_nothing_heavy(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ONCELAKE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert imported() == set()


def test_the_package_is_imported_without_spark_though_it_has_names_that_need_it() -> None:
    code = "import oncelake, sys; assert 'ExactlyOnceTable' in oncelake.__all__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & (HEAVY | {"delta", "deltalake", "pyarrow"}) == set()


@pytest.mark.parametrize("command", ["run", "status", "doctor"])
def test_a_lake_without_a_database_a_report_and_an_audit_imports_nothing_for_them(command: str, house: House) -> None:
    assert imported(command, *house.options) <= {"opentelemetry", "py4j", "pyspark"}
