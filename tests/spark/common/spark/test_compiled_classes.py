"""The jar has all of our classes; one that another Spark cannot have is left out, and the others are there."""

import zipfile
from pathlib import Path

import pytest

from oncelake.common.errors import OncelakeError
from oncelake.common.spark import compiled, jars

pytestmark = pytest.mark.spark
BEGIN = "package oncelake;\npublic final class"
# the second one calls what no Spark has; the third one uses the first
SOURCES = {
    "Before": f"{BEGIN} Before {{ static int number() {{ return 1; }} }}",
    "Faster": f"{BEGIN} Faster {{ Object rows = org.apache.spark.sql.classic.Dataset$.MODULE$.ofNoRows(); }}",
    "Behind": f"{BEGIN} Behind {{ int number = Before.number(); }}",
}


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    """Return three files of Java."""
    for name, text in SOURCES.items():
        (tmp_path / f"{name}.java").write_text(text)
    return [tmp_path / f"{name}.java" for name in SOURCES]


def test_an_optional_class_that_does_not_compile_is_left_out(sources: list[Path], tmp_path: Path) -> None:
    compiled.compile_java(sources, tmp_path / "own.jar", jars.class_path(), optional=["Faster", "Behind"])
    with zipfile.ZipFile(tmp_path / "own.jar") as jar:
        assert jar.namelist() == ["oncelake/Before.class", "oncelake/Behind.class"]


def test_without_any_other_class_there_is_no_jar(sources: list[Path], tmp_path: Path) -> None:
    with pytest.raises(OncelakeError, match="ofNoRows"):
        compiled.compile_java(sources, tmp_path / "own.jar", jars.class_path(), optional=["Behind"])
    assert not (tmp_path / "own.jar").exists()


def test_this_spark_has_every_class() -> None:
    with zipfile.ZipFile(compiled.jar()) as jar:
        names = {name.partition("/")[2].partition("$")[0].removesuffix(".class") for name in jar.namelist()}
    assert names == {source.stem for source in Path(compiled.__file__).parent.glob("*.java")}
