"""The site builds without a warning, and every link on it leads somewhere."""

import subprocess
from pathlib import Path

import pytest

from tests.support.places import ROOT


@pytest.mark.long  # it installs Sphinx; tests/docs checks links and navigation without it
def test_every_page_is_on_the_site(tmp_path: Path) -> None:
    done = subprocess.run(["make", "site", f"SITE={tmp_path}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    missing = [
        page
        for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        if not (tmp_path / page.relative_to(ROOT)).with_suffix(".html").exists()
    ]
    assert missing == []
    assert "README.html" in (tmp_path / "index.html").read_text()
