"""The kit passes sinks that are right, and names what does not hold in each sink that is wrong, by real kills."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oncelake.cli.app import app
from oncelake.lab.sink_test.sink_check import SinkCheck, SinkTest
from tests.support.places import ROOT
from tests.support.wrong_sinks import WRONG, WrongSink

OWN = "tests.support.sinks:"


def first_fault(name: str, options: dict[str, str], lines: int = 40, pauses: int = 1) -> SinkCheck | None:
    """Return the first check that does not hold."""
    return next(
        (check for check in SinkTest(name, options, lines=lines, pauses=pauses).checks() if not check.holds), None
    )


@pytest.mark.parametrize("name", ["Together", "ByKey"])
def test_a_sink_that_is_right_passes(tmp_path: Path, name: str) -> None:
    assert first_fault(f"{OWN}{name}", {"file": str(tmp_path / "own.db")}, lines=10, pauses=4) is None


@pytest.mark.parametrize(
    ("name", "check", "said"),
    [
        ("ForgetsTheBatch", "batches", "ReceiptError: tests.support.sinks:ForgetsTheBatch was given batch 1"),
        ("StoresNothing", "batches", "the last batch that it stores is the mark of a rebuild"),
        ("PositionFirst", "an error of the rows", "the batch is stored"),
        ("DoublesOnReplay", "a late write", "times"),
        ("NotFenced", "a late write", "the last batch is 1, expected: 2"),
        ("ChecksTooEarly", "two writers", "a successor wrote batches"),
        ("OldRowsWin", "a late write", "expected"),
        ("CountsAgain", "an emptied table", "was emptied, but the last batch that it stores is"),
        ("ForgetsTheQuery", "batches", "ReceiptError: tests.support.sinks:ForgetsTheQuery was given"),
        ("KeepsRows", "a rebuild", "rows instead of"),
    ],
)
def test_a_sink_that_is_wrong_is_found(tmp_path: Path, name: str, check: str, said: str) -> None:
    pauses = 12 if check == "two writers" else 1
    fault = first_fault(f"{OWN}{name}", {"file": str(tmp_path / "own.db")}, pauses=pauses)
    assert fault is not None
    assert (fault.name, said in fault.said) == (check, True), fault


@pytest.mark.parametrize("sink", WRONG, ids=lambda sink: sink.kind.__name__)
def test_a_sink_with_a_deliberate_fault_is_named_by_it(tmp_path: Path, sink: WrongSink) -> None:
    options = {"file": str(tmp_path / "own.db")}
    fault = first_fault(f"tests.support.wrong_sinks:{sink.kind.__name__}", options, pauses=4)
    assert fault is not None
    assert (fault.name, sink.said in fault.said) == (sink.check, True), fault


def test_the_shipped_database_passes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'served.db'}"
    assert first_fault("oncelake.serving.sql:SqlSink", {"url": url}, lines=8, pauses=2) is None


@pytest.mark.parametrize(
    "options",
    [{"store.a": "a", "store.b": "b"}, {"store.ERROR": "errors", "store.other": "rest", "by": "level", "keep": "2"}],
    ids=["whole", "split"],
)
def test_the_shipped_parquet_stores_pass(tmp_path: Path, options: dict[str, str]) -> None:
    at = {key: str(tmp_path / value) if key.startswith("store.") else value for key, value in options.items()}
    assert first_fault("oncelake.serving.sinks.parquet:ParquetStores", at, lines=8, pauses=2) is None


def test_the_command_reports_each_check_and_exits_1_if_one_does_not_hold(tmp_path: Path) -> None:
    option, few = ["--option", f"file={tmp_path / 'own.db'}"], ["--kills", "2", "--lines", "2", "--pauses", "1"]
    good = CliRunner().invoke(app, ["sink", "test", f"{OWN}Unreadable", *option, *few])
    assert good.exit_code == 0, good.output
    assert "holds: batches: 3 batches, each with its rows and its position; the rows are NOT compared" in good.output
    assert "holds: kills at random moments: 2 kills" in good.output
    bad = CliRunner().invoke(app, ["sink", "test", f"{OWN}StoresNothing", *option, *few, "--json"])
    told = json.loads(bad.stdout)
    assert (bad.exit_code, told["holds"]) == (1, False)
    assert [check["holds"] for check in told["checks"]][:2] == [True, False]


def test_the_command_takes_secrets_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says = tmp_path / "says"
    says.write_text("broken")
    monkeypatch.setenv("ONCELAKE_SERVING__OPTIONS", json.dumps({"file": str(tmp_path / "own.db"), "says": str(says)}))
    monkeypatch.setenv("ONCELAKE_SERVING__OPTIONS__PASSWORD", "secret-word")
    result = CliRunner().invoke(app, ["sink", "test", f"{OWN}Refusing"])
    assert result.exit_code == 1
    assert "LookupError: no table. Fix the sink" in result.output
    assert "secret-word" not in result.output


def test_the_example_of_the_docs_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs/sinks.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    assert len([line for line in text.splitlines() if line.strip()]) <= 33, "it is about 30 lines"
    (tmp_path / "docs_example.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert first_fault("docs_example:Shelf", {"file": str(tmp_path / "shelf.db")}, lines=8, pauses=3) is None


@pytest.mark.parametrize("name", ["nonsense", f"{OWN}Missing", "no.such.module:Sink", f"{OWN}Incomplete"])
def test_a_class_that_is_no_sink_is_wrong_use(name: str) -> None:
    result = CliRunner().invoke(app, ["sink", "test", name])
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
