"""The archive of Java classes is used once it is complete, and replaced by the next one."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from oncelake.common.spark import class_data, jars


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jars, "cache_home", lambda: tmp_path)
    monkeypatch.setattr(jars, "class_path", lambda: "a.jar")
    return tmp_path


def demo_that(monkeypatch: pytest.MonkeyPatch, code: int, content: bytes, said: bytes = b"") -> None:
    def run(command: list[str], *, env: dict[str, str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        name = env["SPARK_SUBMIT_OPTS"].removeprefix('-XX:ArchiveClassesAtExit="').removesuffix('"')
        Path(name).write_bytes(content)
        os.utime(name, (0, 0))
        return subprocess.CompletedProcess(command, code, b"", said)

    monkeypatch.setattr(subprocess, "run", run)


def uses_one() -> bool:
    return f"-XX:SharedArchiveFile={class_data.archive()}" in class_data.options()


def test_an_archive_is_used_once_it_is_complete_and_replaces_the_old_one(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not uses_one()
    monkeypatch.setattr(class_data, "java_command", lambda: "java")
    demo_that(monkeypatch, 0, b"classes")
    assert class_data.write() is None
    assert uses_one()
    monkeypatch.setattr(jars, "class_path", lambda: "b.jar")
    assert not uses_one()
    assert class_data.write() is None
    assert uses_one()
    assert [path.suffix for path in sorted(cache.iterdir())] == [".home", ".jsa"]


def test_an_archive_of_a_removed_spark_is_deleted(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cache / "gone.jsa").touch()
    (cache / "gone.home").write_text(str(cache / "no/pyspark"))
    (cache / "there.jsa").touch()
    (cache / "there.home").write_text(str(cache))
    monkeypatch.setattr(class_data, "java_command", lambda: "java")
    demo_that(monkeypatch, 0, b"classes")
    assert class_data.write() is None
    assert not (cache / "gone.jsa").exists()
    assert (cache / "there.jsa").exists()


def test_without_a_complete_run_there_is_no_archive(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_data, "java_command", lambda: "java")
    monkeypatch.setattr(class_data, "PATIENCE", 0.0)
    demo_that(monkeypatch, 1, b"classes", b"Traceback ...\nNo module named oncelake\n")
    assert class_data.write() == "the demo exited with code 1: No module named oncelake"
    demo_that(monkeypatch, 1, b"classes")
    assert class_data.write() == "the demo exited with code 1: no error message"
    demo_that(monkeypatch, 0, b"")
    assert class_data.write() == "the JVM wrote no archive"
    assert list(cache.iterdir()) == []


def test_a_quick_jvm_has_only_the_quick_compiler(cache: Path) -> None:
    assert "-XX:TieredStopAtLevel=1" in class_data.options(quick=True)
    assert "-XX:TieredStopAtLevel=1" not in class_data.options()
    assert not any(cache.iterdir())
