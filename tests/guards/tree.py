"""Copies of the working tree, in which modules are changed and tests run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


def copy(root: Path, to: Path) -> None:
    """Copy the files of a tree that git tracks or would add, as they are in the working tree, and compile them.

    The compiled files hold the hash of their source: after a module changes, its old one is not used, however fast.
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
