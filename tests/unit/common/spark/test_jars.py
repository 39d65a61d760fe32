"""The Java libraries are downloaded once, again if one is not whole, and a download that fails says why."""

import subprocess
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from oncelake.common.errors import OncelakeError
from oncelake.common.spark import jars

ARTIFACTS = [("org.example", "one", "1.0")]


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "java_command", lambda: "java")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Replace Ivy by one that downloads a jar that is not there; return the jars that it has downloaded."""
    downloaded: list[Path] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        jar = tmp_path / "one.jar"
        if not jar.exists():
            with zipfile.ZipFile(jar, "w") as archive:
                archive.writestr("One.class", "")
            downloaded.append(jar)
        Path(command[command.index("-cachepath") + 1]).write_text(f"{jar}\n")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return downloaded


def test_libraries_are_downloaded_once(asked: list[Path]) -> None:
    first = jars.resolve(ARTIFACTS, transitive=False)
    assert jars.resolve(ARTIFACTS, transitive=False) == first == str(asked[0])
    assert len(asked) == 1


@pytest.mark.parametrize("left", [None, b"", b"PK\x03\x04 the beginning of a jar"])
def test_a_library_that_is_gone_or_cut_is_downloaded_again(asked: list[Path], left: bytes | None) -> None:
    jars.resolve(ARTIFACTS, transitive=False)
    asked[0].unlink()
    if left is not None:
        asked[0].write_bytes(left)
    jars.resolve(ARTIFACTS, transitive=False)
    assert len(asked) == 2
    assert zipfile.is_zipfile(asked[1])


def test_two_do_not_download_at_the_same_time(monkeypatch: pytest.MonkeyPatch, asked: list[Path]) -> None:
    run, busy = subprocess.run, Lock()

    def slow(command: list[str], **options: Any) -> Any:
        assert busy.acquire(blocking=False)
        time.sleep(0.2)
        busy.release()
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", slow)
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda name: jars.resolve([("org.example", name, "1")], transitive=False), "ab"))
    assert found == [str(asked[0])] * 2


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        (
            "module not found: org.example#one;1.0",
            r"download the Java libraries \(module not found: org.example#one;1.0\)",
        ),
        ("Host central not found. url=x", r"\(Host central not found. url=x\); the first start needs access to Maven"),
        (
            'dots ....\nException in thread "main" java.io.IOException: No space left on device\n\tat java.base/x',
            r"do not fit into .*/oncelake: java.io.IOException: No space left on device. Free .* set XDG_CACHE_HOME",
        ),
        ("something else", r"\(Ivy failed\)"),
    ],
)
def test_a_download_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, printed: str, says: str) -> None:
    monkeypatch.setattr(subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, 1, printed, ""))
    with pytest.raises(OncelakeError, match=says):
        jars.resolve(ARTIFACTS, transitive=False)
