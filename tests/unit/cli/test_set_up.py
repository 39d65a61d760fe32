"""Set-up does as much as it can to shorten starts, and reports in one line what it cannot do."""

from pathlib import Path

import pytest
from py4j.protocol import Py4JError

from oncelake import set_up
from oncelake.common.spark import class_data, compiled, jars


def test_a_failed_compilation_is_reported_and_the_rest_is_set_up(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def fails() -> None:
        raise Py4JError("no such class: SimpleCompiler\n\tat somewhere")

    home = tmp_path_factory.mktemp("cache")
    written: list[str] = []

    def writes() -> str | None:
        written.append("archive")
        return None

    monkeypatch.setattr(jars, "class_path", lambda: "")
    monkeypatch.setattr(compiled, "jar", lambda: home / "none.jar")
    monkeypatch.setattr(compiled, "write", fails)
    monkeypatch.setattr(class_data, "archive", lambda: home / "none.jsa")
    monkeypatch.setattr(class_data, "write", writes)
    set_up.main()
    said = capfd.readouterr().out
    assert said.startswith("oncelake: the file system could not be compiled (no such class: SimpleCompiler);")
    assert said.count("\n") == 1
    assert written == ["archive"]


def test_a_failed_archive_is_reported_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "there.jar").touch()
    monkeypatch.setattr(jars, "class_path", lambda: "")
    monkeypatch.setattr(compiled, "jar", lambda: tmp_path / "there.jar")
    monkeypatch.setattr(class_data, "archive", lambda: tmp_path / "none.jsa")
    monkeypatch.setattr(class_data, "write", lambda: "the JVM wrote no archive")
    set_up.main()
    assert (
        "no archive of Java's classes (the JVM wrote no archive); without it each start takes" in capfd.readouterr().out
    )
