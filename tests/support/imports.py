"""The modules that a command imports."""

import os
import subprocess
import sys

# What takes long to import, or belongs to few commands.
HEAVY = {
    "deltalake",
    "duckdb",
    "great_expectations",
    "jinja2",
    "numpy",
    "opentelemetry",
    "pandas",
    "plotly",
    "py4j",
    "pyarrow",
    "pyspark",
    "smtplib",
    "sqlalchemy",
}
_CODE = """
import sys
sys.argv[0] = "oncelake"
from oncelake.cli.app import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


def imported(*arguments: str) -> tuple[set[str], int]:
    """Return the modules that a command imports on a machine without Java, and its exit code."""
    command, environment = [sys.executable, "-c", _CODE, *arguments], {**os.environ, "JAVA_HOME": "/none"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    modules = set(done.stderr.split())
    assert "oncelake.cli.run" in modules
    return modules, done.returncode
