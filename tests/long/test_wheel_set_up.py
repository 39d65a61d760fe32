"""Set-up from the wheel, in an environment of its own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from oncelake.common.spark import jars
from tests.support.wheel import python, wheel, with_spark

pytestmark = [pytest.mark.chain, pytest.mark.long]
__all__ = ["python", "wheel", "with_spark"]  # fixtures


def test_set_up_from_the_wheel_compiles_the_class_and_makes_archives(with_spark: str, tmp_path: Path) -> None:
    cache = tmp_path / "oncelake"
    cache.mkdir()
    for path in jars.cache_home().glob("*.classpath"):  # the libraries are installed already
        shutil.copy(path, cache)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [with_spark, "-m", "oncelake.set_up"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert {path.suffix for path in cache.iterdir()} == {".classpath", ".jar", ".jsa", ".home"}
