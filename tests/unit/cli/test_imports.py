"""A command imports only what it works with: help, the version and completion answer at once."""

import subprocess
import sys

import pytest

from tests.support.house import House
from tests.support.imports import HEAVY, imported

# The modules of the layers, which a command imports when it runs.
LAYERS = ("bronze", "engine", "exactly_once", "gold", "lab", "observe", "proof", "quality", "silver", "sources")


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["--version"], ["run", "--help"], ["census", "reread", "-h"]], ids=" ".join
)
def test_help_imports_nothing_heavy_and_no_layer(arguments: list[str]) -> None:
    modules, _ = imported(*arguments)
    assert modules & HEAVY == set()
    assert modules & {f"oncelake.{layer}" for layer in LAYERS} == set()


@pytest.mark.parametrize("words", ["oncelake rebuild g", "oncelake format try app.log j", "oncelake history s"])
def test_completion_imports_nothing_heavy(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ONCELAKE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert imported()[0] & HEAVY == set()


def test_the_package_is_imported_without_spark_though_it_has_names_that_need_it() -> None:
    code = "import oncelake, sys; assert 'ExactlyOnceTable' in oncelake.__all__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & (HEAVY | {"delta"}) == set()


@pytest.mark.parametrize("command", ["run", "status", "history", "quarantine", "doctor"])
def test_a_lake_without_a_database_a_report_and_an_audit_imports_nothing_for_them(command: str, house: House) -> None:
    allowed = {"opentelemetry", "smtplib"} if command == "run" else set()
    assert imported(command, *house.options)[0] & HEAVY <= {"py4j", "pyspark"} | allowed
