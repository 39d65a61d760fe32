"""Settings of Sphinx for the site: `make site` builds it from the README, docs/ and the notebooks, as they are.

With the environment variable NOTEBOOKS=1 the notebooks are run first, so that the site shows their plots.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from sphinx.application import Sphinx

from oncelake.common.version import __version__

HERE = Path(__file__).parent

project, author, version = "oncelake", "the authors of oncelake", __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinxcontrib.mermaid"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "examples/README.md", "notebooks/*.ipynb"]

html_theme = "furo"
html_title = f"oncelake {version}"
html_extra_path = [str(HERE / "extra")]
html_show_sphinx = html_show_copyright = False
smartquotes = False  # they turn the dashes of a flag into one

myst_heading_anchors = 4  # the anchors of GitHub, which the pages link to
myst_fence_as_directive = ["mermaid"]
nb_execution_mode = "cache" if os.environ.get("NOTEBOOKS") == "1" else "off"
os.environ["PLOTLY_RENDERER"] = "notebook"  # the kernels inherit it: each plot is HTML, with its script in the page
nb_execution_timeout = 900
nb_execution_raise_on_error = True
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"

NAVIGATION: Mapping[str, Sequence[str]] = yaml.safe_load((HERE / "navigation.yaml").read_text(encoding="utf-8"))
# a page that begins a directory lists the pages of its directory; the notebooks' page lists the notebooks
CONTENTS: Mapping[str, str] = {
    "docs/notebooks": "../notebooks/*",
    "docs/operations/README": "*",
    "docs/decisions/README": "*",
}


def tree(pages: Sequence[str], caption: str = "") -> str:
    """Return a hidden table of contents."""
    title = f":caption: {caption}\n" if caption else ""
    return "\n\n```{toctree}\n:hidden:\n:glob:\n" + title + "\n" + "\n".join(pages) + "\n```\n"


def with_contents(_: Sphinx, name: str, source: list[str]) -> None:
    """Add the contents to a page; in the page itself they would show as text where Sphinx does not render it."""
    if name == root_doc:
        source[0] += "".join(tree([f"/docs/{page}" for page in pages], title) for title, pages in NAVIGATION.items())
    elif name in CONTENTS:
        source[0] += tree([CONTENTS[name]])


def as_markup(*given: Any) -> None:
    """Turn a docstring's Markdown, its blocks of code and names in backquotes, into Sphinx's own markup."""
    lines = given[-1]
    text = "\n".join(lines)
    text = re.sub(r"^( *)```(\w+)\n(.*?)\n\1```$", _block, text, flags=re.MULTILINE | re.DOTALL)
    lines[:] = re.sub(r"(?<![`:])`([^`\n]+)`(?!`)", r"``\1``", text).splitlines()


def _block(found: re.Match[str]) -> str:
    space, language, code = found.groups()
    return "\n".join([f"{space}.. code-block:: {language}", "", *(f"   {line}" for line in code.splitlines()), ""])


def setup(app: Sphinx) -> None:
    """Register what Sphinx calls."""
    app.connect("source-read", with_contents)
    app.connect("autodoc-process-docstring", as_markup)
