"""The compiled file system is used if it is compiled, and a user's own settings replace it completely."""

from pathlib import Path

import pytest

from oncelake.common.spark import compiled, direct_file_system, jars


@pytest.fixture(autouse=True)
def compiled_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jars, "cache_home", lambda: tmp_path)
    monkeypatch.setattr(jars, "class_path", lambda: "a.jar")
    compiled.jar().touch()
    return compiled.jar()


def test_the_file_system_is_used_once_it_is_compiled(compiled_jar: Path) -> None:
    assert compiled.class_path() == f"a.jar:{compiled_jar}"
    assert direct_file_system.conf({"spark.ui.enabled": "true"})["spark.hadoop.fs.file.impl"]
    compiled_jar.unlink()
    assert compiled.class_path() == "a.jar"
    assert not direct_file_system.conf()


@pytest.mark.parametrize(
    "key", ["spark.driver.extraClassPath", "spark.hadoop.fs.file.impl", "spark.delta.logStore.file.impl"]
)
def test_a_user_s_own_class_path_or_file_system_replaces_it(key: str) -> None:
    assert not direct_file_system.conf({key: "of.my.Own"})
