"""Great Expectations is loaded in each kind of program."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from oncelake.observe.audit.audit import library
print(library().__name__)
"""


@pytest.mark.parametrize("has_grpc", [False, True], ids=["no package of Spark Connect", "one of them"])
def test_a_program_without_a_file_loads_the_library(tmp_path: Path, *, has_grpc: bool) -> None:
    if has_grpc:
        (tmp_path / "grpc.py").write_text("__version__ = '1.99.0'\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command, environment = [sys.executable, "-c", PROGRAM], {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "great_expectations\n"), done.stderr
