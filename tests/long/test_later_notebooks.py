"""The notebooks that `make test` leaves out run top to bottom as they are stored, and keep their promises."""

from pathlib import Path

import pytest

from tests.support.notebooks.kernel import started
from tests.support.notebooks.promises import EVERY, LATER, check

pytestmark = [pytest.mark.chain, pytest.mark.long]


@pytest.mark.parametrize("path", [each for each in EVERY if each.stem in LATER], ids=lambda path: path.stem)
def test_notebook_runs_and_keeps_its_promises(path: Path, tmp_path: Path) -> None:
    with started(tmp_path) as kernel:
        check(path, kernel)
