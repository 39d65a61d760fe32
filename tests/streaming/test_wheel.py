"""The wheel, in an environment of its own beside a Spark that is already there: the chain runs from it."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import delta as delta_package
import py4j
import pyspark
import pytest

from oncelake.common.spark import jars
from tests.support.given import LINES, Given, delta
from tests.support.house import House

pytestmark = [pytest.mark.chain, pytest.mark.xdist_group("wheel")]

ROOT = Path(__file__).parents[2]
# What the runtime brings: Databricks has these, the wheel's base has none of them.
RUNTIME = (pyspark, py4j, delta_package)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the tree as the bundle builds it."""
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
    """The interpreter of an environment that has the wheel and what it asks for, and nothing else."""
    home = tmp_path_factory.mktemp("env")
    venv.create(home, symlinks=True)
    python = str(home / "bin/python")
    run("uv", "pip", "install", "--quiet", "--python", python, "-c", str(ROOT / "constraints.txt"), str(wheel))
    return python


@pytest.fixture(scope="module")
def with_spark(python: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same interpreter, beside a Spark that the runtime brings."""
    beside = tmp_path_factory.mktemp("runtime")
    for package in RUNTIME:
        (beside / package.__name__).symlink_to(Path(str(package.__file__)).parent)
    (packages,) = Path(python).parents[1].glob("lib/python*/site-packages")
    (packages / "runtime.pth").write_text(f"{beside}\n")
    return python


def run(tool: str, *arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", tool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_wheel_has_what_it_reads_and_nothing_of_the_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    page = [f"report/{name}" for name in ("page.html.j2", "macros.html.j2", "page.css", "page.js")]
    for needed in ("_conf/formats/log4j.yaml", "_conf/prod.yaml", "log4j2.properties", "DirectFileSystem.java", *page):
        assert f"oncelake/{needed}" in names
    assert not [name for name in names if "test" in name and "crash_test" not in name]
    tops = {name.split("/")[0] for name in names}
    assert tops == {"oncelake", next(top for top in tops if top.endswith(".dist-info"))}


def test_without_a_spark_one_line_says_what_to_install(python: str) -> None:
    done = subprocess.run(
        [Path(python).with_name("oncelake"), "--version"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("oncelake: this Python has no pyspark: install oncelake[local]")
    assert done.stderr.count("\n") == 1


def test_the_chain_runs_from_the_wheel_in_a_session_that_it_did_not_make(with_spark: str, house: House) -> None:
    house.write("a.log", *LINES)
    given = Given(delta(), databricks="17.3", python=with_spark)
    given.call(house, "run", "--once")
    house.must_be(LINES)
    said, _ = given.call(house, "prove")
    assert "holds" in said


def test_set_up_from_the_wheel_compiles_its_class_and_archives_javas(with_spark: str, tmp_path: Path) -> None:
    cache = tmp_path / "oncelake"
    cache.mkdir()
    for path in jars.cache_home().glob("*.classpath"):  # the libraries are there already
        shutil.copy(path, cache)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [with_spark, "-m", "oncelake.set_up"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert {path.suffix for path in cache.iterdir()} == {".classpath", ".jar", ".jsa", ".home"}
