"""A shell completes the names that the configuration declares, and gets no error from a broken one."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from oncelake.cli.app import app

CONF = """
sources: {web: {path: /web, format: access}, app: {path: /app}}
lake: {root: /lake}
gold: {error_log: {every: 1 minute, measures: {n: count}}, pages: {every: 1 hour, measures: {n: count}}}
serving: {url: "sqlite:///served.db", tables: [pages]}
alerts: {spike: {when: error_log.n > 3, to: {kind: slack}}}
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "conf.yaml"
    path.write_text(CONF)
    (tmp_path / "formats").mkdir()
    (tmp_path / "formats" / "ours.yaml").write_text("pattern: x")
    return path


def offered(conf: Path, words: str) -> list[str]:
    """Return what a shell offers for the last word of a command; it is what a blank at the end begins."""
    full = f"oncelake {words}".split(" ")
    environment = {
        "_ONCELAKE_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(full),
        "COMP_CWORD": str(len(full) - 1),
        "ONCELAKE_CONF": str(conf),
    }
    result = CliRunner(env=environment).invoke(app, [], prog_name="oncelake")
    return result.output.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rebuild b", ["bronze", "bronze.web", "bronze.app"]),
        ("recover gold.error_log s", ["serving", "silver", "serving.pages"]),
        ("history gold.", ["gold.error_log", "gold.pages"]),
        ("validate silver", ["silver.access_log", "silver.quarantine"]),
        ("suggest b", ["bronze.web", "bronze.app"]),
        ("alerts test ", ["spike"]),
        ("census --source w", ["web"]),
        ("format test ou", ["ours"]),
        ("format try app.log ja", ["java"]),
    ],
)
def test_names_of_the_configuration_are_offered(conf: Path, words: str, expected: list[str]) -> None:
    assert offered(conf, words) == expected


def test_an_option_names_the_configuration_that_is_read(conf: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("gold: {visits: {}}")
    assert offered(conf, f"rebuild -c {other} gold") == ["gold", "gold.visits"]
    assert offered(conf, f"rebuild -c {other} bronze") == ["bronze"]


@pytest.mark.parametrize("text", ["gold: [", "gold: 7\nsources: x", "- a", "a: 1\na: 2", None])
def test_a_file_that_cannot_be_read_offers_the_names_of_every_lake(conf: Path, text: str | None) -> None:
    conf.unlink() if text is None else conf.write_text(text)
    assert offered(conf, "rebuild ") == ["bronze", "gold", "silver"]
