"""The site builds without a warning, every link on it leads somewhere, and its search shows excerpts."""

import subprocess
from pathlib import Path

import pytest

from tests.support.browser import chromium
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
    with chromium() as browser:
        browser.open(f"file://{tmp_path}/search.html?q=quarantine")
        excerpts = browser.until("[...document.querySelectorAll('.search li p.context')].map((text) => text.innerText)")
        assert any("quarantine" in text.lower() for text in excerpts)
        assert not any("¶" in text for text in excerpts)
