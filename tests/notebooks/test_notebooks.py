"""Every notebook runs top to bottom as it is stored, keeps its promises, and leaves nothing behind."""

from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from tests.support.notebooks.kernel import Kernel
from tests.support.notebooks.promises import EVERY, LATER, check

pytestmark = [pytest.mark.notebook, pytest.mark.xdist_group("notebooks")]


@pytest.mark.chain
@pytest.mark.parametrize("path", [each for each in EVERY if each.stem not in LATER], ids=lambda path: path.stem)
def test_notebook_runs_and_keeps_its_promises(path: Path, kernel: Kernel) -> None:
    check(path, kernel)


def test_a_cell_that_fails_is_named(kernel: Kernel) -> None:
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("before, after = 1, 2\nassert after == before")]
    )
    with pytest.raises(CellExecutionError, match="assert after == before"):
        kernel.run(notebook, {})


def test_a_broken_promise_is_detected(kernel: Kernel) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("lost = 3")])
    assert kernel.run(notebook, {"nothing is lost": "lost == 0", "some is there": "lost > 0"}) == {
        "nothing is lost": False,
        "some is there": True,
    }


def test_a_notebook_sees_no_variable_of_the_previous_one(kernel: Kernel) -> None:
    kernel.run(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("left = 1")]), {})
    kept = kernel.run(nbformat.v4.new_notebook(), {"it is gone": "'left' not in globals()"})
    assert kept == {"it is gone": True}
