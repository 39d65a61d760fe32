"""The docs are true: the reference is generated from the settings, and what pages name, quote and link exists."""

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
import yaml

import oncelake
from oncelake.cli.app import app
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import CONF, load
from oncelake.engine.settings import ENV_PREFIX
from oncelake.exactly_once.state import CONSEQUENCE, State
from tests.docs import damages, error_index, python_reference, readers, reference, statements, wrong_sinks
from tests.docs.pages import (
    OPERATIONS,
    PAGES,
    commands_named,
    headings,
    links,
    named_tests,
    phrases,
    pieces,
    table_rows,
    text_of,
)
from tests.support.places import ROOT
from tests.support.readme import COVERED, OWN, README, STARTED, Block, block, blocks, must_print

# the sections of each page about a state that refuses a start, in this order
TEMPLATE = (
    "What happened",
    "How it comes about",
    "If it",
    "What to do",
    "What it costs",
    "When it is fixed",
    "Prevent it",
)


def test_the_reference_of_settings_is_the_generated_one() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "settings have changed: run make docs"


def test_the_reference_of_commands_is_the_generated_one() -> None:
    assert reference.COMMANDS.read_text(encoding="utf-8") == reference.commands(), "a help has changed: run make docs"


def test_the_reference_of_python_is_that_of_the_docstrings() -> None:
    page = python_reference.PAGE.read_text(encoding="utf-8")
    assert page == python_reference.page(), "a docstring has changed: run make docs"
    for name in {*oncelake.__all__} - {"Settings", "__version__"}:
        assert f"# {name}\n" in page


def test_the_table_of_readers_is_what_the_tests_try() -> None:
    assert readers.PAGE.read_text(encoding="utf-8") == readers.page(), "run make docs"


def test_the_table_of_wrong_sinks_is_what_the_tests_try() -> None:
    assert wrong_sinks.PAGE.read_text(encoding="utf-8") == wrong_sinks.page(), "run make docs"


def test_the_table_of_statements_is_what_the_tests_try() -> None:
    assert statements.PAGE.read_text(encoding="utf-8") == statements.page(), "run make docs"


def test_the_table_of_damages_is_what_the_tests_try() -> None:
    assert damages.PAGE.read_text(encoding="utf-8") == damages.page(), "run make docs"


def test_the_error_index_is_the_generated_one_and_knows_what_to_do() -> None:
    assert error_index.PAGE.read_text(encoding="utf-8") == error_index.page(), "errors have changed: run make docs"
    assert {class_.__name__ for class_ in error_index.classes()} == set(error_index.ADVICE)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("'one text'", "one text"),
        ("f'{self._path}: {count_of(lines, 1)} of {a.b[0]}'", "<path>: <lines> of <b>"),
        ("f'{x + 1} rows'", "<…> rows"),
        ("build(text)", None),
    ],
)
def test_a_message_names_its_values(code: str, said: str | None) -> None:
    assert error_index.template(ast.parse(code, mode="eval").body) == said


def test_every_linked_page_and_heading_exists() -> None:
    for page in PAGES:
        for target, heading in links(page):
            assert target.exists(), f"{page.name}: {target}"
            assert not heading or heading in headings(target), f"{page.name}: {target.name}#{heading}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, more = set(), [PAGES[0]]
    while more:
        page = more.pop()
        reached.add(page)
        more += [target for target, _ in links(page) if target.suffix == ".md" and target not in reached]
    assert set(PAGES) <= reached


def test_every_page_has_a_place_in_the_navigation_of_the_site() -> None:
    navigation = yaml.safe_load((ROOT / "docs/site/navigation.yaml").read_text())
    named = [(ROOT / "docs" / f"{name}.md").resolve() for names in navigation.values() for name in names]
    assert len(set(named)) == len(named)
    listed = {page for each in named if each.name == "README.md" for page in each.parent.glob("*.md")}
    assert {*named, *listed} >= {page for page in PAGES if page.parent != ROOT}
    assert all(page.exists() for page in named)


def test_every_test_that_a_page_names_exists() -> None:
    tests = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    named = [(page.name, *each) for page in PAGES for each in named_tests(text_of(page))]
    assert named
    named += [
        ("the blocks of the README and its next page", *each)
        for test in COVERED.values()
        for each in named_tests(f"`{test}`")
    ]
    for page, file, name in named:
        found = [text for path, text in tests.items() if path.match(file)]
        assert found, f"{page}: {file}"
        assert not name or any(f"def {name}(" in text for text in found), f"{page}: {file}::{name}"


def test_every_case_of_a_line_has_a_test_and_stands_there_once() -> None:
    rows = table_rows(text_of(ROOT / "docs/what-lines-mean.md"))
    assert len(rows) > 70
    for row in rows:
        assert len(row) == 3, row
        assert all(cell.strip() for cell in row), row
        assert all(name for _, name in named_tests(row[-1])), row
        assert named_tests(row[-1]), row
    assert len({(row[0], row[1]) for row in rows}) == len(rows)


def test_every_module_that_a_page_names_exists() -> None:
    named = [(page.name, path) for page in PAGES for path in re.findall(r"`(pipelines/[\w/.]+)`", text_of(page))]
    assert named
    for page, path in named:
        assert (ROOT / path).exists(), f"{page}: {path}"


@pytest.mark.parametrize("page", sorted({*PAGES} - {reference.COMMANDS}), ids=lambda page: page.name)
def test_every_command_and_flag_that_a_page_names_exists(page: Path) -> None:
    for command in commands_named(text_of(page)):
        words = shlex.split(command.replace("…", ""), comments=True)
        at: Any = typer.main.get_command(app)
        while hasattr(at, "commands") and words and not words[0].startswith("-"):
            assert words[0] in at.commands, f"oncelake {command}: there is no {words[0]}"
            at, words = at.commands[words[0]], words[1:]
        flags = {flag for param in at.params for flag in param.opts}
        unknown = [word for word in words if word.startswith("-") and word.partition("=")[0] not in flags]
        assert not unknown, f"oncelake {command}: there is no {unknown[0]}"


def test_every_make_target_that_a_page_names_exists() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for page in PAGES:
        for target in re.findall(r"(?:`|^|\$ )make ([a-z][\w-]*)", text_of(page), re.MULTILINE):
            assert target in targets, f"{page.name}: make {target}"


@pytest.mark.parametrize("state", State)
def test_every_state_has_its_page(state: State) -> None:
    text = text_of(OPERATIONS / state.page)
    assert text.startswith(f"# {state.value}\n")
    assert f"({state.page})" in text_of(OPERATIONS / "README.md")
    console = next(each for each in blocks(OPERATIONS / state.page) if each.kind == "console")
    (command, shown), *_ = console.steps()
    assert command == "oncelake doctor"
    assert any(f": {state.value}: " in line for line in shown)
    if state in CONSEQUENCE:
        assert any(f"If it started now, {CONSEQUENCE[state]}. " in line for line in shown)
        sections: list[str] = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert len(sections) == len(TEMPLATE)
        assert all(section.startswith(words) for section, words in zip(sections, TEMPLATE, strict=True))


@pytest.mark.parametrize("page", sorted(OPERATIONS.glob("*.md")), ids=lambda page: page.name)
def test_every_output_quoted_in_operations_is_in_the_code(page: Path) -> None:
    for each in blocks(page):
        for command, shown in each.steps() if each.kind == "console" else ():
            for phrase in (phrase for line in shown for phrase in phrases(line)):
                assert pieces(phrase) <= 2, f"{command}: {phrase!r} is not in the code"


def test_every_block_of_the_readme_and_its_next_page_is_run_or_loaded() -> None:
    assert sorted((each.section, each.kind) for page in (README, STARTED) for each in blocks(page)) == sorted(COVERED)


def test_the_readme_is_short_and_shows_a_picture() -> None:
    assert len(text_of(README).split()) <= 800
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", text_of(README))
    assert [ElementTree.parse(ROOT / picture).getroot().tag for picture in pictures] == [
        "{http://www.w3.org/2000/svg}svg"
    ]


def test_the_installation_names_what_the_package_has() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.findall(r"\[(\w+)\]'", text_of(README) + text_of(STARTED))
    assert named
    assert set(named) <= declared["optional-dependencies"].keys()
    (version,) = set(re.findall(r"oncelake-([\d.]+)-py3", "".join(map(text_of, PAGES))))
    assert version == declared["version"]
    for page in (README, STARTED):
        supported = set(re.findall(r"3\.1\d", text_of(page)))
        assert supported <= {each.rpartition(" ")[2] for each in declared["classifiers"]}


def programs(text: str) -> Iterator[list[str]]:
    """Yield the words of each command of oncelake in the units, tables, DAGs and manifests of a page."""
    text = text.replace("{ONCELAKE}", "oncelake").replace("{CONF}", "")
    for words in re.findall(r"(?:^|[\s/\"])oncelake ((?:[a-z]+)(?: +-[^\s`\"]+(?: /[^\s`\"]+)?)+)", text, re.MULTILINE):
        yield shlex.split(words)
    for listed in re.findall(r"\[\"oncelake\", (.+?)\]", text):
        yield shlex.split(listed.replace(",", " "))


@pytest.mark.parametrize(("name", "least"), [("systemd", 4), ("airflow", 2), ("kubernetes", 3)])
def test_every_option_in_a_unit_a_dag_or_a_manifest_exists(name: str, least: int) -> None:
    found = list(programs(text_of(OPERATIONS / f"{name}.md")))
    assert len(found) >= least
    group: Any = typer.main.get_command(app)
    for command, *words in found:
        flags = {flag for param in group.commands[command].params for flag in param.opts}
        assert {word for word in words if word.startswith("-")} <= flags, (command, words)


def test_the_settings_in_a_manifest_exist() -> None:
    (manifest,) = (each.text for each in blocks(OPERATIONS / "kubernetes.md") if each.kind == "yaml")
    container = yaml.safe_load(manifest)["spec"]["template"]["spec"]["containers"][0]
    values = {each["name"]: each["value"] for each in container["env"]}
    assert values.pop(CONF).endswith("/local.yaml")
    sets = [f"{key.removeprefix(ENV_PREFIX).lower().replace('__', '.')}={value}" for key, value in values.items()]
    assert len(sets) == 2
    load(shipped_conf() / "local.yaml", sets)


def test_the_settings_of_the_page_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text(block(OWN, "yaml").text)
    assert list(load(conf).gold) == ["error_log", "by_thread"]
    (command,) = block("Your own Kafka", "sh").commands()
    key, _, value = shlex.split(command)[1].partition("=")
    monkeypatch.setenv(key, value)
    options = load(shipped_conf() / "local.yaml").by_name["access_log"].kafka
    assert options["sasl.jaas.config"].endswith('username="u" password="p";')


def test_the_settings_of_kafka_with_a_password_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = [each for each in blocks(ROOT / "docs/how-to.md") if each.section == "Read Kafka with SASL and TLS"]
    settings, secret = section
    conf = tmp_path / "conf.yaml"
    conf.write_text(settings.text + "lake: {root: /tmp/lake}\ngold: {}\n")
    key, _, value = shlex.split(secret.text)[1].partition("=")
    monkeypatch.setenv(key, value)
    options = load(conf).by_name["access_log"].kafka
    assert options["sasl.jaas.config"].endswith('username="u" password="p";')
    assert options["security.protocol"] == "SASL_SSL", "the file's keys stay beside those of the environment"


def test_the_job_that_the_page_runs_is_in_the_bundle() -> None:
    deploy, run = (shlex.split(command) for command in block("On Databricks", "sh").commands())
    assert deploy[:3] == ["databricks", "bundle", "deploy"]
    jobs = yaml.safe_load((ROOT / f"conf/bundle/{run[3]}.job.yml").read_text())["resources"]["jobs"]
    assert run[3] in jobs


def test_blocks_are_split_into_commands_and_outputs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Head\n\n```sh\na # it's\nb 'c\nd'\n```\n\n## Next\n\n```console\n$ x\ny\n…\n$ z\n```\n")
    first, second = blocks(page)
    assert first == Block("Head", "sh", "a # it's\nb 'c\nd'\n")
    assert first.commands() == ["a # it's", "b 'c\nd'"]
    assert list(second.steps()) == [("x", ["y", "…"]), ("z", [])]


@pytest.mark.parametrize(
    ("shown", "said", "same"),
    [
        (["a 1.5 s", "b"], "a 22.0 s\nb\n", True),
        (["a", "b"], "a\nb\nc\n", False),
        (["a", "…"], "a\nb\nc\n", True),
        (["…", "c"], "a\nb\nc\n", True),
        (["a", "…", "d"], "a\nb\nc\n", False),
        (["silver: batch 0, 20,000 rows"], "silver: batch 0, 20,001 rows", False),
        (["gold.a: batch 0, backlog 0 rows", "gold.b: batch 0"], "gold.b: batch 0\ngold.a: batch 0", True),
        ([], "a", False),
    ],
)  # fmt: skip
def test_an_output_is_compared_with_the_printed_one(shown: list[str], said: str, same: bool) -> None:
    if same:
        must_print(shown, said)
    else:
        with pytest.raises(AssertionError, match="shown"):
            must_print(shown, said)
