"""The docs are true: the reference is made from the settings, and what pages name, quote and link is there."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from pipelines.cli import app
from pipelines.configuration import load, shipped_conf
from pipelines.exactly_once.finding import CONSEQUENCE, State
from tests.docs import reference
from tests.readme import COVERED, Block, block, blocks

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
OPERATIONS = ROOT / "docs/operations"
# What each page about a state that may not start says, in this order.
TEMPLATE = ("What happened", "If it", "What to do", "What it costs", "When it is mended", "Prevent it")
# What an output has that the code has not: names, numbers, places and what others say.
NOT_OURS = (
    r"\{.*\}",
    r"[\w.<>:*/-]*/[\w./<>:*-]+",
    r"\(?\[Errno.*?\)|Can't connect to MySQL server on|Unexpected end of input stream",
    r"'[^']*'",
    r"\b[\w-]*[0-9a-f]{4}-[\w-]+",
    r"\b[\w-]+(?:\.[\w-]+)+\b",
    r"\b\w{22}\b",
    r"[\d][\d.,:]*",
    r"\b(?:RESTORE|DELETE|UTC|bronze|silver|gold|serving|alog|host1|kB|MB|bytes|java)\b",
    r"[…→=+%·]",
)


def text_of(page: Path) -> str:
    """Give a page without its comments."""
    return re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_reference_of_settings_is_the_generated_one() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "settings have changed: run make docs"


def test_every_linked_page_and_heading_exists() -> None:
    for page in PAGES:
        for link, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]+))?\)", text_of(page)):
            target = (page.parent / link).resolve() if link else page
            assert target.exists(), f"{page.name}: {link}"
            assert not heading or heading in headings(target), f"{page.name}: {link}#{heading}"


@cache
def headings(page: Path) -> set[str]:
    """Give the anchors of a page's headings, as they are made on GitHub."""
    found = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, more = set(), [PAGES[0]]
    while more:
        page = more.pop()
        reached.add(page)
        links = (page.parent / link for link in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", text_of(page)))
        more += [link.resolve() for link in links if link.resolve() not in reached]
    assert set(PAGES) <= reached


def test_every_test_that_a_page_names_exists() -> None:
    tests = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    named = [(page.name, *each) for page in PAGES for each in files_named(text_of(page))]
    named += [("the README's blocks", *each) for test in COVERED.values() for each in files_named(f"`{test}`")]
    for page, file, name in named:
        found = [text for path, text in tests.items() if path.match(file)]
        assert found, f"{page}: {file}"
        assert not name or any(f"def {name}(" in text for text in found), f"{page}: {file}::{name}"


def files_named(text: str) -> list[tuple[str, str]]:
    found = re.findall(r"`(?:tests/)?([\w/*]+\.py)(?:::(\w+))?`", text)
    return [(file, name) for file, name in found if file != "write.py" and not file.startswith("pipelines/")]


def test_every_module_that_a_page_names_exists() -> None:
    for page in PAGES:
        for path in re.findall(r"`(pipelines/[\w/.]+)`", text_of(page)):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def commands_named(text: str) -> Iterator[str]:
    """Give what follows `oncelake` in code: in blocks, where a command begins a line, and between backquotes."""
    text = re.sub(r"`[^`]*oncelake (?:drain|continuous|audit)`", "", text)  # names of jobs
    for code in re.findall(r"^```.*?^```", text, re.M | re.S):
        yield from re.findall(r"^(?:\$ )?(?:\.venv/bin/)?oncelake (.+)$", code, re.MULTILINE)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    for code in re.findall(r"`([^`]+)`", prose):
        yield from re.findall(r"^oncelake (?![<a-z]+/)(.+)$", " ".join(code.split()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_flag_that_a_page_names_exists(page: Path) -> None:
    for command in commands_named(text_of(page)):
        words = shlex.split(command.replace("…", ""), comments=True)
        at: Any = typer.main.get_command(app)
        while hasattr(at, "commands") and words and not words[0].startswith("-"):
            assert words[0] in at.commands, f"{page.name}: oncelake {command}: there is no {words[0]}"
            at, words = at.commands[words[0]], words[1:]
        flags = {flag for each in at.params for flag in each.opts}
        unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in flags]
        assert not unknown, f"{page.name}: oncelake {command}: there is no {unknown[0]}"


def test_every_make_target_that_a_page_names_exists() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for page in PAGES:
        for target in re.findall(r"(?:`|^|\$ )make ([a-z][\w-]*)", text_of(page), re.MULTILINE):
            assert target in targets, f"{page.name}: make {target}"


@pytest.mark.parametrize("state", State)
def test_every_state_has_its_page(state: State) -> None:
    text = text_of(OPERATIONS / state.page)
    assert text.startswith(f"# {state.value}\n")
    assert f"({state.page})" in (OPERATIONS / "README.md").read_text()
    console = next(each for each in blocks(OPERATIONS / state.page) if each.kind == "console")
    (command, shown), *_ = console.steps()
    assert command == "oncelake doctor"
    assert any(f": {state.value}: " in line for line in shown)
    if state in CONSEQUENCE:
        assert any(f"Started like this, {CONSEQUENCE[state]}. " in line for line in shown)
        sections: list[str] = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert [heading for heading in sections if heading.startswith(TEMPLATE)] == [
            heading for want in TEMPLATE for heading in sections if heading.startswith(want)
        ]
        assert len(sections) >= len(TEMPLATE)


@pytest.mark.parametrize("page", sorted(OPERATIONS.glob("*.md")), ids=lambda page: page.name)
def test_every_output_that_operations_quote_is_in_the_code(page: Path) -> None:
    for each in blocks(page):
        for command, shown in each.steps() if each.kind == "console" else ():
            for phrase in (phrase for line in shown for phrase in phrases(line)):
                assert pieces(phrase) <= 2, f"{page.name}: {command}: {phrase!r} is not in the code"


def phrases(line: str) -> list[str]:
    """Give the fixed words of a line: what stands between names, numbers and places."""
    for pattern in NOT_OURS:
        line = re.sub(pattern, "|", line)
    parts = (part.strip(" .,;:|()#") for part in re.split(r"\||[.,;:] |[.,;:()]$|: | \(|\)", line))
    return [part for part in parts if " " in part]


def pieces(phrase: str) -> int:
    """Count the texts of the code that a phrase is put together from; many, where one of its words is in none."""
    words = phrase.split()
    for length in range(len(words), 0, -1):
        if " ".join(words[:length]) in said_by_the_code():
            return 1 + (pieces(" ".join(words[length:])) if words[length:] else 0)
    return 100


@cache
def said_by_the_code() -> str:
    """Give all texts of the code, one a line; what stands between two values is a text of its own."""
    texts = []
    for path in (ROOT / "pipelines").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\n".join(texts)


def test_every_block_of_the_readme_is_run_or_loaded() -> None:
    assert sorted((each.section, each.kind) for each in blocks()) == sorted(COVERED)


def test_what_the_readme_configures_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text(block("Your own logs, in five minutes", "yaml").text)
    assert list(load(conf).gold) == ["error_log", "by_thread"]
    (command,) = block("Your own Kafka", "sh").commands()
    key, _, value = shlex.split(command)[1].partition("=")
    monkeypatch.setenv(key, value)
    options = load(shipped_conf() / "local.yaml").source.kafka
    assert options["sasl.jaas.config"].endswith('username="u" password="p";')


def test_the_job_that_the_readme_runs_is_in_the_bundle() -> None:
    deploy, run = (shlex.split(command) for command in block("On Databricks", "sh").commands())
    assert deploy[:3] == ["databricks", "bundle", "deploy"]
    jobs = yaml.safe_load((ROOT / f"conf/bundle/{run[3]}.job.yml").read_text())["resources"]["jobs"]
    assert run[3] in jobs


def test_a_block_that_no_test_knows_is_told(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Head\n\n```sh\na\nb 'c\nd'\n```\n\n## Next\n\n```console\n$ x\ny\n…\n$ z\n```\n")
    first, second = blocks(page)
    assert first == Block("Head", "sh", "a\nb 'c\nd'\n")
    assert first.commands() == ["a", "b 'c\nd'"]
    assert list(second.steps()) == [("x", ["y", "…"]), ("z", [])]
