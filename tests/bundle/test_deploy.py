"""The Databricks CLI itself validates, deploys and destroys the bundle, in a stand-in for a workspace."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.support.bundle.given import GIVEN
from tests.support.bundle.workspace import Workspace, workspace
from tests.support.catalog_house import LAYERS
from tests.support.places import ROOT

CLI = shutil.which("databricks") or ""
if not CLI:
    pytest.skip("the Databricks CLI (databricks) is not on the path", allow_module_level=True)

PRINCIPAL = GIVEN["prod"]["service_principal"]
NEEDED: Mapping[str, Mapping[str, Any]] = {
    **GIVEN,
    "prod": {
        **GIVEN["prod"],
        "catalog": "logs",
        "source": "{kind: kafka, bootstrap_servers: 'broker1:9093,broker2:9093', topic: alog}",
        "alert_emails": ["log-operators@example.com"],
    },
}


@dataclass(frozen=True)
class Deployment:
    """A copy of the repository and the workspace that it is deployed to.

    Attributes:
        root: the copy.
        served: the workspace.
        target: dev or prod.
    """

    root: Path
    served: Workspace
    target: str

    def call(self, *arguments: str, expect: int = 0, **environment: str) -> str:
        """Run a command of `databricks bundle` for the target, and return what it printed."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DATABRICKS", "BUNDLE"))}
        own = {
            "DATABRICKS_HOST": self.served.host,
            "DATABRICKS_TOKEN": "none",
            "DATABRICKS_CLI_DO_NOT_TRACK": "1",
            "HOME": str(self.root.parent),
            # uv is beside the interpreter that runs the tests
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        done = subprocess.run(
            [CLI, "bundle", *arguments, "-t", self.target],
            cwd=self.root,
            env={**inherited, **own, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == expect, done.stdout
        assert self.served.unknown == []
        return done.stdout

    def give(self, values: Mapping[str, Any]) -> None:
        """Write values of variables where they last."""
        path = self.root / f".databricks/bundle/{self.target}/variable-overrides.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))

    @property
    def place(self) -> str:
        """Return the directory of the deployment in the workspace."""
        return f"/Workspace/Users/{self.served.user}/.bundle/oncelake/{self.target}"

    @property
    def uploaded(self) -> set[str]:
        """Return the paths of the bundle's files, as in the repository."""
        files = f"{self.place}/files/"
        return {path.removeprefix(files) for path in self.served.files if path.startswith(files)}

    @property
    def wheels(self) -> dict[str, bytes]:
        """Return the contents of the uploaded wheels by path."""
        return {path: content for path, content in self.served.files.items() if path.endswith(".whl")}

    def jobs(self) -> dict[str, Any]:
        """Return the settings of the jobs by name."""
        return {settings["name"]: settings for settings in self.served.jobs.values()}


def copy_to(root: Path) -> None:
    """Copy what a checkout has, with files that must not reach the workspace."""
    root.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("conf", "notebooks", "pipelines"):
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    for name in ("databricks.yml", "pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, root)
    (root / "tests").mkdir()
    (root / "tests/test_it.py").write_text("")
    for name in (".env", "conf/.env", "notebooks/.env.local"):
        (root / name).write_text("PASSWORD=hunter2\n")
    (root / "dist").mkdir()
    (root / "dist/oncelake-99.0-py3-none-any.whl").write_bytes(b"of a newer checkout")


def deployment(root: Path, target: str) -> Iterator[Deployment]:
    copy_to(root / "copy")
    with workspace({"dev": "ada@example.com", "prod": PRINCIPAL}[target]) as served:
        made = Deployment(root / "copy", served, target)
        made.give(NEEDED[target])
        yield made


@pytest.fixture
def fresh(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    yield from deployment(tmp_path, getattr(request, "param", "dev"))


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Deploy dev once; the last test destroys it."""
    for made in deployment(tmp_path_factory.mktemp("dev"), "dev"):
        made.call("deploy")
        yield made


@pytest.fixture(scope="module")
def prod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Deploy prod once."""
    for made in deployment(tmp_path_factory.mktemp("prod"), "prod"):
        made.call("deploy")
        yield made


@pytest.mark.parametrize("fresh", ["dev", "prod"], indirect=True)
def test_a_target_is_valid_without_a_warning(fresh: Deployment) -> None:
    assert "Validation OK!" in fresh.call("validate", "--strict")


def test_each_user_has_jobs_schemas_and_a_volume_of_dev(dev: Deployment) -> None:
    assert set(dev.served.schemas) == {f"main.dev_ada_{layer}" for layer in LAYERS}
    assert set(dev.served.volumes) == {"main.dev_ada_bronze.checkpoints"}
    jobs = dev.jobs()
    assert set(jobs) == {f"[dev ada] oncelake {name}" for name in ("audit", "continuous", "drain", "notebooks")}
    triggers = [job.get("continuous") or job["schedule"] for job in jobs.values()]
    assert {trigger["pause_status"] for trigger in triggers} == {"PAUSED"}
    assert dev.served.dashboards == {}


def test_prod_has_its_grants_its_dashboard_and_its_readers(prod: Deployment) -> None:
    served = prod.served
    assert set(served.schemas) == {f"logs.{layer}" for layer in LAYERS}
    assert served.grants["schema", "logs.gold"]["log-readers"] == {"USE_SCHEMA", "SELECT"}
    for layer in LAYERS:
        assert "MODIFY" in served.grants["schema", f"logs.{layer}"][PRINCIPAL]
    (dashboard,) = served.dashboards.values()
    assert "`gold`.error_log" in dashboard["serialized_dashboard"]
    for job, settings in served.jobs.items():
        assert settings["run_as"] == {"service_principal_name": PRINCIPAL}
        levels = {entry.get("group_name"): entry["permission_level"] for entry in served.permissions["jobs", str(job)]}
        assert levels["log-readers"] == "CAN_VIEW"
        assert settings["queue"] == {"enabled": False}


@pytest.mark.parametrize("target", ["dev", "prod"])
def test_only_what_the_jobs_read_is_uploaded(request: pytest.FixtureRequest, target: str) -> None:
    made: Deployment = request.getfixturevalue(target)
    assert {path.partition("/")[0] for path in made.uploaded} == {"conf", "notebooks"}
    assert not [path for path in made.uploaded if ".env" in path or "monitoring" in path]
    assert {f"conf/{target}.yaml", "conf/formats/default.yaml", "conf/bundle/requirements.txt"} <= made.uploaded
    assert len(made.uploaded) < 50


@pytest.mark.parametrize("target", ["dev", "prod"])
def test_the_wheel_is_the_one_just_built_and_has_what_it_needs(request: pytest.FixtureRequest, target: str) -> None:
    made: Deployment = request.getfixturevalue(target)
    (built,) = (made.root / "dist").glob("*.whl")
    ((path, content),) = made.wheels.items()
    own, uploaded = contents(built.read_bytes()), contents(content)
    assert own == uploaded
    source = made.root / "pipelines/oncelake"
    assert {f"oncelake/{each.relative_to(source)}" for each in source.rglob("*") if each.is_file()} <= set(own)
    assert {"oncelake/_conf/local.yaml", "oncelake/_conf/formats/default.yaml"} <= set(own)
    assert (Path(path).name == built.name) is (target == "prod"), "a version of its own each time in dev"


def contents(wheel: bytes) -> dict[str, bytes]:
    """Return the files of a wheel, without its metadata, which has the version."""
    with ZipFile(BytesIO(wheel)) as files:
        return {name: files.read(name) for name in files.namelist() if ".dist-info/" not in name}


@pytest.mark.parametrize("target", ["dev", "prod"])
def test_each_file_that_a_task_names_is_in_the_workspace(request: pytest.FixtureRequest, target: str) -> None:
    made: Deployment = request.getfixturevalue(target)
    tasks = [task for job in made.jobs().values() for task in job["tasks"]]
    assert len(tasks) == 7
    for task in tasks:
        libraries = {kind: path for library in task["libraries"] for kind, path in library.items()}
        assert set(libraries) == {"requirements", "whl"}
        notebook = task.get("notebook_task", {}).get("notebook_path")
        named = [*libraries.values(), *([f"{notebook}.ipynb"] if notebook else [])]
        assert [path for path in named if path not in made.served.files] == []
    (conf,) = {each["default"] for job in made.jobs().values() for each in job["parameters"] if each["name"] == "conf"}
    assert conf in made.served.files


def test_a_second_deployment_of_prod_changes_nothing(prod: Deployment) -> None:
    changes, permissions, wheels = list(prod.served.changes), deepcopy(prod.served.permissions), set(prod.wheels)
    assert "0 created, 0 changed, 0 deleted" in prod.call("deploy")
    assert prod.served.changes == changes
    assert prod.served.permissions == permissions
    assert set(prod.wheels) == wheels


def test_prod_is_not_destroyed(prod: Deployment) -> None:
    before = list(prod.served.changes)
    said = prod.call("destroy", "--auto-approve", expect=1)
    assert "prevent_destroy" in said
    assert prod.served.changes == before
    assert len(prod.served.schemas) == len(LAYERS)


def test_dev_is_destroyed_completely(dev: Deployment) -> None:
    dev.call("destroy", "--auto-approve")
    served = dev.served
    assert (served.jobs, served.schemas, served.volumes, served.dashboards) == ({}, {}, {}, {})
    assert [path for path in served.files if path.startswith(dev.place)] == []


SOURCE = "source={path: /logs, format: java}"


def test_a_value_on_the_command_line_ends_at_a_comma_and_with_the_command(fresh: Deployment) -> None:
    fresh.give({})
    assert "no value assigned to required variable catalog" in fresh.call("validate", expect=1)
    assert "Validation OK!" in fresh.call("validate", "--var", "catalog=main")
    assert "no value assigned to required variable catalog" in fresh.call("validate", expect=1)
    fresh.call("validate", "--var", "catalog=main", "--var", SOURCE, expect=1)
    resolved = json.loads(fresh.call("validate", "-o", "json", BUNDLE_VAR_catalog="main", BUNDLE_VAR_source=SOURCE[7:]))
    assert resolved["variables"]["source"]["value"] == SOURCE[7:]


@pytest.mark.parametrize("fresh", ["prod"], indirect=True)
def test_of_missing_variables_one_is_named(fresh: Deployment) -> None:
    fresh.give({"catalog": "logs"})
    assert fresh.call("validate", expect=1).count("no value assigned to required variable") == 1
