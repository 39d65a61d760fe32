"""The chain runs from the wheel, in an environment of its own, with a Spark that is already installed."""

import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.support.given import LINES, ODD, Given, delta
from tests.support.house import House
from tests.support.wheel import python, wheel, with_spark

pytestmark = [pytest.mark.chain, pytest.mark.xdist_group("wheel")]
__all__ = ["python", "wheel", "with_spark"]  # fixtures


def test_the_wheel_has_the_files_that_it_reads_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    page = [f"observe/report/{name}" for name in ("page.html.j2", "macros.html.j2", "page.css", "page.js")]
    for needed in (
        "_conf/formats/log4j.yaml",
        "_conf/prod.yaml",
        "_conf/expectations/silver.access_log.json",
        "common/spark/log4j2.properties",
        "common/spark/DirectFileSystem.java",
        *page,
        *(f"lab/project/{name}.j2" for name in ("local.yaml", "oncelake.service", "gitignore")),
    ):
        assert f"oncelake/{needed}" in names
    own = ("crash_test", "sink_test", "format_tests")  # commands of the product
    assert not [name for name in names if "test" in name and not any(word in name for word in own)]
    tops = {name.split("/")[0] for name in names}
    assert tops == {"oncelake", next(top for top in tops if top.endswith(".dist-info"))}


def test_without_spark_a_one_line_error_says_what_to_install(python: str) -> None:
    done = subprocess.run(
        [Path(python).with_name("oncelake"), "--version"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("oncelake: this Python has no pyspark: install oncelake[local]")
    assert done.stderr.count("\n") == 1


def test_the_chain_runs_from_the_wheel_in_a_given_session(with_spark: str, house: House) -> None:
    house.write("a.log", *LINES)
    given = Given(delta(), databricks="17.3", python=with_spark)
    (_, said), after = given.calls(house, ["run", "--once", *house.options], ["prove", *house.options])
    assert {key: after[key] for key in ODD} == ODD
    house.must_be(LINES)
    assert "holds" in said
