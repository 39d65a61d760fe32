"""What makes starts short is brought as far as it can be, and what cannot is said in one line."""

import pytest
from py4j.protocol import Py4JError

from oncelake import class_data, direct_file_system, jars, set_up


def test_what_cannot_be_compiled_is_said_and_the_rest_is_brought(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    def fails() -> None:
        raise Py4JError("no such class: SimpleCompiler\n\tat somewhere")

    home = tmp_path_factory.mktemp("cache")
    written: list[str] = []

    def writes() -> bool:
        written.append("archive")
        return True

    monkeypatch.setattr(jars, "class_path", lambda: "")
    monkeypatch.setattr(direct_file_system, "jar", lambda: home / "none.jar")
    monkeypatch.setattr(direct_file_system, "write", fails)
    monkeypatch.setattr(class_data, "archive", lambda: home / "none.jsa")
    monkeypatch.setattr(class_data, "write", writes)
    set_up.main()
    said = capfd.readouterr().out
    assert said.startswith("oncelake: the file system could not be compiled (no such class: SimpleCompiler);")
    assert said.count("\n") == 1
    assert written == ["archive"]
