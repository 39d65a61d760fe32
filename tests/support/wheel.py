"""Provide the wheel, and environments with it, as fixtures that test modules import."""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

import delta as delta_package
import py4j
import pyspark
import pytest

from tests.support.places import ROOT

# packages of the runtime: Databricks has these, the wheel's base has none of them
RUNTIME = (pyspark, py4j, delta_package)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a copy of the tree, as the bundle does."""
    copy, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in ("pipelines", "conf"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, copy)
    run("uv", "build", "--quiet", "--wheel", "--out-dir", str(out), str(copy))
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the interpreter of an environment that has only the wheel and its dependencies."""
    home = tmp_path_factory.mktemp("env")
    venv.create(home, symlinks=True)
    python = str(home / "bin/python")
    run("uv", "pip", "install", "--quiet", "--python", python, "-c", str(ROOT / "constraints.txt"), str(wheel))
    return python


@pytest.fixture(scope="module")
def with_spark(python: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the same interpreter with the Spark that a runtime provides."""
    beside = tmp_path_factory.mktemp("runtime")
    for package in RUNTIME:
        (beside / package.__name__).symlink_to(Path(str(package.__file__)).parent)
    (packages,) = Path(python).parents[1].glob("lib/python*/site-packages")
    (packages / "runtime.pth").write_text(f"{beside}\n")
    return python


def run(tool: str, *arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", tool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
