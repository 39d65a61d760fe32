"""Build the environments of the compared programs that need other versions than this project.

Each is a directory below .bench. It is built on first use, and again when its requirements change.
"""

import subprocess
import sys
from pathlib import Path

from oncelake.common.spark import versions

PLACE = Path(".bench")
# The declarative program's Java libraries; this Delta is published for Spark 4.0, 4.1 and 4.2.
DELTA = (("io.delta", "delta-spark_4.2_2.13", versions.DELTA), ("io.delta", "delta-storage", versions.DELTA))
REQUIREMENTS = Path(__file__).parent / "programs"


class NotBuiltError(Exception):
    """Raised when an environment cannot be built; its message is one line."""


def python(program: str) -> str:
    """Return the path of the Python that a program needs; build its environment first if it is missing.

    Raises:
        NotBuiltError: the environment, or one of its packages, could not be installed.
    """
    wanted = REQUIREMENTS / f"{program}.txt"
    place = (PLACE / program).absolute()
    # written last, so that an interrupted build is started again
    built = place / "requirements.txt"
    path = str(place / "bin" / "python")
    if not built.exists() or built.read_text() != wanted.read_text():
        built.unlink(missing_ok=True)
        _run([sys.executable, "-m", "venv", "--clear", str(place)])
        _run([path, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(wanted)])
        built.write_text(wanted.read_text())
    return path


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise NotBuiltError(said[-1] if said else f"{command[-1]}: exit code {done.returncode}")
