"""A notebook that is exported to HTML keeps its plots."""

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook

PLOT = """
import plotly.graph_objects as go

from oncelake.lab import plots

plots.use()
plots.show(go.Figure(go.Bar(x=[1, 2], y=[3, 4])), "Errors over time", x="time", y="lines")
"""


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> nbformat.NotebookNode:
    monkeypatch.delenv("PLOTLY_RENDERER", raising=False)
    notebook = new_notebook(cells=[new_code_cell(PLOT)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    assert isinstance(notebook, nbformat.NotebookNode)
    return notebook


def test_an_export_to_html_draws_the_plots(executed: nbformat.NotebookNode) -> None:
    page, _ = HTMLExporter().from_notebook_node(executed)
    assert "Plotly.newPlot(" in page
    assert "Errors over time" in page.partition("Plotly.newPlot(")[2]


def test_jupyterlab_still_gets_the_form_that_it_draws(executed: nbformat.NotebookNode) -> None:
    kinds = {kind for output in executed.cells[0].outputs for kind in output.get("data", {})}
    assert "application/vnd.plotly.v1+json" in kinds
