"""The jar has all of our classes; one that another Spark cannot have is left out with the reason, and what uses it."""

import json
import zipfile
from collections.abc import Container, Mapping
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


def compiled_classes(
    sources: list[Path], optional: Container[str], checks: Mapping[str, str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """Compile files, and return the classes in the jar and those that were left out, with the reasons."""
    jar = sources[0].with_name("own.jar")
    compiled.compile_java(sources, jar, jars.class_path(), optional=optional, checks=checks)
    with zipfile.ZipFile(jar) as made:
        names = [Path(name).stem for name in made.namelist() if name.endswith(".class")]
        return names, json.loads(made.read("oncelake/left-out.json"))


def test_an_optional_class_that_does_not_compile_is_left_out(sources: list[Path]) -> None:
    names, left_out = compiled_classes(sources, ["Faster", "Behind"])
    assert names == ["Before", "Behind"]
    assert left_out.keys() == {"Faster"}
    assert 'A method named "ofNoRows" is not declared' in left_out["Faster"]


def test_what_uses_a_class_that_is_left_out_is_left_out_too(sources: list[Path]) -> None:
    sources[0].write_text(f"{BEGIN} Before {{ Other number; }}")
    sources[1].write_text(f"{BEGIN} Faster {{ }}")
    names, left_out = compiled_classes(sources, SOURCES)
    assert names == ["Faster"]
    assert [*left_out] == ["Before", "Behind"]


def test_a_class_whose_own_check_fails_is_left_out(sources: list[Path]) -> None:
    check = "public static void check(String name) throws Exception { Class.forName(name); }"
    sources[1].write_text(f"{BEGIN} Faster {{ {check} }}")
    checks = {"Faster": "org.apache.spark.Moved"}
    names, left_out = compiled_classes(sources, SOURCES, checks)
    assert names == ["Before", "Behind"]
    assert left_out == {"Faster": "java.lang.ClassNotFoundException: org.apache.spark.Moved"}
    checks = {"Faster": "org.apache.spark.SparkContext"}
    assert compiled_classes(sources, SOURCES, checks)[0] == ["Before", "Faster", "Behind"]


def test_if_no_class_compiles_there_is_no_jar(sources: list[Path], tmp_path: Path) -> None:
    for source in sources:
        source.write_text("no Java")
    with pytest.raises(OncelakeError, match="Line 1"):
        compiled.compile_java(sources, tmp_path / "own.jar", jars.class_path(), optional=SOURCES)
    assert not (tmp_path / "own.jar").exists()


def test_without_any_other_class_there_is_no_jar(sources: list[Path], tmp_path: Path) -> None:
    with pytest.raises(OncelakeError, match="ofNoRows"):
        compiled.compile_java(sources, tmp_path / "own.jar", jars.class_path(), optional=["Behind"])
    assert not (tmp_path / "own.jar").exists()


def test_this_spark_has_every_class() -> None:
    assert compiled.left_out() == {}
    with zipfile.ZipFile(compiled.jar()) as jar:
        files = (name for name in jar.namelist() if name.endswith(".class"))
        names = {name.partition("/")[2].partition("$")[0].removesuffix(".class") for name in files}
    assert names == {source.stem for source in Path(compiled.__file__).parent.glob("*.java")}
