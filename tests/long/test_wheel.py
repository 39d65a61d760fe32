"""A stranger installs the wheel, with the versions that pip finds, and starts in an empty directory."""

import os
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from oncelake.common.spark import jars
from tests.support.readme import FIRST, block
from tests.support.wheel import run, wheel

# it installs packages, and two processes prepare the machine at once
pytestmark = [pytest.mark.chain, pytest.mark.long, pytest.mark.timeout(1800)]
__all__ = ["wheel"]  # a fixture

LINES = "".join(f"2026-11-25 10:00:0{at % 10} {'ERROR' if at % 3 == 0 else 'INFO'} line {at}\n" for at in range(300))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment with the wheel and its extra, without our constraints."""
    home = tmp_path_factory.mktemp("stranger")
    venv.create(home, symlinks=True)
    run("uv", "pip", "install", "--quiet", "--python", str(home / "bin/python"), f"{wheel}[local]")
    return home / "bin/python"


def test_two_first_uses_in_an_empty_directory_prepare_the_machine_once(python: Path, tmp_path: Path) -> None:
    cache, here, oncelake = tmp_path / "cache/oncelake", tmp_path / "here", python.with_name("oncelake")
    cache.mkdir(parents=True)
    for path in jars.cache_home().glob("*.classpath"):  # the libraries are downloaded already
        shutil.copy(path, cache)
    here.mkdir()
    (here / "logging.py").write_text("raise ImportError('a module of the user, which is not ours')\n")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/app.log").write_text(LINES)
    given = ("PYTHONPATH", "ONCELAKE_CONF")
    environment = {
        **{key: value for key, value in os.environ.items() if key not in given},
        "XDG_CACHE_HOME": str(cache.parent),
        "ONCELAKE_SERVING__TABLES": "[]",
    }

    def start(*words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen([oncelake, *words], env=environment, cwd=here, stdout=pipe, stderr=pipe, text=True)

    def end(process: subprocess.Popen[str]) -> tuple[str, str]:
        said, errors = process.communicate(timeout=540)
        assert process.returncode == 0, said + errors
        return said, errors

    sets = ["--set", f"source.path={tmp_path / 'logs'}", "--set"]
    started = [start("run", "--once", *sets, f"lake.root={tmp_path / name}") for name in ("one", "two")]
    for process in started:
        said, errors = end(process)
        assert said.endswith("done: 4 batches committed\n")
        assert errors.splitlines()[0].startswith("oncelake: the first use prepares this machine, once:")
        assert errors.count("\n") == 1
    assert sorted({path.suffix for path in cache.iterdir()}) == [".classpath", ".home", ".jar", ".jsa", ".lock"]
    assert len([*cache.glob("*.jsa"), *cache.glob("*.jar")]) == 2
    said, errors = end(start("prove", *sets, f"lake.root={tmp_path / 'one'}"))
    assert "300 lines, every one exactly once" in said
    assert errors == ""
    said, errors = end(start("init", "lake", "--from", str(tmp_path / "logs")))
    assert said.splitlines()[0] == f"100.0% of the lines of {tmp_path}/logs/app.log parse as default"
    assert (here / "lake/conf/expectations/silver.access_log.json").is_file()
    assert str(python.with_name("oncelake")) in (here / "lake/oncelake.service").read_text()
    snippet = block(FIRST, "python").text.replace("/tmp/my-lake/data/lake", str(tmp_path / "one"))
    shown = subprocess.run([python, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")
