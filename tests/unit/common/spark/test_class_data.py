"""The archive of Java classes is used once it is complete, beside those of two other checkouts or Javas."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from oncelake.common.spark import class_data, jars

Process = subprocess.Popen[bytes]


class Disk(NamedTuple):
    total: int
    free: int


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jars, "cache_home", lambda: tmp_path)
    monkeypatch.setattr(jars, "class_path", lambda: "a.jar")
    return tmp_path


def demo_that(monkeypatch: pytest.MonkeyPatch, code: int, content: bytes, said: bytes = b"") -> list[dict[str, str]]:
    """Replace the demo; return the list to which each run of it adds its environment."""
    environments = []

    class Demo(Process):
        def __init__(self, command: list[str], *, env: dict[str, str], stderr: IO[bytes], **_: Any) -> None:
            environments.append(env)
            name = env["SPARK_SUBMIT_OPTS"].removeprefix('-XX:ArchiveClassesAtExit="').removesuffix('"')
            Path(name).write_bytes(content)
            os.utime(name, (0, 0))
            stderr.write(said)
            told = subprocess.PIPE
            super().__init__([sys.executable, "-c", f"print('1. A part'); raise SystemExit({code})"], stdout=told)

    monkeypatch.setattr(subprocess, "Popen", Demo)
    return environments


def uses_one() -> bool:
    return f"-XX:SharedArchiveFile={class_data.archive()}" in class_data.options()


def test_an_archive_is_used_once_it_is_complete_and_the_oldest_ones_go(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not uses_one()
    monkeypatch.setattr(class_data, "java_command", lambda: "java")
    demo_that(monkeypatch, 0, b"classes")
    class_data.archive().with_suffix(".4711").touch()  # of a JVM that was given up
    archives = []
    for number, jar in enumerate(("a.jar", "b.jar", "c.jar", "d.jar")):
        monkeypatch.setattr(jars, "class_path", lambda jar=jar: jar)
        assert not uses_one()
        assert class_data.write() is None
        assert uses_one()
        archives.append(class_data.archive())
        os.utime(archives[-1].with_suffix(".home"), (number, number))
    kept = sorted(path.with_suffix(suffix) for path in archives[1:] for suffix in (".home", ".jsa"))
    assert sorted(cache.iterdir()) == kept


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


@pytest.mark.usefixtures("cache")
def test_the_demo_reads_no_settings_of_the_user_and_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_data, "java_command", lambda: "java")
    monkeypatch.setenv("ONCELAKE_SERVING__URL", "mysql://db.example/alog")
    monkeypatch.setenv("PATH_OF_MINE", "kept")
    environments = demo_that(monkeypatch, 0, b"classes")
    heard: list[str] = []
    assert not class_data.is_recording()
    assert class_data.write(heard.append) is None
    assert heard == ["1. A part\n"]
    assert environments[0]["PATH_OF_MINE"] == "kept"
    assert not [name for name in environments[0] if name.startswith("ONCELAKE_")]
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", environments[0]["SPARK_SUBMIT_OPTS"])
    assert class_data.is_recording()


def test_a_quick_jvm_has_only_the_quick_compiler(cache: Path) -> None:
    assert {"-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=192m"} <= {*class_data.options(quick=True)}
    assert "-XX:TieredStopAtLevel=1" not in class_data.options()
    assert not any(cache.iterdir())


def test_on_a_full_disk_no_archive_is_begun(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_data, "java_command", lambda: "java")
    environments = demo_that(monkeypatch, 0, b"classes")
    mebibytes = 1024**2
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(total=1024 * mebibytes, free=21 * mebibytes))
    assert class_data.write() == f"{cache} has 21 MiB left, and the archive needs 256"
    assert not environments
