"""Run the core of the tests on another line of Spark than the installed one.

Run: `python -m tests.support.sparks 4.1`. The PySpark of that line is installed below build/, once, and is imported in
place of the installed one; all other packages are the same.
"""

import os
import subprocess
import sys
from collections.abc import Mapping

from tests.support.places import ROOT

# The newest version of each line that delta-spark allows.
RELEASES: Mapping[str, str] = {"4.0": "4.0.5", "4.1": "4.1.4", "4.2": "4.2.0"}
# What depends on Spark: crashes, sources, both engines, the proof, served tables, a catalog, a lake of version 0.1.0.
CORE = (
    "tests/streaming/test_crash_matrix.py",
    "tests/streaming/test_catalog.py",
    "tests/streaming/test_given_session.py",
    "tests/streaming/test_source_files.py",
    "tests/streaming/test_source_tail.py",
    "tests/services/test_source_kafka.py",
    "tests/services/test_serving.py",
    "tests/frozen",
    "tests/spark/common",
    "tests/spark/exactly_once",
    "tests/spark/gold",
    "tests/spark/observe",
    "tests/spark/proof",
    "tests/spark/silver",
    "tests/streaming/test_foreach_batch.py",
)


def environment(line: str) -> dict[str, str]:
    """Return the environment in which Python imports the PySpark of a line; prepare this machine for it if need be."""
    place = ROOT / "build" / f"spark-{RELEASES[line]}"
    if not (place / "pyspark").is_dir():
        wanted = f"pyspark=={RELEASES[line]}"
        partial = place.with_suffix(".partial")
        install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--no-deps", "--target", str(partial), wanted]
        subprocess.run(install, check=True)
        partial.rename(place)
    path = [str(place), *filter(None, [os.environ.get("PYTHONPATH")])]
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    subprocess.run([sys.executable, "-m", "oncelake.set_up"], env=here, check=True)
    return here


def main() -> int:
    """Run the core on the line that the first argument names."""
    line, *more = sys.argv[1:]
    if line not in RELEASES:
        sys.exit(f"Spark {line}: no such line; one of {', '.join(RELEASES)}")
    here = environment(line)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", *(more or CORE)]
    return subprocess.run(command, env=here, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
