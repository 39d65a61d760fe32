"""The compiled file system is used if it is compiled, and a user's own settings replace it completely."""

from pathlib import Path

import pytest

from oncelake.common.spark import compiled, direct_file_system, jars
from tests.support.own_jar import WHY, write_without


@pytest.fixture(autouse=True)
def compiled_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(jars, "cache_home", lambda: tmp_path)
    monkeypatch.setattr(jars, "class_path", lambda: "a.jar")
    write_without()
    return compiled.jar()


def test_the_file_system_is_used_once_it_is_compiled(compiled_jar: Path) -> None:
    assert compiled.class_path() == f"a.jar:{compiled_jar}"
    assert direct_file_system.conf({"spark.ui.enabled": "true"})["spark.hadoop.fs.file.impl"]
    compiled_jar.unlink()
    assert compiled.class_path() == "a.jar"
    assert not direct_file_system.conf()


def test_a_file_system_that_does_not_fit_this_spark_is_not_used() -> None:
    write_without(["DirectFileSystem"])
    assert not direct_file_system.conf()
    assert direct_file_system.why_not(()) == (
        f"oncelake's log store does not fit this Spark ({WHY}); use another version of PySpark"
    )


def test_a_broken_jar_is_removed_and_not_used(compiled_jar: Path) -> None:
    compiled_jar.write_bytes(compiled_jar.read_bytes()[:20])
    assert compiled.class_path() == "a.jar"
    assert not compiled_jar.exists()


@pytest.mark.parametrize(
    "key", ["spark.driver.extraClassPath", "spark.hadoop.fs.file.impl", "spark.delta.logStore.file.impl"]
)
def test_a_user_s_own_class_path_or_file_system_replaces_it(key: str) -> None:
    assert not direct_file_system.conf({key: "of.my.Own"})
