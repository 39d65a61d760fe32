"""Run notebooks top to bottom, in a kernel of the current Python."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.house import until
from tests.support.places import ROOT

NOTEBOOKS = ROOT / "notebooks"
_NAME = "oncelake-tests"
# time limit of a cell in seconds: more than a whole notebook takes on two free cores
TIMEOUT = 300


@dataclass(frozen=True)
class Kernel:
    """A kernel that runs one notebook after the other, in one Python whose Spark stays warm.

    Attributes:
        temporary: the directory for its temporary files.
    """

    temporary: Path
    _client: NotebookClient

    def run(self, notebook: Any, promises: Mapping[str, str]) -> dict[str, bool]:
        """Run every cell, then return for each promise, an expression over the notebook's variables, whether it holds.

        Raises:
            CellExecutionError: a cell failed; has its text and the error.
        """
        told = ", ".join(f"{promise!r}: bool({expression})" for promise, expression in promises.items())
        notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -f"))  # the previous notebook left its variables
        notebook.cells.append(nbformat.v4.new_code_cell(f"import json\nprint(json.dumps({{{told}}}))"))
        self._client.nb = notebook
        self._client.execute(cleanup_kc=False)
        kept: dict[str, bool] = json.loads(notebook.cells[-1].outputs[0].text)
        return kept


@contextmanager
def started(place: Path) -> Iterator[Kernel]:
    """Start a kernel with its own directories below `place`; assert that it leaves no files when it ends."""
    spec = place / "jupyter" / "kernels" / _NAME / "kernel.json"
    spec.parent.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": command, "display_name": _NAME, "language": "python"}))
    temporary = place / "tmp"
    temporary.mkdir()
    own = {"JUPYTER_PATH": "jupyter", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython", "TMPDIR": "tmp"}
    places = [str(ROOT / "pipelines"), *filter(None, [os.environ.get("PYTHONPATH")])]
    with ExitStack() as ending:
        with pytest.MonkeyPatch.context() as patch:  # the kernel inherits these when it starts
            for name in [each for each in os.environ if each.startswith("ONCELAKE_")]:
                patch.delenv(name)
            for name, below in own.items():
                patch.setenv(name, str(place / below))
            patch.setenv("PYTHONPATH", os.pathsep.join(places))
            client = NotebookClient(
                nbformat.v4.new_notebook(),
                timeout=TIMEOUT,
                kernel_name=_NAME,
                resources={"metadata": {"path": str(NOTEBOOKS)}},
            )
            ending.enter_context(client.setup_kernel())
            assert client.km is not None
            client.km.shutdown_wait_time = TIMEOUT  # it ends by itself, so that coverage can be written
        yield Kernel(temporary, client)
    until(lambda: not left_in(temporary), 60)
    assert left_in(temporary) == []


def left_in(temporary: Path) -> list[str]:
    """Return what notebooks left in the temporary directory."""
    return sorted(path.name for path in temporary.glob("oncelake-*"))
