"""Notebooks are stored without outputs; one first cell opens the lake, and all links work."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.support.places import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[Any]:
    return [cell for cell in nbformat.read(path, as_version=nbformat.NO_CONVERT).cells if cell.cell_type == kind]


@every_notebook
def test_notebook_is_valid_and_small(path: Path) -> None:
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5), "the form whose cells have ids"
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert all(not cell.metadata for cell in notebook.cells)


@every_notebook
def test_notebook_is_stored_without_outputs(path: Path) -> None:
    for cell in cells(path, "code"):
        assert (cell.outputs, cell.execution_count) == ([], None), "jupyter nbconvert --clear-output --inplace"


@every_notebook
def test_the_first_cell_opens_the_lake_and_no_other_starts_a_spark(path: Path) -> None:
    first, *others = (cell.source for cell in cells(path, "code"))
    assert "from oncelake.lab.notebook import open_lake" in first
    assert f'open_lake("{path.stem}"' in first
    for source in others:
        assert not re.search(r"open_lake\(|SparkSession|spark_session\(|notebook_spark\(", source)


@every_notebook
def test_notebook_names_no_path_of_one_machine(path: Path) -> None:
    for cell in [*cells(path, "code"), *cells(path, "markdown")]:
        assert not re.search(r"(?<![\w.:/])/(tmp|home|root|Users|work|var|opt)/", cell.source), cell.source


@every_notebook
def test_links_of_a_notebook_work(path: Path) -> None:
    for cell in cells(path, "markdown"):
        for link in re.findall(r"\]\(([^)#:]+)\)", cell.source):
            assert (path.parent / link).exists(), link


@every_notebook
def test_the_guide_describes_the_notebook(path: Path) -> None:
    assert f"../notebooks/{path.name})" in (ROOT / "docs/notebooks.md").read_text(encoding="utf-8")


@every_notebook
def test_a_notebook_takes_its_colours_from_the_palette(path: Path) -> None:
    for cell in cells(path, "code"):
        assert not re.search(r"#[0-9a-fA-F]{6}|#[0-9a-fA-F]{3}\b|rgba?\(", cell.source), cell.source
