"""Copies of the working tree, in which modules are changed and tests run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


def copy(root: Path, to: Path) -> None:
    """Copy what git knows of a tree or would add, as it is in the working tree, and compile it.

    The compiled files name their source's hash: one whose module is changed is not used, however fast that went.
    """
    git = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.check_output(git, text=True).split("\0")):
        if (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, to / name)
    compiled = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", str(to)]
    subprocess.run(compiled, check=True)


def environment(tree: Path) -> dict[str, str]:
    """Return the environment in which processes import from a copy."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree / "pipelines"), str(tree)])}
