"""Which versions of Spark oncelake runs on, and which libraries belong to each."""

import pyspark
import pytest

from oncelake.common.spark.versions import DELTA, LINES, installed, line_of


@pytest.mark.parametrize(
    ("version", "name"), [("4.0.0", "4.0"), ("4.0.5", "4.0"), ("4.1.0.dev1", "4.1"), ("4.2.1", "4.2")]
)
def test_a_version_is_of_the_line_of_its_first_two_numbers(version: str, name: str) -> None:
    line = line_of(version)
    assert line is not None
    assert line.name == name
    assert line.delta == ("io.delta", f"delta-spark_{name}_2.13", DELTA)
    assert line.kafka[2].startswith(f"{name}.")


@pytest.mark.parametrize("version", ["3.5.1", "4.3.0", "4.10.0", "4", "14.0.0", ""])
def test_other_versions_are_of_no_line(version: str) -> None:
    assert line_of(version) is None


def test_the_libraries_are_those_of_the_installed_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, line in (("4.0.5", "4.0"), ("4.1.4", "4.1"), ("4.2.0", "4.2")):
        monkeypatch.setattr(pyspark, "__version__", version)
        assert installed() is LINES[line]
