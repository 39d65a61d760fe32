"""The bundle is valid for the Databricks CLI and names only what exists; a broken bundle is detected."""

import json
import re
import shutil
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from oncelake.engine.settings import Schemas
from tests.support.bundle import cli_schema
from tests.support.bundle.breakages import BREAKAGES, MAIN, TARGETS, Breakage
from tests.support.bundle.check import problems_of
from tests.support.bundle.command_line import on_disk, parsed, settings_of
from tests.support.bundle.dashboard import content, queries
from tests.support.bundle.files import BundleError, read_all
from tests.support.bundle.given import GIVEN
from tests.support.bundle.names import told, with_parameters
from tests.support.bundle.resolve import Bundle, resolve
from tests.support.places import ROOT

GUIDE = (ROOT / "docs/databricks.md").read_text(encoding="utf-8")
# the Python of the runtimes
PYTHON = {"python_version": "3.12", "python_full_version": "3.12.3"}
# what a runtime has in versions that fit, and other parts of it need
OF_THE_RUNTIME = {
    "certifi",
    "charset-normalizer",
    "idna",
    "numpy",
    "packaging",
    "pandas",
    "python-dateutil",
    "requests",
    "scipy",
    "urllib3",
}
with_schema = pytest.mark.skipif(
    not cli_schema.PLACE.is_file(), reason=f"the Databricks CLI's schema is not there: {cli_schema.PLACE}"
)


def guide_values() -> dict[str, Any]:
    """Return prod's variables as the guide's example sets them."""
    (text,) = re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL)
    values: dict[str, Any] = json.loads(text)
    return values


def of(target: str, root: Path = ROOT, **given: Any) -> Bundle:
    return resolve(root, target, {**GIVEN[target], **given})


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_deploys_what_exists_and_what_oncelake_needs(target: str) -> None:
    assert problems_of(of(target)) == []


@with_schema
@pytest.mark.parametrize("target", TARGETS)
def test_a_target_is_valid_by_the_schema_of_the_cli(target: str) -> None:
    assert list(cli_schema.problems_of(ROOT, of(target).config)) == []


def test_the_guides_example_for_prod_is_accepted() -> None:
    bundle = resolve(ROOT, "prod", guide_values())
    assert problems_of(bundle) == []
    (cluster,) = bundle.jobs["continuous"]["job_clusters"]
    assert cluster["new_cluster"]["spark_env_vars"] == {
        "ONCELAKE_SERVING__URL": "{{secrets/oncelake/serving_url}}",
        "ONCELAKE_SOURCE__KAFKA": "{{secrets/oncelake/kafka}}",
    }
    for job in bundle.jobs.values():
        for notified in (job["email_notifications"], job["webhook_notifications"]):
            assert all(notified.values())


def test_the_settings_of_the_guides_example_reach_the_program() -> None:
    bundle = resolve(ROOT, "prod", guide_values())
    (task,) = bundle.jobs["continuous"]["tasks"]
    (cluster,) = bundle.jobs["continuous"]["job_clusters"]
    task = with_parameters(task, bundle.jobs["continuous"])
    flags = [on_disk(each, bundle.file_path, ROOT) for each in task["python_wheel_task"]["parameters"]]
    told = settings_of(parsed(flags)[1], cluster["new_cluster"]["spark_env_vars"])
    source = told.by_name["access_log"]
    assert (source.kind, source.bootstrap_servers) == ("kafka", "broker1:9093,broker2:9093")
    assert source.kafka == {"client.id": "x"}, "by the environment, beside what the flags say of the source"
    assert told.serving.tables == ("error_log", "log_volume")
    assert told.serving.url is not None


@with_schema
def test_the_guides_example_for_prod_is_valid_by_the_schema_of_the_cli() -> None:
    assert list(cli_schema.problems_of(ROOT, resolve(ROOT, "prod", guide_values()).config)) == []


def test_the_guide_names_every_variable_and_no_other() -> None:
    declared = read_all(ROOT)[ROOT / "databricks.yml"]["variables"]
    section = GUIDE.partition("\n## Variables\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", section, re.MULTILINE)
    assert [name for name, _ in rows] == list(declared)
    assert {name for name, default in rows if default == "none"} == {
        name for name, each in declared.items() if "default" not in each
    }


def test_every_oncelake_command_of_the_guide_exists() -> None:
    lines = re.findall(r"^oncelake (.*)$", GUIDE, re.MULTILINE)
    assert [parsed(line.split())[0] for line in lines] == ["status"]


def test_every_variable_is_used() -> None:
    declared = read_all(ROOT)[ROOT / "databricks.yml"]["variables"]
    assert resolve(ROOT, "prod", guide_values()).used == set(declared)


def test_all_tasks_get_the_same_settings() -> None:
    jobs = of("prod").jobs.values()
    assert len({tuple(told(with_parameters(task, job))) for job in jobs for task in job["tasks"]}) == 1


def test_the_jobs_run_what_they_are_named_for() -> None:
    lines = {
        (name, task["task_key"]): parsed(task["python_wheel_task"]["parameters"])
        for name, job in of("prod").jobs.items()
        for task in job["tasks"]
        if "python_wheel_task" in task
    }
    assert {key: command for key, (command, _) in lines.items()} == {
        ("continuous", "run"): "run",
        ("drain", "run"): "run",
        ("audit", "prove"): "prove",
        ("audit", "validate"): "validate",
        ("audit", "maintain"): "maintain",
    }
    assert not lines["continuous", "run"][1]["once"]
    assert lines["drain", "run"][1]["once"]


def test_development_has_its_own_names_and_starts_nothing_by_itself() -> None:
    bundle = of("dev")
    assert {schema["name"] for schema in bundle.config["resources"]["schemas"].values()} == {
        "dev_ada_bronze",
        "dev_ada_silver",
        "dev_ada_gold",
        "dev_ada_quality",
    }
    assert {job["name"] for job in bundle.jobs.values()} == {
        "[dev ada] oncelake continuous",
        "[dev ada] oncelake drain",
        "[dev ada] oncelake audit",
        "[dev ada] oncelake notebooks",
    }
    assert "dashboards" not in bundle.config["resources"], "dev needs no SQL warehouse"
    assert bundle.config["presets"]["artifacts_dynamic_version"] is True
    assert all("run_as" not in job for job in bundle.jobs.values())


def test_production_runs_as_the_service_principal_and_keeps_its_tables() -> None:
    bundle = of("prod")
    principal = GIVEN["prod"]["service_principal"]
    assert all(job["run_as"] == {"service_principal_name": principal} for job in bundle.jobs.values())
    assert bundle.file_path == f"/Workspace/Users/{principal}/.bundle/oncelake/prod/files"
    resources = bundle.config["resources"]
    for each in (*resources["schemas"].values(), *resources["volumes"].values()):
        assert each["lifecycle"] == {"prevent_destroy": True}
        assert principal in {grant["principal"] for grant in each["grants"]}
    assert all(job["tags"] == {"project": "oncelake", "environment": "prod"} for job in bundle.jobs.values())


def test_each_schema_of_a_lake_is_a_schema_of_the_bundle() -> None:
    assert set(of("dev").config["resources"]["schemas"]) == set(Schemas.model_fields)


def test_the_cluster_gets_the_versions_that_the_tests_ran_with() -> None:
    pinned = set(pins(ROOT / "conf/bundle/requirements.txt"))
    assert pinned == {pin for pin in pins(ROOT / "constraints.txt") if name_of(pin) in needed() - OF_THE_RUNTIME}
    assert {name_of(pin) for pin in pinned} | OF_THE_RUNTIME == needed()


def pins(file: Path) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


def name_of(pin: str) -> str:
    return canonicalize_name(pin.partition("==")[0])


def needed() -> set[str]:
    """Return the names of all packages that the wheel needs on the runtimes' Python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting: list[tuple[Requirement, tuple[str, ...]]] = [
        (Requirement(text), ("",)) for text in project["dependencies"]
    ]
    found = set[tuple[str, tuple[str, ...]]]()
    while waiting:
        requirement, extras = waiting.pop()
        marker = requirement.marker
        if marker is not None and not any(marker.evaluate({**PYTHON, "extra": extra}) for extra in extras):
            continue
        one = (canonicalize_name(requirement.name), tuple(sorted(requirement.extras)))
        if one not in found:
            found.add(one)
            waiting += [(Requirement(text), ("", *requirement.extras)) for text in requires(one[0]) or ()]
    return {name for name, _ in found}


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_can_name_its_workspace(copy: Path, target: str) -> None:
    main = copy / MAIN
    text, changed = re.subn(r"# (workspace: \{host|host): ", r"\1: ", main.read_text(encoding="utf-8"))
    assert changed == 2
    main.write_text(text.replace("<your workspace>", "example.cloud.databricks.com"), encoding="utf-8")
    bundle = of(target, copy)
    assert bundle.config["workspace"]["host"] == "https://example.cloud.databricks.com"
    assert problems_of(bundle) == []


def test_the_bundle_has_an_id() -> None:
    assert str(UUID(of("dev").config["bundle"]["uuid"])) == of("prod").config["bundle"]["uuid"]


def test_the_workflow_tests_with_the_oldest_cli_that_the_bundle_accepts() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/bundle.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["bundle"]["steps"]
    (cli,) = {step["uses"] for step in steps if step.get("uses", "").startswith("databricks/setup-cli@")}
    assert of("dev").config["bundle"]["databricks_cli_version"] == f">= {cli.partition('@v')[2]}"
    assert any(step.get("run", "").endswith("pytest tests/bundle") for step in steps)


def test_the_examples_for_prod_name_the_target() -> None:
    prod = GUIDE.partition("\n## Then, in prod\n")[2]
    examples = re.findall(r"^databricks bundle .*$", prod, re.MULTILINE)
    assert len(examples) >= 5
    assert [line for line in examples if " -t prod" not in line] == []


def test_the_drain_job_writes_in_place_of_the_continuous_one() -> None:
    assert problems_of(of("prod", continuous_status="PAUSED", drain_status="UNPAUSED")) == []
    (problem,) = problems_of(of("prod", drain_status="UNPAUSED"))
    assert problem == "one job writes the lake, not 2 (continuous, drain)"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Return a copy of the bundle that a test can break."""
    for name in ("conf", "notebooks"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in (MAIN, "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_the_last_line_of_its_file_adds_the_dashboard_to_dev(copy: Path) -> None:
    path = copy / "conf/bundle/oncelake.dashboard.yml"
    path.write_text(path.read_text(encoding="utf-8").replace("  # dev: *", "  dev: *"), encoding="utf-8")
    bundle = of("dev", copy, warehouse_id="0123456789abcdef")
    (dashboard,) = bundle.config["resources"]["dashboards"].values()
    assert (dashboard["display_name"], dashboard["warehouse_id"]) == ("[dev ada] oncelake", "0123456789abcdef")
    assert "`dev_ada_silver`.quarantine" in queries(content(bundle, dashboard))["reasons"]
    assert problems_of(bundle) == []


def test_prod_works_without_the_dashboard_and_a_warehouse(copy: Path) -> None:
    (copy / "conf/bundle/oncelake.dashboard.yml").unlink()
    main = copy / MAIN
    text, declared = re.subn(r"  warehouse_id:\n    description: .*\n", "", main.read_text(encoding="utf-8"))
    text, given = re.subn(r"      warehouse_id: none .*\n", "", text)
    assert (declared, given) == (1, 1)
    main.write_text(text, encoding="utf-8")
    for target in TARGETS:
        values = {name: value for name, value in GIVEN[target].items() if name != "warehouse_id"}
        assert problems_of(resolve(copy, target, values)) == []


@pytest.mark.parametrize("target", TARGETS)
def test_a_copy_of_the_bundle_is_valid(copy: Path, target: str) -> None:
    assert problems_of(of(target, copy)) == []


@pytest.mark.parametrize(
    ("breakage", "target"),
    [
        pytest.param(breakage, target, id=f"{name}, {target}", marks=[with_schema] if breakage.by_schema else [])
        for name, breakage in BREAKAGES.items()
        for target in breakage.targets
    ],
)
def test_a_broken_bundle_is_detected(copy: Path, breakage: Breakage, target: str) -> None:
    path = copy / breakage.file
    text = path.read_text(encoding="utf-8")
    assert breakage.old in text
    path.write_text(text.replace(breakage.old, breakage.new), encoding="utf-8")
    found = found_in(copy, target, by_schema=breakage.by_schema)
    assert any(breakage.said in problem for problem in found)
    assert not any("\n" in problem for problem in found)


def found_in(root: Path, target: str, *, by_schema: bool) -> list[str]:
    try:
        bundle = of(target, root)
        found = list(cli_schema.problems_of(root, bundle.config)) if by_schema else problems_of(bundle)
    except BundleError as error:
        found = [str(error)]
    return found
