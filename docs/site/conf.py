"""Settings of Sphinx for the site: `make site` builds it from the README, docs/ and the notebooks, as they are.

With the environment variable NOTEBOOKS=1 the notebooks are run first, so that the site shows their plots.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from sphinx.application import Sphinx

from oncelake.common.version import __version__

HERE = Path(__file__).parent

project, author, version = "oncelake", "the authors of oncelake", __version__
extensions = ["myst_nb", "sphinx_copybutton", "sphinxcontrib.mermaid"]
root_doc = "README"
include_patterns = ["*.md", "docs/**.md", "examples/README.md", "notebooks/*.ipynb"]

html_theme = "furo"
html_title = f"oncelake {version}"
html_extra_path = [str(HERE / "extra")]
html_js_files = ["excerpts.js"]
html_static_path = [str(HERE / "static")]
html_show_sphinx = html_show_copyright = False
smartquotes = False  # they turn the dashes of a flag into one

myst_heading_anchors = 4  # the anchors of GitHub, which the pages link to
myst_fence_as_directive = ["mermaid"]
nb_execution_mode = "cache" if os.environ.get("NOTEBOOKS") == "1" else "off"
os.environ["PLOTLY_RENDERER"] = "notebook"  # the kernels inherit it: each plot is HTML, with its script in the page
nb_execution_timeout = 900
nb_execution_raise_on_error = True

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


def keep_texts(app: Sphinx, failure: Exception | None) -> None:
    """Write the texts of all pages into one script, for the excerpts of a search in a site that is opened from files.

    There a browser lets no page read another one, which is how the search gets them.
    """
    if failure is not None or app.builder.format != "html":
        return
    texts = {}
    for name in sorted(app.env.found_docs):
        page = Path(app.outdir, app.builder.get_target_uri(name)).read_text(encoding="utf-8")
        article = re.search(r'<article[^>]*role="main".*?</article>', page, re.DOTALL)
        texts[app.builder.get_target_uri(name)] = _bare(article[0]) if article else ""
    script = f"window.PAGE_TEXTS = {json.dumps(texts)};\n"
    Path(app.outdir, "_static", "texts.js").write_text(script, encoding="utf-8")


def _bare(page: str) -> str:
    """Return a page without scripts, attributes other than the IDs that a search jumps to, and other bulk."""
    page = re.sub(r'<(script|style|svg)\b.*?</\1>|<a class="headerlink".*?</a>', "", page, flags=re.DOTALL)
    return re.sub(r'<(\w+)(?:[^>]*?(\s(?:id|role)="[^"]*"))?[^>]*>', r"<\1\2>", page)


def setup(app: Sphinx) -> None:
    """Register what Sphinx calls."""
    app.connect("build-finished", keep_texts)
    app.connect("source-read", with_contents)
