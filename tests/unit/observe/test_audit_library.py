"""Great Expectations is loaded in each kind of program."""

import subprocess
import sys

PROGRAM = """
from oncelake.observe.audit.audit import library
print(library().__name__)
"""


def test_a_program_without_a_file_loads_the_library() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "great_expectations\n"), done.stderr
