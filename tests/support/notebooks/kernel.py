"""This is where a notebook is run top to bottom, in a kernel that is this very Python."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.places import ROOT

NOTEBOOKS = ROOT / "notebooks"
_NAME = "oncelake-tests"
# A cell may take so many seconds: more than a whole notebook on two free cores.
TIMEOUT = 300


def prepare(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the surroundings of a kernel below a directory, and give the one that takes its temporary files."""
    spec = place / "jupyter" / "kernels" / _NAME / "kernel.json"
    spec.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": command, "display_name": _NAME, "language": "python"}))
    temporary = place / "tmp"
    temporary.mkdir()
    for name in [each for each in os.environ if each.startswith("ONCELAKE_")]:
        monkeypatch.delenv(name)
    own = {"JUPYTER_PATH": "jupyter", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython", "TMPDIR": "tmp"}
    for name, below in own.items():
        monkeypatch.setenv(name, str(place / below))
    places = [str(ROOT / "pipelines"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))
    return temporary


def run(notebook: Any, promises: Mapping[str, str]) -> dict[str, bool]:
    """Run every cell, then say of each promise, an expression over the notebook's variables, whether it is kept.

    Raises:
        CellExecutionError: a cell failed; has its text and the error.
    """
    told = ", ".join(f"{promise!r}: bool({expression})" for promise, expression in promises.items())
    notebook.cells.append(nbformat.v4.new_code_cell(f"import json\nprint(json.dumps({{{told}}}))"))
    where = {"metadata": {"path": str(NOTEBOOKS)}}
    NotebookClient(notebook, timeout=TIMEOUT, kernel_name=_NAME, resources=where).execute()
    kept: dict[str, bool] = json.loads(notebook.cells[-1].outputs[0].text)
    return kept
